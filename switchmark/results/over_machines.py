"""Compares two contenders over the machines that measured both, B against A.

On each machine, the pairs of its blocks are compared. statistics/machines.py combines the ratios of
the machines. The records may belong to one run of a pool of testbeds, or to several runs, and a
machine may have measured in more than one of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from switchmark.model.parameter_table import RESOLVED_BY_PLAN, point_of
from switchmark.record.metric import Metric
from switchmark.record.page_sizes import Point, apart, is_compared, known_sizes, point_at
from switchmark.results.answer import metrics_of, observations
from switchmark.results.blocks import Observed, as_block_trials
from switchmark.results.machine_id import MachineId, name_machines
from switchmark.results.run_directory import Run
from switchmark.statistics.machines import MIN_MACHINES, RatioOverMachines, over_machines
from switchmark.statistics.means import LEVEL
from switchmark.statistics.paired import LogRatio, PairedRatio, pairs_of, ratio_of
from switchmark.statistics.states import state_figures

_PAGES_DIFFER = (
    "DPDK's memory has pages of different sizes on these machines, and each size is compared "
    "separately; to compare them together, measure all with --set page_size=4KiB"
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
class _RunPart:
    """One run's observations at one point on one machine."""

    observed: list[Observed] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)  # ids of contenders, by name
    done: dict[str, str] = field(default_factory=dict)  # modes, version and buffers, by name

    def page_size(self, names: tuple[str, str]) -> int | None:
        """Return the page size of these contenders' DPDK memory, which is equal in all
        observations."""
        return next(iter(known_sizes(one.page_size_kib for one in self._of(names))), None)

    def by_page_size(self, names: tuple[str, str]) -> Iterator[tuple[int | None, _RunPart]]:
        """Yield the observations for each page size of these contenders' DPDK memory; observations
        without a page size belong to each."""
        own_observations = {id(observed) for observed in self._of(names)}
        others = [observed for observed in self.observed if id(observed) not in own_observations]
        for size, alike in apart(self._of(names), lambda observed: observed.page_size_kib):
            yield size, replace(self, observed=[*alike, *others])

    def _of(self, names: tuple[str, str]) -> list[Observed]:
        ids = {self.ids.get(name) for name in names}
        return [one for one in self.observed if one.contender in ids]


