"""The time of the bench around a trial: deploy, verify, take down.

A usual time is known for each switch, and for each container and virtual machine that is started.
The times of earlier trials on this machine give a factor on it: from trials of the same switch in
as many machines, otherwise from trials in as many machines, otherwise from all trials.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from switchmark.environment.registry import ENVIRONMENTS, traits_of
from switchmark.model.topology import NodePlace
from switchmark.model.trial import Trial
from switchmark.scenario.registry import expand
from switchmark.switch.registry import usual_overhead_s
from switchmark.switch.support.contained import HOST

LATEST = 32  # trials for a factor, since a machine may be busy for a while


def usual_around_s(trial: Trial) -> float:
    """Return the usual seconds around this trial: rough, and longer on a busy machine."""
    place = trial.switch_environment
    switch_s = 0.0 if place == HOST else 2 * _start_s(place)
    nodes_s = _start_s(trial.environment)
    nodes_s = nodes_s and nodes_s * machines_of(trial)
    return usual_overhead_s(trial.switch) + switch_s + nodes_s


def machines_of(trial: Trial) -> int:
    """Return the number of containers or virtual machines for the trial, without the switch."""
    return sum(node.place is NodePlace.ENVIRONMENT for node in expand(trial).nodes)


def _start_s(environment: str) -> float:
    """Return the start time of a node in this environment. Without KVM, guests are emulated."""
    if environment not in ENVIRONMENTS:  # the run comes from another installation
        return 0.0
    traits = traits_of(environment)
    if not traits.guests:
        return traits.start_s
    from switchmark.environment.qemu import has_kvm  # most plans have no guests

    return traits.start_s if has_kvm() else traits.emulated_start_s


class Around:
    """The time around trials on this machine, learnt from trials that have run."""

    def __init__(self) -> None:
        self._factors: dict[tuple[object, ...], list[float]] = defaultdict(list)

    def learn(self, trial: Trial, overhead_s: float) -> None:
        """Store the time of the bench around a trial."""
        factor = overhead_s / usual_around_s(trial)
        for kind in _kinds(trial):
            self._factors[kind] = [*self._factors[kind], factor][-LATEST:]

    def of(self, trial: Trial) -> float:
        """Return the expected seconds around this trial."""
        known = next(filter(None, (self._factors.get(kind) for kind in _kinds(trial))), [1.0])
        return usual_around_s(trial) * median(known)


def _kinds(trial: Trial) -> Iterator[tuple[object, ...]]:
    """Yield the properties that other trials may share with this trial, the most similar first."""
    where = trial.environment, trial.switch_environment, trial.location
    alike = (*where, trial.method, machines_of(trial))
    yield (*alike, trial.switch)
    yield alike
    yield ()
