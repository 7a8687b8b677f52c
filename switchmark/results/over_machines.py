"""Compares two contenders over the machines that measured both, B against A.

On each machine, pairs of its blocks are compared, which are never split; statistics/machines.py
combines the machines' ratios. The records may be of one run (of a pool of testbeds) or of several,
and a machine may have measured in more than one of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from switchmark.model.parameter_table import RESOLVED_BY_PLAN, point_of
from switchmark.record.metric import Metric
from switchmark.record.page_sizes import Point, apart, is_compared, known_sizes, point_at
from switchmark.results.answer import metrics_of, observations
from switchmark.results.blocks import Observed, as_block_trials
from switchmark.results.machine_id import MachineId, told_apart
from switchmark.results.run_directory import Run
from switchmark.statistics.machines import MIN_MACHINES, RatioOverMachines, over_machines
from switchmark.statistics.means import LEVEL
from switchmark.statistics.paired import LogRatio, PairedRatio, pairs_of, ratio_of
from switchmark.statistics.states import state_figures

_PAGES_DIFFER = (
    "DPDK's memory has pages of different sizes on these machines: each size is compared by "
    "itself; measure all with --set page_size=4KiB"
)


@dataclass(frozen=True, slots=True)
class OnMachine:
    """The ratio on one machine, over all its states."""

    machine: str
    ratio: PairedRatio | None  # B / A of the figure; None: too few pairs
    pairs: int


@dataclass(frozen=True, slots=True)
class FigureOverMachines:
    """One figure at one point."""

    point: Point
    metric: Metric
    machines: tuple[OnMachine, ...]
    over: RatioOverMachines | None  # None: fewer than two machines have a ratio


@dataclass(frozen=True, slots=True)
class OverMachines:
    """The comparison of two contenders over machines."""

    a: str
    b: str
    machines: tuple[str, ...]
    figures: tuple[FigureOverMachines, ...]
    remarks: tuple[str, ...]
    level: float = LEVEL


@dataclass
class _Held:
    """One run's observations at one point on one machine."""

    observed: list[Observed] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)  # of contenders, by their names
    done: dict[str, str] = field(default_factory=dict)  # what became of `auto`, by their names

    def page_size(self, names: tuple[str, str]) -> int | None:
        """The page size of these contenders' DPDK memory, which is the same in all observations."""
        return next(iter(known_sizes(one.page_size_kib for one in self._of(names))), None)

    def by_page_size(self, names: tuple[str, str]) -> Iterator[tuple[int | None, _Held]]:
        """The observations for each page size of these contenders' DPDK memory; the observations
        without one are among those of each."""
        own = {id(one) for one in self._of(names)}
        others = [one for one in self.observed if id(one) not in own]
        for size, alike in apart(self._of(names), lambda one: one.page_size_kib):
            yield size, replace(self, observed=[*alike, *others])

    def _of(self, names: tuple[str, str]) -> list[Observed]:
        ids = {self.ids.get(name) for name in names}
        return [one for one in self.observed if one.contender in ids]


def contenders_of(names: Iterable[Mapping[str, str]]) -> list[str]:
    """The contenders that any of the runs has, in their order."""
    return list(dict.fromkeys(name for held in names for name in held.values()))


def compare_over_machines(
    runs: Sequence[tuple[Run, Mapping[str, str]]], a: str, b: str, wanted: Sequence[Metric]
) -> OverMachines:
    """Compare B with A. Each run comes with the names of its contenders, by the ids of their first
    trials."""
    return _compared(_everything(runs), a, b, wanted)


def run_over_machines(
    run: Run, names: Mapping[str, str], order: Sequence[str], wanted: Sequence[Metric]
) -> list[OverMachines]:
    """Compare each contender with the first in `order`, where more than one machine measured both;
    empty for a run of one machine."""
    if len(order) < 2 or not wanted:
        return []
    held = _everything([(run, names)])
    if len({machine for of_point in held.values() for machine in of_point}) < 2:
        return []
    found = [_compared(held, order[0], other, wanted) for other in order[1:]]
    return [one for one in found if any(figure.over is not None for figure in one.figures)]


def _everything(
    runs: Sequence[tuple[Run, Mapping[str, str]]],
) -> dict[Point, dict[MachineId, list[_Held]]]:
    held: dict[Point, dict[MachineId, list[_Held]]] = defaultdict(lambda: defaultdict(list))
    for run, names in runs:
        for (point, machine), found in _held(run, names).items():
            held[point][machine].append(found)
    return held


