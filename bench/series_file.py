"""A series of blocks in a file, which `bench/series` writes, and `bench/proof` reads and simulates.

JSON lines (also .gz), the first {"truth": {"a": 1.25, "b": 1.0}, "about": "..."}, the others
{"block", "contender", "t_start", "figure", "line_before_ns", "line_after_ns", "samples"}; or CSV
with these columns (samples separated by spaces). Times are in seconds; `truth` is the set value of
each contender, in any unit."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from switchmark.errors import UsageError
from switchmark.statistics.blocks import BlockTrial


@dataclass(frozen=True)
class SeriesFile:
    """The content of a file; `truth` is the set value of each contender."""

    path: Path
    about: str
    truth: Mapping[str, float]
    trials: Sequence[BlockTrial]


def truth_of(options: Sequence[str]) -> dict[str, float]:
    """Parse NAME=RATIO of the command line. Raises UsageError."""
    try:
        return {name: float(ratio) for name, ratio in (one.split("=", 1) for one in options)}
    except ValueError as error:
        raise UsageError(f"--truth {' '.join(options)}: NAME=RATIO is wanted ({error})") from error


def read(path: Path, truth: Mapping[str, float]) -> SeriesFile:
    """Read a series; `truth` overrides the file's own. Raises UsageError with the wrong row."""
    rows: Iterator[dict[str, Any]]
    trials: list[BlockTrial] = []
    true_values, about = dict(truth), path.name
    with _open(path, "rt") as stream:
        rows = csv.DictReader(stream) if path.suffix == ".csv" else map(json.loads, stream)
        for number, row in enumerate(rows, 1):
            try:
                if "truth" in row:
                    true_values = {**row["truth"], **true_values}
                    about = f"{path.name}: {row['about']}" if "about" in row else about
                else:
                    trials.append(_trial(row))
            except (KeyError, ValueError, TypeError) as error:
                raise UsageError(
                    f"{path}, row {number}: {error!r}; see bench/series_file.py"
                ) from error
    missing = {one.contender for one in trials} - true_values.keys()
    if missing or not trials:
        raise UsageError(
            f"{path}: no truth of {', '.join(sorted(missing)) or 'anything'}; --truth NAME=RATIO"
        )
    return SeriesFile(path, about, true_values, trials)


def write(path: Path, trials: Sequence[BlockTrial], truth: Mapping[str, float], about: str) -> None:
    """Write a series as JSON lines; large figures and samples as whole numbers."""
    with _open(path, "wt") as stream:
        print(json.dumps({"truth": truth, "about": about}), file=stream)
        for trial in trials:
            row = {
                "block": trial.block, "contender": trial.contender,
                "t_start": round(trial.start_s, 3),
                "figure": _rounded(trial.figure), "line_before_ns": trial.line_before_ns,
                "line_after_ns": trial.line_after_ns,
                "samples": [_rounded(x) for x in trial.samples],
            }  # fmt: skip
            print(json.dumps(row), file=stream)


def _rounded(value: float | None) -> float | None:
    """Round to seven digits, more than any figure has."""
    return None if value is None else float(f"{value:.7g}")


def _open(path: Path, mode: str) -> IO[str]:
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.GzipFile(path, mode.removesuffix("t")))
    return path.open(mode)


def _trial(row: Mapping[str, Any]) -> BlockTrial:
    def number(name: str) -> float | None:
        value = row.get(name)
        return None if value in (None, "") else float(str(value))

    samples = row.get("samples") or ()
    return BlockTrial(
        block=int(row["block"]),
        contender=row["contender"],
        start_s=float(row["t_start"]),
        figure=number("figure"),
        line_before_ns=number("line_before_ns"),
        line_after_ns=number("line_after_ns"),
        samples=tuple(map(float, samples.split() if isinstance(samples, str) else samples)),
    )