def contenders_of(names: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the contenders that any of the runs has, in their order."""
    return list(dict.fromkeys(name for run_names in names for name in run_names.values()))


def compare_over_machines(
    runs: Sequence[tuple[Run, Mapping[str, str]]], a: str, b: str, metrics: Sequence[Metric]
) -> OverMachines:
    """Compare B with A. Each run comes with the names of its contenders, by the ids of their first
    trials."""
    return _compared(_collect(runs), a, b, metrics)


def run_over_machines(
    run: Run, names: Mapping[str, str], order: Sequence[str], metrics: Sequence[Metric]
) -> list[OverMachines]:
    """Compare each contender with the first one in `order`, if more than one machine measured both;
    empty for a run of one machine."""
    if len(order) < 2 or not metrics:
        return []
    observations_by_point = _collect([(run, names)])
    if len({machine for of_point in observations_by_point.values() for machine in of_point}) < 2:
        return []
    comparisons = [
        _compared(observations_by_point, order[0], other, metrics) for other in order[1:]
    ]
    return [
        comparison
        for comparison in comparisons
        if any(figure.over is not None for figure in comparison.figures)
    ]


def _collect(
    runs: Sequence[tuple[Run, Mapping[str, str]]],
) -> dict[Point, dict[MachineId, list[_RunPart]]]:
    parts: dict[Point, dict[MachineId, list[_RunPart]]] = defaultdict(lambda: defaultdict(list))
    for run, names in runs:
        for (point, machine), part in _read_parts(run, names).items():
            parts[point][machine].append(part)
    return parts


def _compared(
    observations_by_point: Mapping[Point, Mapping[MachineId, list[_RunPart]]],
    a: str,
    b: str,
    metrics: Sequence[Metric],
) -> OverMachines:
    machines = name_machines(
        machine for of_point in observations_by_point.values() for machine in of_point
    )
    figures, remarks = [], []
    for point, of_point in observations_by_point.items():
        called = {machines[machine]: parts for machine, parts in sorted(of_point.items())}
        both = {
            m: parts for m, parts in called.items() if any({a, b} <= p.ids.keys() for p in parts)
        }
        if not both:
            continue
        for at, alike in _by_page_size(point, both, (a, b)):
            figures += list(_figures(at, alike, a, b, metrics))
            if at != point:
                remarks.append(_PAGES_DIFFER)
        remarks += list(_differing_contenders(both, (a, b)))
    taken = {machine_figure.machine for figure in figures for machine_figure in figure.machines}
    known = tuple(sorted(taken))
    remarks += [
        f"{name}: has not measured both, left out" for name in sorted({*machines.values()} - taken)
    ]
    return OverMachines(a, b, known, tuple(figures), tuple(dict.fromkeys(remarks)))


def _by_page_size(
    point: Point, machines: Mapping[str, list[_RunPart]], names: tuple[str, str]
) -> Iterator[tuple[Point, dict[str, list[_RunPart]]]]:
    """Yield the runs of each machine, for each page size of the DPDK memory of these contenders."""
    if is_compared(dict(point).get("compared") or ""):
        yield point, dict(machines)
        return
    runs = [
        (machine, part)
        for machine, parts in machines.items()
        for whole in parts
        for _, part in whole.by_page_size(names)
    ]
    for size, alike in apart(runs, lambda run: run[1].page_size(names)):
        parts_by_machine: dict[str, list[_RunPart]] = defaultdict(list)
        for machine, part in alike:
            parts_by_machine[machine].append(part)
        yield point_at(point, size), parts_by_machine


def _read_parts(run: Run, names: Mapping[str, str]) -> dict[tuple[Point, MachineId], _RunPart]:
    parts: dict[tuple[Point, MachineId], _RunPart] = defaultdict(_RunPart)
    for observation, record in observations(run):
        name = names.get(observation.contender)
        if name is None:  # the baseline
            continue
        machine = MachineId.of(record.provenance, run.info.host)
        part = parts[point_of(record.trial), machine]
        part.observed.append(observation)
        part.ids[name] = observation.contender
        if record.status == "finished":
            done = [getattr(record, value) for value in RESOLVED_BY_PLAN]
            version = record.switch_details.get("version", "")
            if record.granted is not None and record.granted.receive_buffer_bytes is not None:
                done.append(f"socket buffers of {record.granted.receive_buffer_bytes} bytes")
            part.done[name] = ", ".join(str(value) for value in [*done, version] if value)
    return parts


def _figures(
    point: Point, machines: Mapping[str, list[_RunPart]], a: str, b: str, metrics: Sequence[Metric]
) -> Iterator[FigureOverMachines]:
    everything = [
        machine_figure
        for parts in machines.values()
        for part in parts
        for machine_figure in part.observed
    ]
    for metric in metrics_of(everything):
        if metric not in metrics:
            continue
        on = [_on_machine(name, parts, a, b, metric) for name, parts in machines.items()]
        ratios = [machine_figure.ratio for machine_figure in on if machine_figure.ratio is not None]
        over = over_machines(ratios) if len(ratios) >= MIN_MACHINES else None
        yield FigureOverMachines(point, metric, tuple(on), over)


def _on_machine(name: str, parts: Sequence[_RunPart], a: str, b: str, metric: Metric) -> OnMachine:
    """Compare on one machine. Pairs do not mix the states and blocks of different runs."""
    pairs: list[LogRatio] = []
    for part in parts:
        if {a, b} <= part.ids.keys():
            trials = as_block_trials(part.observed, metric)
            run_pairs = pairs_of(trials, state_figures(trials), part.ids[b], part.ids[a])
            pairs += [
                replace(pair, block=len(pairs) + place) for place, pair in enumerate(run_pairs)
            ]
    return OnMachine(name, ratio_of(pairs), len(pairs))


def _differing_contenders(
    machines: Mapping[str, Sequence[_RunPart]], names: Iterable[str]
) -> Iterator[str]:
    """Yield a line for each contender that is not the same on all machines."""
    for name in names:
        machines_of: dict[str, list[str]] = defaultdict(list)
        for machine, parts in machines.items():
            for description in dict.fromkeys(
                part.done[name] for part in parts if name in part.done
            ):
                machines_of[description].append(machine)
        if len(machines_of) > 1:
            where = "; ".join(
                f"{description} on {', '.join(on)}" for description, on in machines_of.items()
            )
            yield f"{name} is not the same on all machines: {where}"
