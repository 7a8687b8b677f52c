"""The scenario `v2v`: from one node of the environment to another through the switch.

The same nodes and ports as one of `pairs`, under the name that the literature gives it.
"""

from __future__ import annotations

from switchmark.model.topology import NodePlace, Topology
from switchmark.model.trial import Trial
from switchmark.scenario.support.layout import lay_out

PLACES = (NodePlace.ENVIRONMENT, NodePlace.ENVIRONMENT)  # of the ends


def expand(trial: Trial, chain: int = 0) -> Topology:
    """The topology of a trial."""
    return lay_out(trial, PLACES, chain)
