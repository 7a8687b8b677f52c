"""How a figure changed over versions and dates: all runs of a folder, as series of one workload,
the same means and one machine, with the places where the level changed.

The table of parameters decides which trials are equal, but for the program's path (builds lie in
folders of their own) and the length of samples. The unit is the run: repetitions of one run are
more alike than runs are (statistics/series.py).
"""

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
from switchmark.results.machine_id import MachineId, told_apart
from switchmark.results.origins import Origin, read_origins
from switchmark.results.query import read_table
from switchmark.results.run_directory import open_run
from switchmark.results.run_info import RunInfo
from switchmark.statistics.comparison import THRESHOLD
from switchmark.statistics.series import ChangePoint, find_changes

# The switch is what a series is of.
_OF_THE_WORKLOAD = [
    one.field for one in KEYS if one.of_result and not one.is_path and one.field != "switch"
]
_MOST_DIFFERENCES = 4

_Key = tuple[str, MachineId, Point, Metric, str]  # the last: how the engine was built


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run's part of a series."""

    directory: Path
    started_at: datetime
    version: str  # of the switch; empty: unknown
    values: tuple[float, ...]  # of its valid repetitions, above 0; empty: none was
    trials: int  # repetitions tried
    info: RunInfo = field(repr=False)
    zeros: int = 0  # of its valid repetitions: they have no level
    program_build: str = ""  # of the switch; empty: unknown
    granted: tuple[str, ...] = ()  # by the place, as text; none: older records

    @property
    def level(self) -> float:
        """The geometric mean of its repetitions, in the unit of the figure."""
        return statistics.geometric_mean(self.values)


def level_of(runs: Iterable[PastRun]) -> float:
    """The geometric mean of the levels of these runs."""
    return statistics.geometric_mean(run.level for run in runs)


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A change of the level of a series, at the first run of the new level."""

    run: PastRun
    before: PastRun
    point: ChangePoint
    differs: tuple[str, ...]  # between the hosts and benches of both runs

    @property
    def since(self) -> str:
        """Since when, as `version 3.1.2, 2026-03-01`; the version is named where it changed."""
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
    engine_build: str = ""  # how the engine of all its runs was built; empty: unknown
    has_twin: bool = False  # another series differs in nothing but how the engine was built

    def in_words(self, varying: Sequence[str]) -> str:
        """The workload in words, and how the engine was built if another series has another."""
        words = in_words(self.workload, varying)
        return f"{words}, engine by {self.engine_build or 'unknown'}" if self.has_twin else words

    @property
    def usable(self) -> list[PastRun]:
        """The runs that have a value."""
        return [one for one in self.runs if one.values]

    @property
    def stretches(self) -> list[list[PastRun]]:
        """The usable runs between changes, oldest first."""
        usable = self.usable
        edges = [0, *(change.point.index for change in self.changes), len(usable)]
        return [usable[begin:end] for begin, end in pairwise(edges)]


@dataclass(frozen=True, slots=True)
class History:
    """All series that were asked for, and a line for every file that could not be read."""

    figures: tuple[PastFigure, ...]
    problems: tuple[str, ...]

    @property
    def switches(self) -> list[str]:
        """The switches of all series."""
        return sorted({one.switch for one in self.figures})


def read_history(
    folders: Iterable[Path],
    wanted: Sequence[Metric],
    switch: str | None = None,
    threshold: float = THRESHOLD,
    *,
    with_zeros: bool = False,
) -> History:
    """The series of these results directories, of one switch or of all but the bare wire. Changes
    below the threshold are left out; so are series without a figure above 0, unless `with_zeros`.
    """
    held: dict[_Key, list[PastRun]] = defaultdict(list)
    problems: list[str] = []
    for folder in folders:
        run = open_run(folder)
        table = read_table(folder)
        problems += table.problems
        rows = [one for one in table.frame.iter_rows(named=True) if _is_asked(one, switch)]
        if rows:
            for key, past in _of_run(folder, run.info, rows, read_origins(run), wanted):
                held[key].append(past)
    joined = _with_unknown_builds(held)
    series_but_for_builds = Counter(key[:-1] for key in joined)
    machines = told_apart(key[1] for key in joined)
    figures = [
        replace(
            _figure(name, machines[machine], workload, metric, runs, threshold),
            engine_build=build,
            has_twin=series_but_for_builds[name, machine, workload, metric] > 1,
        )
        for (name, machine, workload, metric, build), runs in joined.items()
        if any(one.values or (with_zeros and one.zeros) for one in runs)
    ]
    return History(tuple(sorted(figures, key=_order)), tuple(problems))


def in_words(workload: Point, varying: Sequence[str]) -> str:
    """The workload in words: the frame size, and each field that is not the same in all."""
    values = dict(workload)
    first = "packet_size_bytes" if values.get("workload", FRAMES) == FRAMES else "workload"
    names = dict.fromkeys((first, *varying))
    said = [PARAMETERS[name].words(values[name]) for name in names if name != PAGE_SIZE]
    if PAGE_SIZE in names and values.get(PAGE_SIZE):
        said.append(f"page size {values[PAGE_SIZE]}")
    return ", ".join(said)


def _is_asked(row: Mapping[str, Any], switch: str | None) -> bool:
    name = str(row["switch"])
    return not serves_others(name, row["is_baseline"]) if switch is None else name == switch


def _of_run(
    folder: Path,
    info: RunInfo,
    rows: Sequence[Mapping[str, Any]],
    origins: Mapping[str, Origin],
    wanted: Sequence[Metric],
) -> Iterator[tuple[_Key, PastRun]]:
    """One run's part of every series. A run with two builds has an entry for each."""
    found: dict[tuple[_Key, str, str, str], list[float | None]] = defaultdict(list)
    granted: dict[tuple[_Key, str, str, str], set[str]] = defaultdict(set)
    for row in rows:
        origin = origins.get(row["trial_id"])
        if origin is None:
            continue
        for metric, value in _values(row, wanted):
            key = (row["switch"], origin.machine, _workload(row), metric, origin.engine_build)
            build = origin.program_build
            whole = key, origin.version, str(row["program"] or ""), build
            found[whole].append(value)
            granted[whole] |= _granted(row)
    for whole, values in found.items():
        key, version, _, build = whole
        given = tuple(sorted(granted[whole]))
        usable = tuple(one for one in values if one)
        started = parse_utc(info.started_at)
        zeros = values.count(0.0)
        yield key, PastRun(folder, started, version, usable, len(values), info, zeros, build, given)


