"""Pair what several runs measured of the same trial, so that values can be compared.

Two figures are of the same trial when everything that was asked is equal, but for the
repetition; they may be compared when what was done (connect mode, port kind, I/O) is equal,
too. Nothing is left
out in silence: failed and invalid repetitions, trials that only one run has, and hosts that
differ are all named.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from switchmark.campaign.model import Dimension
from switchmark.errors import UsageError
from switchmark.results.marks import MARKS
from switchmark.results.query import TRIAL_COLUMNS, read_table
from switchmark.results.store import open_run

Key = tuple[tuple[str, Any], ...]
_NOT_OF_THE_KEY = frozenset({"repetition", "interval_s"})
_OF_THE_SWITCH = frozenset({"port_kind", "io", "idle", "switch_cores", "spare_cores"})
_DONE = ("connect_mode", "port_kind", "io")
_VOLATILE = ("time", "uptime", "free", "load", "boot", "pid", "hostname", "tmp")
# Every mark of a number that may be used says why it may be of more than the switch.
CAUTION_MARKS = frozenset(name for name, mark in MARKS.items() if not mark.invalidates)


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that can be compared: its column in the table of results."""

    name: str
    column: str
    dimension: Dimension
    higher_is_better: bool
    unit: str


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("forwarded", "forwarded_pps", Dimension.THROUGHPUT, True, "pps"),
        Metric("rtt-p50", "rtt_p50_ns", Dimension.LATENCY, False, "ns"),
        Metric("rtt-p99", "rtt_p99_ns", Dimension.LATENCY, False, "ns"),
        Metric("rtt-p99.9", "rtt_p99.9_ns", Dimension.LATENCY, False, "ns"),
        Metric("rtt-mean", "rtt_mean_ns", Dimension.LATENCY, False, "ns"),
    )
}
# Figures of methods of many trials, by their name in the record; no column of their own.
METHOD_FIGURES: dict[str, tuple[str, bool]] = {
    "NDR": ("pps", True),
    "PDR": ("pps", True),
    "R+": ("pps", True),
    "plateau": ("pps", True),
    "lossless to": ("pps", True),
    "ceiling": ("pps", True),
    "one-way floor, median": ("ns", False),
    "longest burst": ("frames", True),
    "loss ratio": ("ratio", False),
    "recovery": ("s", False),
    "reset: outage": ("s", False),
    "longest outage": ("s", False),
}
METRICS |= {
    name: Metric(name, "", Dimension.THROUGHPUT, higher, unit)
    for name, (unit, higher) in METHOD_FIGURES.items()
}
DEFAULT_METRICS = ("forwarded", "rtt-p50", "rtt-p99", *METHOD_FIGURES)


@dataclass
class Measured:
    """What one run has of one trial."""

    notation: str
    values: dict[str, list[float]] = field(default_factory=dict)  # metric name -> repetitions
    failed: list[str] = field(default_factory=list)  # messages
    invalid: int = 0  # repetitions whose verdict was not valid: not among the values
    marks: set[str] = field(default_factory=set)
    limited_by: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)  # connect mode, port kind, I/O as they were


@dataclass(frozen=True, slots=True)
class LoadedRun:
    """A results directory, by trial."""

    directory: Path
    trials: dict[Key, Measured]
    problems: tuple[str, ...]  # files that could not be believed
    host: dict[str, Any]


def metrics(names: Sequence[str]) -> list[Metric]:
    """Look metrics up; raises `UsageError` naming the known ones."""
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise UsageError(f"--metric {unknown[0]}: unknown; known are {', '.join(METRICS)}")
    return [METRICS[name] for name in names]


def load_run(
    directory: Path, wanted: Sequence[Metric], switches: Mapping[str, str] | None = None
) -> LoadedRun:
    """Read a run. `switches` renames switches (this run's name -> the name to match), and
    keeps only those; ports and I/O then need not be equal, as switches' own differ."""
    table = read_table(directory)
    trials: dict[Key, Measured] = {}
    for found in table.frame.iter_rows(named=True):
        if switches is not None and found["switch"] not in switches:
            continue
        row = found
        if switches is not None:
            row = {**found, "switch": switches[found["switch"]]}
        key = _key(row, across_switches=switches is not None)
        measured = trials.setdefault(key, Measured(notation=row["notation"]))
        _add(measured, row, wanted)
        if row["status"] == "finished":
            # Switches' own ports differ; their connect modes must not.
            names = _DONE[:1] if switches is not None else _DONE
            measured.done.add(", ".join(str(row[name]) for name in names))
    return LoadedRun(directory, trials, table.problems, dict(open_run(directory).info.host))


def done_alike(a: Measured, b: Measured) -> bool:
    """A side on which nothing finished has done nothing otherwise."""
    return not a.done or not b.done or a.done == b.done


def host_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """What differs between two hosts' facts, but for what always does."""
    flat_a, flat_b = _flat(a), _flat(b)
    return [
        f"{name}: {flat_a.get(name, 'unknown')} / {flat_b.get(name, 'unknown')}"
        for name in sorted(flat_a.keys() | flat_b.keys())
        if flat_a.get(name) != flat_b.get(name) and not any(word in name for word in _VOLATILE)
    ]


def describe(key: Key, others: Sequence[Key]) -> str:
    """What tells this trial from the others: only the fields that vary."""
    varying = {name for name, _ in set().union(*(set(other) for other in others))
               if len({dict(other).get(name) for other in others}) > 1}  # fmt: skip
    shown = [f"{name}={value}" for name, value in key if name in varying]
    return ", ".join(shown) or str(dict(key)["switch"])


def _key(row: Mapping[str, Any], *, across_switches: bool) -> Key:
    skipped = _NOT_OF_THE_KEY | (_OF_THE_SWITCH if across_switches else frozenset())
    return tuple(
        (name, row[f"asked_{name}" if name in _DONE else name])
        for name in TRIAL_COLUMNS
        if name not in skipped
    )


def _add(measured: Measured, row: Mapping[str, Any], wanted: Sequence[Metric]) -> None:
    if row["status"] != "finished":
        measured.failed.append(str(row["message"]))
        return
    measured.marks |= set(row["marks"] or ())
    measured.limited_by.add(str(row["limited_by"]))
    if not row["valid"]:
        measured.invalid += 1
        return
    figures = _method_figures(row)
    for metric in wanted:
        value = row.get(metric.column) if metric.column else figures.get(metric.name)
        if row["dimension"] != metric.dimension.value or value is None:
            continue
        if value <= 0:
            measured.invalid += 1  # no ratio can be formed with it
        else:
            measured.values.setdefault(metric.name, []).append(float(value))


def _method_figures(row: Mapping[str, Any]) -> dict[str, float]:
    """Name and value of each figure that a method of many trials found."""
    found = json.loads(row.get("method_figures") or "[]")
    return {figure["name"]: float(figure["value"]) for figure in found}


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, item in value.items():
        if isinstance(item, Mapping):
            flat |= _flat(item, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = str(item)
    return flat
