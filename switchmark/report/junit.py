"""Verdicts as JUnit XML, which every CI shows, with a test case for each verdict.

There is no standard. The elements and attributes are those that Jenkins, GitLab, GitHub's reporters
and pytest have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from xml.etree import ElementTree as ET

from switchmark.formatting import printable
from switchmark.report.expectation_words import sentence
from switchmark.results.expectations import ExpectationOutcome, Judgement
from switchmark.results.rows import SummaryRow


class CaseOutcome(StrEnum):
    """The element below a test case that has not passed."""

    PASSED = ""
    FAILURE = "failure"  # a proven violation
    ERROR = "error"  # nothing could be measured
    SKIPPED = "skipped"  # not decided


@dataclass(frozen=True, slots=True)
class Case:
    """One test case: a trial, or an expectation of it."""

    name: str
    group: str  # `classname`, by which a CI groups cases
    outcome: CaseOutcome
    message: str  # one sentence
    time_s: float = 0.0  # duration of the traffic


_OF_JUDGEMENT = {
    ExpectationOutcome.MET: CaseOutcome.PASSED,
    ExpectationOutcome.VIOLATED: CaseOutcome.FAILURE,
    ExpectationOutcome.UNDECIDED: CaseOutcome.SKIPPED,
    ExpectationOutcome.UNUSABLE: CaseOutcome.ERROR,
}


def cases_of_run(
    campaign: str, rows: Sequence[SummaryRow], judged: Iterable[Judgement]
) -> list[Case]:
    """Return the cases of a run: one for each trial, which fails if it could not be measured, and
    one for each of its expectations."""
    cases = [_measured(campaign, row) for row in rows]
    for verdict in judged:
        where = f" on {verdict.testbed}" if verdict.testbed else ""
        name = f"{verdict.row.notation} {verdict.expectation}{where}"
        cases.append(Case(name, campaign, _OF_JUDGEMENT[verdict.outcome], sentence(verdict)))
    return cases


def _measured(campaign: str, row: SummaryRow) -> Case:
    outcome, message = CaseOutcome.PASSED, f"measured {row.finished} times"
    if row.failed:
        outcome, message = CaseOutcome.ERROR, f"failed: {row.failures[0]}"
    elif not row.valid:
        outcome, message = CaseOutcome.ERROR, f"not valid: {', '.join(row.marks)}"
    return Case(row.notation, campaign, outcome, message, row.finished * row.trial.duration_s)


def junit_xml(suite: str, cases: Sequence[Case], started_at: str) -> bytes:
    """Return the document. `started_at` is ISO 8601."""
    outcomes = [case.outcome for case in cases]
    attributes = {
        "tests": str(len(cases)),
        "failures": str(outcomes.count(CaseOutcome.FAILURE)),
        "errors": str(outcomes.count(CaseOutcome.ERROR)),
        "skipped": str(outcomes.count(CaseOutcome.SKIPPED)),
        "time": _seconds(sum(case.time_s for case in cases)),
    }
    root = ET.Element("testsuites", {"name": "switchmark", **attributes})
    identity = {"name": printable(suite), "timestamp": started_at[:19]}
    within = ET.SubElement(root, "testsuite", identity | attributes)
    for case in cases:
        element = ET.SubElement(
            within,
            "testcase",
            name=printable(case.name),
            classname=printable(case.group),
            time=_seconds(case.time_s),
        )
        message = printable(case.message)  # XML 1.0 cannot even refer to control characters
        if case.outcome is CaseOutcome.PASSED:
            ET.SubElement(element, "system-out").text = message
            continue
        found = ET.SubElement(element, case.outcome.value, message=message)
        found.text = message
        if case.outcome is not CaseOutcome.SKIPPED:
            found.set("type", "switchmark")
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _seconds(time_s: float) -> str:
    return f"{time_s:.3f}"