def _granted(row: Mapping[str, Any]) -> set[str]:
    """What the place granted the trial that may differ from run to run."""
    told = set()
    if (received := row["receive_buffer_bytes"]) is not None:
        told.add(f"socket buffers of {received} and {row['send_buffer_bytes']} bytes")
    if (own := row["applications_class"]) is not None:
        told.add(f"scheduling class {own}")
    if (own := row["switch_class"]) is not None:
        told.add(f"scheduling class of the switch {own}")
    return told


def _with_unknown_builds(held: Mapping[_Key, list[PastRun]]) -> dict[_Key, list[PastRun]]:
    """Runs whose records do not say how the engine was built belong to the series of the oldest
    build that is known."""
    known: dict[tuple[Any, ...], str] = {}
    for key in sorted(held, key=lambda key: min(run.started_at for run in held[key])):
        if key[-1]:
            known.setdefault(key[:-1], key[-1])
    joined: dict[_Key, list[PastRun]] = defaultdict(list)
    for key, runs in held.items():
        joined[(*key[:-1], key[-1] or known.get(key[:-1], ""))].extend(runs)
    return joined


def _values(
    row: Mapping[str, Any], wanted: Sequence[Metric]
) -> Iterator[tuple[Metric, float | None]]:
    """The row's figures; None where a trial failed or is not valid."""
    is_valid = row["status"] == "finished" and row["valid"]
    figures = method_figures(row)
    is_plain = row["method"] == "plain"
    for metric in wanted:
        if row["dimension"] != metric.dimension.value:
            continue
        if is_plain == bool(metric.column) and (is_plain or metric.name in figures):
            value = row[metric.column] if metric.column else figures[metric.name]
            yield metric, float(value) if is_valid and value is not None and value >= 0 else None


def _workload(row: Mapping[str, Any]) -> Point:
    """The workload of a row. The page size is that of DPDK's memory, whether or not it was asked
    for; None if no program uses DPDK's memory."""
    kib = row["page_size_kib"]
    size = None if kib is None else setting_of(int(kib))
    asked = ((name, row[name]) for name in _OF_THE_WORKLOAD if name != PAGE_SIZE)
    return (*asked, (PAGE_SIZE, size))


def _figure(
    switch: str,
    machine: str,
    workload: Point,
    metric: Metric,
    runs: Sequence[PastRun],
    threshold: float,
) -> PastFigure:
    ordered = tuple(sorted(runs, key=lambda one: (one.started_at, one.version)))
    found = PastFigure(switch, machine, workload, metric, ordered, ())
    usable = found.usable
    changes = []
    for point in find_changes([one.values for one in usable], threshold):
        before, after = usable[point.index - 1], usable[point.index]
        changes.append(LevelChange(after, before, point, _differences(before, after)))
    return replace(found, changes=tuple(changes))


def _differences(one: PastRun, other: PastRun) -> tuple[str, ...]:
    before, after = one.info, other.info
    differences = host_differences(before.host, after.host)
    versions = before.switchmark_version, after.switchmark_version
    if versions[0] != versions[1]:
        differences.insert(0, f"switchmark: {' / '.join(versions)}")
    if one.granted and other.granted and one.granted != other.granted:
        told = (", ".join(sorted(own)) for own in _apart(one.granted, other.granted))
        differences.insert(0, f"granted: {' / '.join(told)}")
    if len(differences) > _MOST_DIFFERENCES:
        more = len(differences) - _MOST_DIFFERENCES
        differences = [*differences[:_MOST_DIFFERENCES], f"{more} more"]
    return tuple(differences)


def _apart(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[set[str], set[str]]:
    return set(one) - set(other), set(other) - set(one)


def _order(one: PastFigure) -> tuple[Any, ...]:
    workload = dict(one.workload)
    size, dimension = workload["packet_size_bytes"], workload["dimension"]
    workload_text = str(one.workload)
    name = one.metric.name
    return (one.switch, one.machine, dimension, size, workload_text, name, one.engine_build)
