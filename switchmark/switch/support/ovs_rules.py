"""The OpenFlow rules of an Open vSwitch bridge, the same for every datapath: NORMAL for learning,
one rule a port for cross-connect, one rule a MAC address for static-mac (anything else drops)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from switchmark.model.ports import ConnectMode, Split, SwitchPort
from switchmark.switch.support.ports import peer_index


def openflow_port(index: int) -> int:
    """The OpenFlow number of a port, from 1."""
    return index + 1


def rules(ports: Iterable[SwitchPort], mode: ConnectMode, split: Split | None = None) -> list[str]:
    """The OpenFlow rules of the connect mode."""
    if split is not None:
        return split_rules(split)
    if mode is ConnectMode.LEARNING:
        return ["actions=NORMAL"]
    if mode is ConnectMode.STATIC_MAC:
        return [f"dl_dst={port.mac},actions=output:{openflow_port(port.index)}" for port in ports]
    return _wires({port.index: peer_index(port.index) for port in ports})


def _wires(peers: Mapping[int, int]) -> list[str]:
    return [
        f"in_port={openflow_port(index)},actions=output:{openflow_port(peer)}"
        for index, peer in sorted(peers.items())
    ]


def split_rules(split: Split) -> list[str]:
    """The rules of a cross-connect that deals the frames of port 0 out. From the last port one way
    leads back, through the first chain."""
    peers = {0: split.heads[0], split.last: split.tails[0]}
    peers |= {index: index ^ 1 for index in range(1, split.last)}
    peers |= dict.fromkeys(split.heads, 0) | dict.fromkeys(split.tails, split.last)
    lines, entry = _wires(peers), openflow_port(0)
    if split.by == "flow":
        hashed = f"multipath(symmetric_l4,0,modulo_n,{split.chains},0,NXM_NX_REG0[])"
        deal = [f"priority=40000,in_port={entry},actions={hashed},resubmit(,1)"]
        return lines + deal + [
            f"table=1,reg0={chain},actions=output:{openflow_port(head)}"
            for chain, head in enumerate(split.heads)
        ]  # fmt: skip
    return lines + [
        f"priority=40000,in_port={entry},dl_src={mac},actions=output:{openflow_port(head)}"
        for mac, head in zip(split.source_macs, split.heads, strict=True)
    ]
