"""The scenario `p2p`: from wire to wire through the switch, no application beside it.

Both ends are wire ends: a tester outside of the environment stands in for one behind a
physical port.
"""

from __future__ import annotations

from switchmark.model.topology import NodePlace, Topology
from switchmark.model.trial import Trial
from switchmark.scenario.support.layout import lay_out


def expand(trial: Trial, chain: int = 0) -> Topology:
    """The topology of a trial. Raises UsageError."""
    return lay_out(trial, (NodePlace.WIRE, NodePlace.WIRE), chain)
