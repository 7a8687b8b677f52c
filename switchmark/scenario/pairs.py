"""The scenario `pairs`: N sender/receiver or client/server pairs on one host.

Each application is in a node of its own with one port. All ports go to the one switch under
test, or, when the switch is `direct`, each pair is joined by a wire.
"""

from __future__ import annotations

from switchmark.campaign.model import Dimension, Trial
from switchmark.scenario.topology import (
    Link,
    Path,
    Topology,
    TopologyNode,
    check_pairs,
    pair_ip,
    pair_mac,
)

# By dimension: for each end, how its nodes are called (at most 3 letters: they end the names
# of devices) and the engine's role there.
ENDS = {
    Dimension.THROUGHPUT: (("tx", "sender"), ("rx", "receiver")),
    Dimension.LATENCY: (("cl", "client"), ("sv", "server")),
}


def expand(trial: Trial) -> Topology:
    """The topology of a trial. Raises UsageError."""
    check_pairs(trial)
    direct = trial.switch == "direct"
    nodes = tuple(_node(trial, pair, end) for pair in range(trial.pairs) for end in (0, 1))
    both_ways = trial.dimension is Dimension.LATENCY
    return Topology(
        nodes=nodes,
        links=tuple(
            Link(node.name, nodes[node.port_index ^ 1].name if direct else None) for node in nodes
        ),
        paths=tuple(
            Path(pair, pair, nodes[2 * pair].name, nodes[2 * pair + 1].name, both_ways)
            for pair in range(trial.pairs)
        ),
        direct=direct,
        frame_size_bytes=trial.frame_sizes.largest,
    )


def _node(trial: Trial, pair: int, end: int) -> TopologyNode:
    prefix, role = ENDS[trial.dimension][end]
    return TopologyNode(
        name=f"{prefix}{pair}",
        role=role,
        pair=pair,
        end=end,
        mac=pair_mac(pair, end),
        ip=pair_ip(pair, end),
    )
