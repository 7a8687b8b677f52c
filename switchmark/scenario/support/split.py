"""`chains-MxN` with `split`: one sender, M chains of N VNFs, one receiver.

The switch distributes the sender's frames over the chains, by a hash of the flow or by the source
MAC address, of which the sender has one for each chain, and joins them again. Port 0 belongs to the
sender, the last port to the receiver, and the ports between them to the chains in order.
"""

from __future__ import annotations

from switchmark.model.choices import rewrites
from switchmark.model.ports import Split
from switchmark.model.topology import (
    NodePlace,
    Topology,
    TopologyNode,
    TopologyPort,
    TrafficPath,
    port_mac,
)
from switchmark.model.trial import Trial
from switchmark.scenario.support.layout import ENDS, fits, pair_ip


def lay_out_split(trial: Trial, chain: int) -> Topology:
    """Return the topology of a trial with a split."""
    assert fits(trial.pairs, chain), "campaign/rules/layout.py refuses it"
    split = split_of(trial, chain)
    assert split is not None
    (source, source_role), (target, target_role) = ENDS[trial.dimension]
    ends = (f"{source}0", f"{target}0")
    vnfs = [
        TopologyNode(
            f"v{number}-{k}",
            "vnf",
            number,
            tuple(_between(trial, split, head + 2 * (k - 1) + side) for side in (0, 1)),
        )
        for number, head in enumerate(split.heads)
        for k in range(1, chain + 1)
    ]
    first, last = _end(trial, split, 0), _end(trial, split, split.last)
    nodes = (
        TopologyNode(ends[0], source_role, 0, (first,), NodePlace.WIRE),
        *vnfs,
        TopologyNode(ends[1], target_role, 0, (last,), NodePlace.WIRE),
    )
    path = TrafficPath(0, 0, *ends, False, tuple(node.name for node in vnfs), split.chains)
    return Topology(nodes, (path,), False, trial.frame_sizes.largest)


def split_of(trial: Trial, vnfs: int) -> Split | None:
    """Return the distribution of frames over chains of `vnfs` VNFs; None if there is no split."""
    if trial.split == "none":
        return None
    base = int(port_mac(0).replace(":", ""), 16)
    macs = ((base + chain).to_bytes(6, "big").hex(":") for chain in range(trial.pairs))
    return Split(by=trial.split, chains=trial.pairs, vnfs=vnfs, source_macs=tuple(macs))


def _end(trial: Trial, split: Split, index: int) -> TopologyPort:
    """Return the port of the sender or the receiver. Frames in the other direction take the first
    chain. If VNFs do not rewrite addresses, frames are addressed to the other end."""
    end = int(index != 0)
    beyond = split.tails[0] if end else split.heads[0]
    if not rewrites(trial.vnf):
        beyond = 0 if end else split.last
    return TopologyPort(index, port_mac(index), pair_ip(0, end), port_mac(beyond),
                        pair_ip(0, 1 - end))  # fmt: skip


def _between(trial: Trial, split: Split, index: int) -> TopologyPort:
    """Return a port of a VNF. Its own address is not used if the VNF does not rewrite addresses."""
    beyond = index ^ 1
    if index in split.heads:
        beyond = 0
    elif index in split.tails:
        beyond = split.last
    next_mac = port_mac(beyond) if rewrites(trial.vnf) else port_mac(split.last)
    return TopologyPort(index, port_mac(index), "", next_mac, "")
