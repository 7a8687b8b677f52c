"""The scenario `p2v`: from a wire into the environment: traffic that a host receives."""

from __future__ import annotations

from switchmark.model.topology import NodePlace, Topology
from switchmark.model.trial import Trial
from switchmark.scenario.support.layout import lay_out

PLACES = (NodePlace.WIRE, NodePlace.ENVIRONMENT)  # of the ends


def expand(trial: Trial, chain: int = 0) -> Topology:
    """The topology of a trial."""
    return lay_out(trial, PLACES, chain)
