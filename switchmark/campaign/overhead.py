"""The bench's own time around a trial: deploying, verifying, taking down.

What is usual is known of each switch, and of each container and virtual machine that is started
for a trial, one after the other. What trials took on this machine goes before it, as a factor: that
of the same switch in as many machines, else of as many machines, else of any trial.
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

LATEST = 32  # trials of a kind that tell a factor: a machine may be busy for a while


def usual_around_s(trial: Trial) -> float:
    """Seconds that are usual around this trial; rough, and longer on a busy machine."""
    place = trial.switch_environment
    switch_s = 0.0 if place == HOST else 2 * _start_s(place)
    nodes_s = _start_s(trial.environment)
    nodes_s = nodes_s and nodes_s * machines_of(trial)
    return usual_overhead_s(trial.switch) + switch_s + nodes_s


def machines_of(trial: Trial) -> int:
    """The containers or virtual machines that are started for the trial, without its switch's."""
    return sum(node.place is NodePlace.ENVIRONMENT for node in expand(trial).nodes)


def _start_s(environment: str) -> float:
    """Of each node in it. A guest that was not tried yet counts as an emulated one: too much time
    is given rather than too little."""
    if environment not in ENVIRONMENTS:  # in a run of another installation
        return 0.0
    traits = traits_of(environment)
    if not traits.guests:
        return traits.start_s
    from switchmark.environment.qemu import has_kvm  # most plans have no guests

    return traits.start_s if has_kvm() else traits.emulated_start_s


class Around:
    """The time around trials here, learnt from those that have run."""

    def __init__(self) -> None:
        self._factors: dict[tuple[object, ...], list[float]] = defaultdict(list)

    def learn(self, trial: Trial, overhead_s: float) -> None:
        """Note how long the bench itself took around a trial."""
        factor = overhead_s / usual_around_s(trial)
        for kind in _kinds(trial):
            self._factors[kind] = [*self._factors[kind], factor][-LATEST:]

    def of(self, trial: Trial) -> float:
        """Return the seconds around this trial, as far as they are known."""
        known = next(filter(None, (self._factors.get(kind) for kind in _kinds(trial))), [1.0])
        return usual_around_s(trial) * median(known)


def _kinds(trial: Trial) -> Iterator[tuple[object, ...]]:
    """Return the properties that other trials may share with this trial, the most first."""
    where = trial.environment, trial.switch_environment, trial.location
    alike = (*where, trial.method, machines_of(trial))
    yield (*alike, trial.switch)
    yield alike
    yield ()
