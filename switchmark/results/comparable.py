"""Pairs the results of the same trial in several runs, so that values can be compared.

Two figures belong to the same trial if all requested parameters except the repetition are equal,
and if DPDK's memory had pages of one size, whether or not this size was requested. They may be
compared if connect mode, port kind and I/O were also equal. Everything left out is named: failed
and invalid repetitions, trials that only one run has, page sizes and hosts that differ.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from switchmark.model.parameter_table import KEYS, RESOLVED_BY_PLAN
from switchmark.record.marks import MARKS
from switchmark.record.metric import Metric
from switchmark.record.page_sizes import PARAMETER as PAGE_SIZE
from switchmark.record.page_sizes import Point, apart, known_sizes
from switchmark.results.certified import certified, of_texts
from switchmark.results.documents import CorruptResultError
from switchmark.results.granted_summary import BUFFERS, SCHEDULING
from switchmark.results.origins import build_in_words
from switchmark.results.query import read_table
from switchmark.results.run_directory import open_run

Key = Point
_SIZE = "page_size_kib"  # page size of DPDK's memory, at the end of a key; None: no DPDK memory
_VOLATILE = ("time", "uptime", "free", "load", "boot", "pid", "hostname", "tmp")
# Every mark that does not invalidate a figure gives a reason why more than the switch may limit it.
CAUTION_MARKS = frozenset(name for name, mark in MARKS.items() if not mark.invalidates)


@dataclass
class Measured:
    """One run's part of a trial."""

    notation: str
    values: dict[str, list[float]] = field(default_factory=dict)  # metric name -> repetitions
    failed: list[str] = field(default_factory=list)  # messages
    invalid: int = 0  # repetitions without a valid verdict; not among the values
    marks: set[str] = field(default_factory=set)
    limited_by: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)  # connect mode, port kind, I/O that the trials used
    # mark of a difference -> granted values
    granted: dict[str, set[str]] = field(default_factory=dict)
    engines: set[str] = field(default_factory=set)  # their builds, if the records have them


@dataclass(frozen=True, slots=True)
class LoadedRun:
    """A results directory, by trial."""

    directory: Path
    trials: dict[Key, Measured]
    problems: tuple[str, ...]  # one line for each invalid file
    host: dict[str, Any]
    certified: str  # line about the certificates
    left_out: tuple[str, ...] = ()  # contenders that could not start, each with the reason


def load_run(
    directory: Path, metrics: Sequence[Metric], switches: Mapping[str, str] | None = None
) -> LoadedRun:
    """Read a run. `switches` renames switches (this run's name -> the name to match); only these
    switches are read, and ports and I/O then need not be equal, because switches differ in them."""
    table = read_table(directory)
    by_key: dict[Key, list[dict[str, Any]]] = defaultdict(list)
    # Switches have different port kinds and I/O; their connect modes must be equal.
    done = RESOLVED_BY_PLAN if switches is None else RESOLVED_BY_PLAN[:1]
    for row in table.frame.iter_rows(named=True):
        if switches is not None:
            if row["switch"] not in switches:
                continue
            row["switch"] = switches[row["switch"]]
        by_key[_key(row, across_switches=switches is not None)].append(row)
    trials: dict[Key, Measured] = {}
    for key, rows in by_key.items():
        for _, alike in apart(rows, _page_size):
            size = next(iter(known_sizes(map(_page_size, alike))), None)
            trials[_at(key, size)] = _measured(alike, metrics, done)
    finished = table.frame.filter(table.frame["status"] == "finished")
    gone = table.frame.filter(table.frame["left_out"].fill_null(False)).iter_rows(named=True)
    return LoadedRun(
        directory,
        trials,
        table.problems,
        dict(open_run(directory).info.host),
        certified(of_texts(finished["certificate"])),
        tuple(f"{row['contender'] or row['switch']}: {row['message']}" for row in gone),
    )


def with_sizes_shared(loaded: Sequence[LoadedRun]) -> list[LoadedRun]:
    """Give trials without DPDK memory the page sizes that the same trials have in other runs,
    because they may be compared with any page size."""
    sizes: dict[Key, set[int]] = defaultdict(set)
    for run in loaded:
        for key in run.trials:
            rest, size = _without_size(key)
            sizes[rest] |= set() if size is None else {size}
    return [replace(run, trials=dict(_shared(run.trials, sizes))) for run in loaded]


def _shared(
    trials: Mapping[Key, Measured], sizes: Mapping[Key, set[int]]
) -> Iterator[tuple[Key, Measured]]:
    for key, measured in trials.items():
        rest, size = _without_size(key)
        if size is None and sizes[rest]:
            for other in sorted(sizes[rest]):
                yield _at(rest, other), measured
        else:
            yield key, measured


