"""The scenario `loopback`: from a wire through a chain of N VNFs and out again (`loopback-N`).

The switch is crossed N + 1 times. Several chains beside each other, each with wires of its
own, are `chains-MxN`: M chains of N VNFs. What the VNFs are is the key `vnf`. With the key `split`
they have one sender and one receiver in common (split.py).
"""

from __future__ import annotations

from switchmark.model.topology import NodePlace, Topology
from switchmark.model.trial import Trial
from switchmark.scenario.support.layout import lay_out
from switchmark.scenario.support.split import lay_out_split

PLACES = (NodePlace.WIRE, NodePlace.WIRE)  # of the ends


def expand(trial: Trial, chain: int = 1) -> Topology:
    """The topology of a trial."""
    if trial.split != "none":
        return lay_out_split(trial, chain)
    return lay_out(trial, PLACES, chain)
