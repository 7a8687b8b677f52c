"""`chains-MxN` with `split`: one sender, M chains of N VNFs, one receiver.

The switch deals the sender's frames out to the chains, by the source MAC address (the sender then
has one for each chain) or by a hash of the flow, and joins them again. Port 0 is the sender's,
the last the receiver's; in between come the chains, one after the other.
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
    """The topology of a trial."""
    assert fits(trial.pairs, chain), "campaign/rules/layout.py refuses it"
    split = split_of(trial, chain)
    assert split is not None
    (source, near), (target, far) = ENDS[trial.dimension]
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
        TopologyNode(ends[0], near, 0, (first,), NodePlace.WIRE),
        *vnfs,
        TopologyNode(ends[1], far, 0, (last,), NodePlace.WIRE),
    )
    path = TrafficPath(0, 0, *ends, False, tuple(node.name for node in vnfs), split.chains)
    return Topology(nodes, (path,), False, trial.frame_sizes.largest)


def split_of(trial: Trial, vnfs: int) -> Split | None:
    """How the switch deals frames out to chains of so many VNFs; None where nothing is split."""
    if trial.split == "none":
        return None
    base = int(port_mac(0).replace(":", ""), 16)
    macs = ((base + chain).to_bytes(6, "big").hex(":") for chain in range(trial.pairs))
    return Split(by=trial.split, chains=trial.pairs, vnfs=vnfs, source_macs=tuple(macs))


def _end(trial: Trial, split: Split, index: int) -> TopologyPort:
    """The port of the sender or the receiver; what goes back goes through the first chain. Where
    VNFs keep addresses, frames are for the other end."""
    end = int(index != 0)
    beyond = split.tails[0] if end else split.heads[0]
    if not rewrites(trial.vnf):
        beyond = 0 if end else split.last
    return TopologyPort(index, port_mac(index), pair_ip(0, end), port_mac(beyond),
                        pair_ip(0, 1 - end))  # fmt: skip


def _between(trial: Trial, split: Split, index: int) -> TopologyPort:
    """A port of a VNF. A VNF that keeps addresses needs none of its own."""
    beyond = index ^ 1
    if index in split.heads:
        beyond = 0
    elif index in split.tails:
        beyond = split.last
    next_mac = port_mac(beyond) if rewrites(trial.vnf) else port_mac(split.last)
    return TopologyPort(index, port_mac(index), "", next_mac, "")
