"""The scenario `v2p`: from the environment to a wire: traffic that a host sends."""

from __future__ import annotations

from switchmark.model.topology import NodePlace, Topology
from switchmark.model.trial import Trial
from switchmark.scenario.support.layout import lay_out

PLACES = (NodePlace.ENVIRONMENT, NodePlace.WIRE)  # of the ends


def expand(trial: Trial, chain: int = 0) -> Topology:
    """The topology of a trial."""
    return lay_out(trial, PLACES, chain)