def of_other_page_size(a: LoadedRun, b: LoadedRun) -> dict[Key, tuple[Key, int, int]]:
    """Return the trials of A that B has with another page size, each with its key in B and both
    sizes."""
    others: dict[Key, Key] = {}
    for key in b.trials:
        others.setdefault(_without_size(key)[0], key)
    pairs = {}
    for key in a.trials:
        rest, size = _without_size(key)
        other = others.get(rest)
        if key in b.trials or other is None:
            continue
        other_size = _without_size(other)[1]
        if size is not None and other_size is not None:
            pairs[key] = other, size, other_size
    return pairs


def _page_size(row: Mapping[str, Any]) -> int | None:
    size = row["page_size_kib"]
    return None if size is None else int(size)


def _at(key: Key, size: int | None) -> Key:
    return (*key, (_SIZE, size))


def _without_size(key: Key) -> tuple[Key, int | None]:
    size = dict(key)[_SIZE]
    return tuple(item for item in key if item[0] != _SIZE), size


def done_alike(a: Measured, b: Measured) -> bool:
    """Return True if both sides used the same modes, and engines of the same build. A side without
    finished trials does not differ, and a record may lack the build of its engine."""
    same_engines = not a.engines or not b.engines or a.engines == b.engines
    return same_engines and (not a.done or not b.done or a.done == b.done)


def host_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Return the differences between the facts of two hosts, without those that always differ."""
    flat_a, flat_b = _flat(a), _flat(b)
    return [
        f"{name}: {flat_a.get(name, 'unknown')} / {flat_b.get(name, 'unknown')}"
        for name in sorted(flat_a.keys() | flat_b.keys())
        if flat_a.get(name) != flat_b.get(name) and not any(word in name for word in _VOLATILE)
    ]


def _key(row: Mapping[str, Any], *, across_switches: bool) -> Key:
    return tuple(
        (
            parameter.field,
            row[f"asked_{parameter.field}" if parameter.resolved else parameter.field],
        )
        for parameter in KEYS
        if parameter.of_result
        and parameter.name != PAGE_SIZE
        and not (across_switches and parameter.by_switch)
    )


def _measured(
    rows: Sequence[Mapping[str, Any]], metrics: Sequence[Metric], done: Sequence[str]
) -> Measured:
    measured = Measured(notation=rows[0]["notation"])
    for row in rows:
        _add(measured, row, metrics)
        if row["status"] == "finished":
            _add_granted(measured, row)
            measured.done.add(", ".join(str(row[name]) for name in done))
            if build := build_in_words(row["engine_build"], row["engine_build_b"]):
                measured.engines.add(f"engine by {build}")
    return measured


def _add_granted(measured: Measured, row: Mapping[str, Any]) -> None:
    buffers = row["receive_buffer_bytes"], row["send_buffer_bytes"]
    classes = row["applications_class"], row["switch_class"]
    for mark, values in ((BUFFERS, buffers), (SCHEDULING, classes)):
        if values[0] is not None:
            text = " and ".join(str(value) for value in values if value is not None)
            measured.granted.setdefault(mark, set()).add(text)


def granted_apart(a: Measured, b: Measured) -> list[tuple[str, str]]:
    """Return the marks of a comparison of these two sides, each with the values granted to A and
    B."""
    return [
        (mark, f"{'; '.join(sorted(values))} / {'; '.join(sorted(b.granted[mark]))}")
        for mark, values in a.granted.items()
        if mark in b.granted and values != b.granted[mark]
    ]


def _add(measured: Measured, row: Mapping[str, Any], metrics: Sequence[Metric]) -> None:
    if row["status"] != "finished":
        measured.failed.append(str(row["message"]))
        return
    measured.marks |= set(row["marks"] or ())
    measured.limited_by.add(str(row["limited_by"]))
    if not row["valid"]:
        measured.invalid += 1
        return
    figures = method_figures(row)
    for metric in metrics:
        value = row.get(metric.column) if metric.column else figures.get(metric.name)
        if row["dimension"] != metric.dimension.value or value is None:
            continue
        if value < 0:
            measured.invalid += 1
        else:
            measured.values.setdefault(metric.name, []).append(float(value))


def method_figures(row: Mapping[str, Any]) -> dict[str, float]:
    """Return name and value of each figure that a method of many trials reported.

    Raises CorruptResultError, because a table of many records is read without validation of
    each."""
    try:
        figures = json.loads(row.get("method_figures") or "[]")
        return {figure["name"]: float(figure["value"]) for figure in figures}
    except (ValueError, TypeError, LookupError):
        raise CorruptResultError(
            f"{row.get('file')}: the figures of its method are not valid"
        ) from None


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, item in value.items():
        if isinstance(item, Mapping):
            flat |= _flat(item, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = str(item)
    return flat
