"""History of figures: how a figure changed over versions and dates, in the runs of a folder. A
series has one workload, one configuration and one machine, with the places where the level changed.

The table of parameters determines which trials are equal. The path of a program is ignored, because
each build has its own folder, and so is the length of samples. The unit is the run, because
repetitions of one run are more alike than runs are (statistics/series.py)."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from switchmark.model.parameter_table import KEYS, PARAMETERS
from switchmark.model.value import parse_utc
from switchmark.model.workload import FRAMES
from switchmark.record import serves_others
from switchmark.record.metric import Metric
from switchmark.record.page_sizes import PARAMETER as PAGE_SIZE
from switchmark.record.page_sizes import Point, setting_of
from switchmark.results.comparable import host_differences, method_figures
from switchmark.results.machine_id import MachineId, name_machines
from switchmark.results.origins import Origin, read_origins
from switchmark.results.query import read_table
from switchmark.results.run_directory import open_run
from switchmark.results.run_info import RunInfo
from switchmark.statistics.comparison import THRESHOLD
from switchmark.statistics.series import ChangePoint, find_changes

# A series is about one switch, so the switch is not part of its workload.
_OF_THE_WORKLOAD = [
    one.field for one in KEYS if one.of_result and not one.is_path and one.field != "switch"
]
_MOST_DIFFERENCES = 4

_Key = tuple[str, MachineId, Point, Metric, str]  # the last item is the build of the engine


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run's part of a series."""

    directory: Path
    started_at: datetime
    version: str  # version of the switch; empty: unknown
    values: tuple[float, ...]  # values above 0 of valid repetitions
    trials: int  # repetitions, valid or not
    info: RunInfo = field(repr=False)
    zeros: int = 0  # number of valid repetitions with figure 0, which have no level
    program_build: str = ""  # build of the switch; empty: unknown
    granted: tuple[str, ...] = ()  # resources granted by the place; empty: older records

    @property
    def level(self) -> float:
        """Return the geometric mean of its repetitions, in the unit of the figure."""
        return statistics.geometric_mean(self.values)


