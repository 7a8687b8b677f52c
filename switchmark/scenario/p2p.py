"""The scenario `p2p`: from wire to wire through the switch, no application beside it.

Both ends are wire ends: a tester outside of the environment stands in for one behind a
physical port.
"""

from __future__ import annotations

from switchmark.model.topology import NodePlace, Topology
from switchmark.model.trial import Trial
from switchmark.scenario.support.layout import lay_out

PLACES = (NodePlace.WIRE, NodePlace.WIRE)  # of the ends


def expand(trial: Trial, chain: int = 0) -> Topology:
    """The topology of a trial."""
    return lay_out(trial, PLACES, chain)
