"""The scenario `pairs`: N sender/receiver or client/server pairs on one host.

Each application is in a node of its own with one port. All ports go to the one switch under
test, or, when the switch is `direct`, each pair is joined by a wire. `pairs-N` says how many.
"""

from __future__ import annotations

from switchmark.model.topology import NodePlace, Topology
from switchmark.model.trial import Trial
from switchmark.scenario.support.layout import lay_out

PLACES = (NodePlace.ENVIRONMENT, NodePlace.ENVIRONMENT)  # of the ends


def expand(trial: Trial, chain: int = 0) -> Topology:
    """The topology of a trial."""
    return lay_out(trial, PLACES, chain)
