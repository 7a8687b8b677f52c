"""Output for CI: `--junit` and `--bmf` of `run` and `compare`, and expectations on the terminal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from switchmark.cli.output import note, writing
from switchmark.errors import UsageError
from switchmark.model.expectation import Expectation
from switchmark.report.bmf import bmf
from switchmark.report.expectation_words import sentence
from switchmark.report.junit import Case, junit_xml
from switchmark.results.expectations import ExpectationOutcome, Judgement, judge_run
from switchmark.results.rows import SummaryRow
from switchmark.results.store import Run

EXIT_VIOLATED = 4  # as `compare` has it for "worse"

JunitFile = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write verdicts as JUnit XML.")
]
BmfFile = Annotated[
    Path | None,
    typer.Option("--bmf", metavar="FILE", help="Write figures as Bencher Metric Format."),
]


def check_places(junit: Path | None, bmf_file: Path | None) -> None:
    """Raise UsageError for files that cannot be written, before anything is measured."""
    for option, path in (("--junit", junit), ("--bmf", bmf_file)):
        if path is None:
            continue
        if not path.absolute().parent.is_dir() or path.is_dir():
            raise UsageError(f"{option} {path}: no file can be there; name another place")
        if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            raise UsageError(f"{option} {path}: cannot be written; name another place")


def write_junit(path: Path | None, suite: str, cases: Sequence[Case], started_at: str) -> None:
    """Write the verdicts, if a file is given."""
    if path is not None:
        with writing("--junit", path):
            path.write_bytes(junit_xml(suite, cases, started_at))


def write_bmf(path: Path | None, rows: Iterable[SummaryRow]) -> None:
    """Write the figures, if a file is given."""
    if path is not None:
        text = json.dumps(bmf(rows), indent=2, ensure_ascii=False, allow_nan=False)
        with writing("--bmf", path):
            path.write_text(text + "\n", encoding="utf-8")


def is_violated(judgements: Iterable[Judgement]) -> bool:
    """Whether one of the expectations is violated."""
    return any(one.outcome is ExpectationOutcome.VIOLATED for one in judgements)


def judged(run: Run, rows: Sequence[SummaryRow]) -> list[Judgement]:
    """The verdicts on what the campaign of this run expects, by its records."""
    return judge_run(run.info.definition, rows, expected_of(run))


def expected_of(run: Run) -> list[Expectation]:
    """The expectations of a run's campaign. Raises UsageError where that cannot be read."""
    try:
        asked = run.info.definition.get("expect", [])
        return [Expectation.model_validate(one) for one in asked]
    except ValidationError as error:
        raise UsageError(f"{run.directory}/run.json: expect: {error}") from error


def say(judgements: Sequence[Judgement]) -> None:
    """Print a line for every expectation that is not met, and one for all."""
    told = [one.outcome for one in judgements]
    for one in judgements:
        if one.outcome is not ExpectationOutcome.MET:
            note(f"{one.row.notation}: {sentence(one)}")
    if told:
        counts = (f"{told.count(one)} {one}" for one in ExpectationOutcome if one in told)
        note(f"expectations: {', '.join(counts)}")