def level_of(runs: Iterable[PastRun]) -> float:
    """Return the geometric mean of the levels of these runs."""
    return statistics.geometric_mean(run.level for run in runs)


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A change of the level of a series, at the first run of the new level."""

    run: PastRun
    before: PastRun
    point: ChangePoint
    differs: tuple[str, ...]  # differences of the hosts and benches of both runs

    @property
    def since(self) -> str:
        """Return the version and date of the change, as `version 3.1.2, 2026-03-01`."""
        date = self.run.started_at.strftime("%Y-%m-%d")
        if self.run.version and self.run.version != self.before.version:
            return f"version {self.run.version}, {date}"
        if not self.run.version:
            return date
        builds = self.before.program_build, self.run.program_build
        if all(builds) and builds[0] != builds[1]:
            return f"{date} (version as before, another build of it)"
        return f"{date} (version as before)"


@dataclass(frozen=True, slots=True)
class PastFigure:
    """One figure of one switch at one workload on one machine, over its runs."""

    switch: str
    machine: str
    workload: Point
    metric: Metric
    runs: tuple[PastRun, ...]  # oldest first
    changes: tuple[LevelChange, ...]  # oldest first
    engine_build: str = ""  # build of the engine of all its runs; empty: unknown
    has_twin: bool = False  # another series differs only in the build of the engine

    def in_words(self, varying: Sequence[str]) -> str:
        """Return the workload as text, with the build of the engine if another series differs in
        it."""
        text = in_words(self.workload, varying)
        return f"{text}, engine by {self.engine_build or 'unknown'}" if self.has_twin else text

    @property
    def usable(self) -> list[PastRun]:
        """Return the runs that have a value."""
        return [run for run in self.runs if run.values]

    @property
    def stretches(self) -> list[list[PastRun]]:
        """Return the usable runs between changes, oldest first."""
        usable = self.usable
        edges = [0, *(change.point.index for change in self.changes), len(usable)]
        return [usable[begin:end] for begin, end in pairwise(edges)]


@dataclass(frozen=True, slots=True)
class History:
    """All requested series, and a line for every file that could not be read."""

    figures: tuple[PastFigure, ...]
    problems: tuple[str, ...]

    @property
    def switches(self) -> list[str]:
        """Return the switches of all series."""
        return sorted({figure.switch for figure in self.figures})


def read_history(
    folders: Iterable[Path],
    metrics: Sequence[Metric],
    switch: str | None = None,
    threshold: float = THRESHOLD,
    *,
    with_zeros: bool = False,
) -> History:
    """Return the series of these results directories, for one switch or for all but the baseline.
    Changes below the threshold are left out, and also series without a figure above 0, unless
    `with_zeros`."""
    series: dict[_Key, list[PastRun]] = defaultdict(list)
    problems: list[str] = []
    for folder in folders:
        run = open_run(folder)
        table = read_table(folder)
        problems += table.problems
        rows = [row for row in table.frame.iter_rows(named=True) if _is_asked(row, switch)]
        if rows:
            for key, past in _of_run(folder, run.info, rows, read_origins(run), metrics):
                series[key].append(past)
    joined = _with_unknown_builds(series)
    series_but_for_builds = Counter(key[:-1] for key in joined)
    machines = name_machines(key[1] for key in joined)
    figures = [
        replace(
            _figure(name, machines[machine], workload, metric, runs, threshold),
            engine_build=build,
            has_twin=series_but_for_builds[name, machine, workload, metric] > 1,
        )
        for (name, machine, workload, metric, build), runs in joined.items()
        if any(row.values or (with_zeros and row.zeros) for row in runs)
    ]
    return History(tuple(sorted(figures, key=_order)), tuple(problems))


def in_words(workload: Point, varying: Sequence[str]) -> str:
    """Return the workload as text: the frame size, and the fields that differ between series."""
    values = dict(workload)
    first = "packet_size_bytes" if values.get("workload", FRAMES) == FRAMES else "workload"
    names = dict.fromkeys((first, *varying))
    parts = [PARAMETERS[name].words(values[name]) for name in names if name != PAGE_SIZE]
    if PAGE_SIZE in names and values.get(PAGE_SIZE):
        parts.append(f"page size {values[PAGE_SIZE]}")
    return ", ".join(parts)


def _is_asked(row: Mapping[str, Any], switch: str | None) -> bool:
    name = str(row["switch"])
    return not serves_others(name, row["is_baseline"]) if switch is None else name == switch


def _of_run(
    folder: Path,
    info: RunInfo,
    rows: Sequence[Mapping[str, Any]],
    origins: Mapping[str, Origin],
    metrics: Sequence[Metric],
) -> Iterator[tuple[_Key, PastRun]]:
    """Yield one run's part of every series. A run with two builds has an entry for each."""
    repetition_values: dict[tuple[_Key, str, str, str], list[float | None]] = defaultdict(list)
    granted: dict[tuple[_Key, str, str, str], set[str]] = defaultdict(set)
    for row in rows:
        origin = origins.get(row["trial_id"])
        if origin is None:
            continue
        for metric, value in _values(row, metrics):
            key = (row["switch"], origin.machine, _workload(row), metric, origin.engine_build)
            build = origin.program_build
            whole = key, origin.version, str(row["program"] or ""), build
            repetition_values[whole].append(value)
            granted[whole] |= _granted(row)
    for whole, trial_values in repetition_values.items():
        key, version, _, build = whole
        given = tuple(sorted(granted[whole]))
        usable = tuple(value for value in trial_values if value)
        started = parse_utc(info.started_at)
        zeros = trial_values.count(0.0)
        yield (
            key,
            PastRun(folder, started, version, usable, len(trial_values), info, zeros, build, given),
        )