def _compared(
    held: Mapping[Point, Mapping[MachineId, list[_Held]]],
    a: str,
    b: str,
    wanted: Sequence[Metric],
) -> OverMachines:
    machines = told_apart(machine for of_point in held.values() for machine in of_point)
    figures, remarks = [], []
    for point, of_point in held.items():
        called = {machines[machine]: parts for machine, parts in sorted(of_point.items())}
        both = {
            m: parts for m, parts in called.items() if any({a, b} <= p.ids.keys() for p in parts)
        }
        if not both:
            continue
        for at, alike in _by_page_size(point, both, (a, b)):
            figures += list(_figures(at, alike, a, b, wanted))
            if at != point:
                remarks.append(_PAGES_DIFFER)
        remarks += list(_done_otherwise(both, (a, b)))
    taken = {one.machine for figure in figures for one in figure.machines}
    known = tuple(sorted(taken))
    remarks += [
        f"{name}: has not measured both, left out" for name in sorted({*machines.values()} - taken)
    ]
    return OverMachines(a, b, known, tuple(figures), tuple(dict.fromkeys(remarks)))


def _by_page_size(
    point: Point, machines: Mapping[str, list[_Held]], names: tuple[str, str]
) -> Iterator[tuple[Point, dict[str, list[_Held]]]]:
    """The runs of each machine, for each page size of the DPDK memory of these two contenders."""
    if is_compared(dict(point).get("compared") or ""):
        yield point, dict(machines)
        return
    runs = [
        (machine, part)
        for machine, parts in machines.items()
        for held in parts
        for _, part in held.by_page_size(names)
    ]
    for size, alike in apart(runs, lambda run: run[1].page_size(names)):
        found: dict[str, list[_Held]] = defaultdict(list)
        for machine, part in alike:
            found[machine].append(part)
        yield point_at(point, size), found


def _held(run: Run, names: Mapping[str, str]) -> dict[tuple[Point, MachineId], _Held]:
    found: dict[tuple[Point, MachineId], _Held] = defaultdict(_Held)
    for seen, record in observations(run):
        name = names.get(seen.contender)
        if name is None:  # the bare wire
            continue
        machine = MachineId.of(record.provenance, run.info.host)
        here = found[point_of(record.trial), machine]
        here.observed.append(seen)
        here.ids[name] = seen.contender
        if record.status == "finished":
            done = [getattr(record, one) for one in RESOLVED_BY_PLAN]
            version = record.switch_details.get("version", "")
            if record.granted is not None and record.granted.receive_buffer_bytes is not None:
                done.append(f"socket buffers of {record.granted.receive_buffer_bytes} bytes")
            here.done[name] = ", ".join(str(one) for one in [*done, version] if one)
    return found


def _figures(
    point: Point, machines: Mapping[str, list[_Held]], a: str, b: str, wanted: Sequence[Metric]
) -> Iterator[FigureOverMachines]:
    everything = [one for parts in machines.values() for part in parts for one in part.observed]
    for metric in metrics_of(everything):
        if metric not in wanted:
            continue
        on = [_on_machine(name, parts, a, b, metric) for name, parts in machines.items()]
        ratios = [one.ratio for one in on if one.ratio is not None]
        over = over_machines(ratios) if len(ratios) >= MIN_MACHINES else None
        yield FigureOverMachines(point, metric, tuple(on), over)


def _on_machine(name: str, parts: Sequence[_Held], a: str, b: str, metric: Metric) -> OnMachine:
    """The comparison on one machine. Each run's states and blocks are its own."""
    pairs: list[LogRatio] = []
    for part in parts:
        if {a, b} <= part.ids.keys():
            trials = as_block_trials(part.observed, metric)
            found = pairs_of(trials, state_figures(trials), part.ids[b], part.ids[a])
            pairs += [replace(one, block=len(pairs) + place) for place, one in enumerate(found)]
    return OnMachine(name, ratio_of(pairs), len(pairs))


def _done_otherwise(machines: Mapping[str, Sequence[_Held]], names: Iterable[str]) -> Iterator[str]:
    """A line about a contender that is not the same on all machines."""
    for name in names:
        done: dict[str, list[str]] = defaultdict(list)
        for machine, parts in machines.items():
            for what in dict.fromkeys(part.done[name] for part in parts if name in part.done):
                done[what].append(machine)
        if len(done) > 1:
            where = "; ".join(f"{what} on {', '.join(on)}" for what, on in done.items())
            yield f"{name} is not the same on all machines: {where}"
