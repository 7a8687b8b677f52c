"""Output for CI: `--junit` and `--bmf` of `run` and `compare`, and expectations on the terminal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from switchmark.atomic_files import is_replaced, write_atomically
from switchmark.cli.grouped_help import OUTPUT
from switchmark.cli.output import note, writing
from switchmark.errors import UsageError
from switchmark.report.bmf import bmf
from switchmark.report.expectation_words import sentence
from switchmark.report.junit import Case, cases_of_run, junit_xml
from switchmark.results.expectations import ExpectationOutcome, Judgement
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import Run

EXIT_VIOLATED = 4  # as `compare` has it for "worse"

JunitFile = Annotated[
    Path | None,
    typer.Option(
        "--junit",
        metavar="FILE",
        help="Write the results and verdicts as JUnit XML, for CI.",
        rich_help_panel=OUTPUT,
    ),
]
BmfFile = Annotated[
    Path | None,
    typer.Option(
        "--bmf",
        metavar="FILE",
        help="Write figures as Bencher Metric Format.",
        rich_help_panel=OUTPUT,
    ),
]


def check_places(junit: Path | None, bmf_file: Path | None) -> None:
    """Raise UsageError for files that cannot be written, before anything is measured."""
    for option, path in (("--junit", junit), ("--bmf", bmf_file)):
        if path is None:
            continue
        if not path.absolute().parent.is_dir() or path.is_dir():
            raise UsageError(f"{option} {path}: no file can be there; name another place")
        if not os.access(path.resolve().parent if is_replaced(path) else path, os.W_OK):
            raise UsageError(f"{option} {path}: cannot be written; name another place")


def write_junit(path: Path | None, suite: str, cases: Sequence[Case], started_at: str) -> None:
    """Write the verdicts, if a file is given."""
    if path is not None:
        with writing("--junit", path):
            write_atomically(path, junit_xml(suite, cases, started_at))


def write_bmf(path: Path | None, rows: Iterable[SummaryRow]) -> None:
    """Write the figures, if a file is given."""
    if path is not None:
        text = json.dumps(bmf(rows), indent=2, ensure_ascii=False, allow_nan=False)
        with writing("--bmf", path):
            write_atomically(path, f"{text}\n")


def wants_verdicts(run: Run, junit: Path | None, bmf_file: Path | None) -> bool:
    """Return True if the campaign has expectations, or a file for CI is requested."""
    return bool(run.info.definition.get("expect") or junit or bmf_file)


def give_verdicts(
    run: Run,
    rows: Sequence[SummaryRow],
    judgements: Sequence[Judgement],
    junit: Path | None,
    bmf_file: Path | None,
) -> bool:
    """Write the files that are asked for, and print a line for every expectation that is not met,
    and one for all; returns whether one is violated."""
    cases = cases_of_run(run.info.campaign, rows, judgements)
    write_junit(junit, run.info.campaign, cases, run.info.started_at)
    write_bmf(bmf_file, rows)
    outcomes = [judgement.outcome for judgement in judgements]
    for judgement in judgements:
        if judgement.outcome is not ExpectationOutcome.MET:
            note(f"{judgement.row.notation}: {sentence(judgement)}")
    if outcomes:
        counts = (
            f"{outcomes.count(outcome)} {outcome}"
            for outcome in ExpectationOutcome
            if outcome in outcomes
        )
        note(f"expectations: {', '.join(counts)}")
    return ExpectationOutcome.VIOLATED in outcomes