def _granted(row: Mapping[str, Any]) -> set[str]:
    """Return the resources that the place granted, which may differ from run to run."""
    texts = set()
    if (received := row["receive_buffer_bytes"]) is not None:
        texts.add(f"socket buffers of {received} and {row['send_buffer_bytes']} bytes")
    if (scheduling_class := row["applications_class"]) is not None:
        texts.add(f"scheduling class {scheduling_class}")
    if (scheduling_class := row["switch_class"]) is not None:
        texts.add(f"scheduling class of the switch {scheduling_class}")
    return texts


def _with_unknown_builds(series: Mapping[_Key, list[PastRun]]) -> dict[_Key, list[PastRun]]:
    """Assign runs whose records lack the build of the engine to the series of the oldest known
    build."""
    known: dict[tuple[Any, ...], str] = {}
    for key in sorted(series, key=lambda key: min(run.started_at for run in series[key])):
        if key[-1]:
            known.setdefault(key[:-1], key[-1])
    joined: dict[_Key, list[PastRun]] = defaultdict(list)
    for key, runs in series.items():
        joined[(*key[:-1], key[-1] or known.get(key[:-1], ""))].extend(runs)
    return joined


def _values(
    row: Mapping[str, Any], metrics: Sequence[Metric]
) -> Iterator[tuple[Metric, float | None]]:
    """Yield the row's figures; None if the trial failed or is not valid."""
    is_valid = row["status"] == "finished" and row["valid"]
    figures = method_figures(row)
    is_plain = row["method"] == "plain"
    for metric in metrics:
        if row["dimension"] != metric.dimension.value:
            continue
        if is_plain == bool(metric.column) and (is_plain or metric.name in figures):
            value = row[metric.column] if metric.column else figures[metric.name]
            yield metric, float(value) if is_valid and value is not None and value >= 0 else None


def _workload(row: Mapping[str, Any]) -> Point:
    """Return the workload of a row. The page size is that of DPDK's memory, whether or not it was
    requested; None if no program uses DPDK's memory."""
    kib = row["page_size_kib"]
    size = None if kib is None else setting_of(int(kib))
    fields = ((name, row[name]) for name in _OF_THE_WORKLOAD if name != PAGE_SIZE)
    return (*fields, (PAGE_SIZE, size))


def _figure(
    switch: str,
    machine: str,
    workload: Point,
    metric: Metric,
    runs: Sequence[PastRun],
    threshold: float,
) -> PastFigure:
    ordered = tuple(sorted(runs, key=lambda run: (run.started_at, run.version)))
    figure = PastFigure(switch, machine, workload, metric, ordered, ())
    usable = figure.usable
    changes = []
    for point in find_changes([run.values for run in usable], threshold):
        before, after = usable[point.index - 1], usable[point.index]
        changes.append(LevelChange(after, before, point, _differences(before, after)))
    return replace(figure, changes=tuple(changes))


def _differences(older: PastRun, newer: PastRun) -> tuple[str, ...]:
    before, after = older.info, newer.info
    differences = host_differences(before.host, after.host)
    versions = before.switchmark_version, after.switchmark_version
    if versions[0] != versions[1]:
        differences.insert(0, f"switchmark: {' / '.join(versions)}")
    if older.granted and newer.granted and older.granted != newer.granted:
        texts = (
            ", ".join(sorted(granted)) for granted in _distinct_grants(older.granted, newer.granted)
        )
        differences.insert(0, f"granted: {' / '.join(texts)}")
    if len(differences) > _MOST_DIFFERENCES:
        more = len(differences) - _MOST_DIFFERENCES
        differences = [*differences[:_MOST_DIFFERENCES], f"{more} more"]
    return tuple(differences)


def _distinct_grants(older: tuple[str, ...], newer: tuple[str, ...]) -> tuple[set[str], set[str]]:
    return set(older) - set(newer), set(newer) - set(older)


def _order(figure: PastFigure) -> tuple[Any, ...]:
    workload = dict(figure.workload)
    size, dimension = workload["packet_size_bytes"], workload["dimension"]
    workload_text = str(figure.workload)
    name = figure.metric.name
    return (
        figure.switch,
        figure.machine,
        dimension,
        size,
        workload_text,
        name,
        figure.engine_build,
    )
