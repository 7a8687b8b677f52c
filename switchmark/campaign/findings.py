"""The `findings:` section: statements of the literature that a run judges by its own ratios."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from switchmark.campaign import sweeps
from switchmark.campaign.published import note_lacking, read_match
from switchmark.language import values
from switchmark.language.source import Bad, Items, Node, Problems, SourcePlace, YamlMapping
from switchmark.language.values import BadValueError
from switchmark.method.registry import METHODS
from switchmark.model.choices import NAME_PATTERN
from switchmark.model.finding import CampaignFinding, RatioClaim
from switchmark.model.parameter_type import Known
from switchmark.record.metric import RUN_METRICS

SECTION = "findings"
_EXAMPLE = (
    "- {name: full-table, statement: ..., source: ..., claims: [{left: {routes: 100k}, "
    "right: {routes: 1}, at_least: 0.7}]}"
)
_MATCHES = ("where", "left", "right")
_NUMBERS = ("at_least", "at_most", "published")
_TEXTS = ("name", "statement", "source")


def read_findings(
    node: Node | None, known: Known, problems: Problems
) -> list[tuple[CampaignFinding, SourcePlace]]:
    """Read the section, each finding with its place; mistakes are added to the problems."""
    if node is None or isinstance(node, Bad):
        return []
    if not isinstance(node, Items):
        problems.note(node.place, SECTION, f"is a list; write e.g. {_EXAMPLE}")
        return []
    findings = []
    for item in node.items:
        finding = _finding(item, known, problems)
        if finding is not None:
            findings.append((finding, item.place))
    return findings


def note_unmatched_findings(
    findings: Sequence[tuple[CampaignFinding, SourcePlace]],
    grids: Sequence[dict[str, sweeps.Entry]],
    problems: Problems,
) -> None:
    """Note the claims that no trials of these grids can decide."""
    for finding, place in findings:
        for claim in finding.claims:
            for side in (claim.left, claim.right):
                note_lacking({**claim.where, **side}, place, f"{SECTION}.claims", grids, problems)


def _finding(node: Node, known: Known, problems: Problems) -> CampaignFinding | None:
    if not isinstance(node, YamlMapping):
        if not isinstance(node, Bad):
            problems.note(node.place, SECTION, f"write e.g. {_EXAMPLE}")
        return None
    before = len(problems)
    _note_keys(node, (*_TEXTS, "claims"), (*_TEXTS, "claims"), SECTION, problems)
    texts = {name: _text(node, name, problems) for name in _TEXTS if name in node.entries}
    if re.fullmatch(NAME_PATTERN, texts.get("name", "x")) is None:
        problems.note(node.place, f"{SECTION}.name", "write letters, digits, - and _")
    listed = node.entries.get("claims")
    items = listed.items if isinstance(listed, Items) else ()
    if "claims" in node.entries and not items:
        problems.note(node.place, f"{SECTION}.claims", f"is a list; write e.g. {_EXAMPLE}")
    claims = [claim for item in items if (claim := _claim(item, known, problems)) is not None]
    if len(problems) > before:
        return None
    return CampaignFinding(**texts, claims=tuple(claims))


def _claim(node: Node, known: Known, problems: Problems) -> RatioClaim | None:
    path = f"{SECTION}.claims"
    if not isinstance(node, YamlMapping):
        if not isinstance(node, Bad):
            problems.note(node.place, path, f"write e.g. {_EXAMPLE}")
        return None
    before = len(problems)
    _note_keys(node, (*_MATCHES, *_NUMBERS, "figure"), ("left", "right"), path, problems)
    fields: dict[str, Any] = {
        name: read_match(node.entries[name], f"{path}.{name}", known, problems)
        for name in _MATCHES
        if name in node.entries
    }
    for name in _NUMBERS:
        if name in node.entries:
            fields[name] = _ratio(node, name, problems)
    if "figure" in node.entries:
        fields["figure"] = _figure(node, problems)
    if "at_least" not in fields and "at_most" not in fields:
        problems.note(node.place, path, "has no bound; write at_least, at_most or both")
    elif len(problems) == before and fields.get("at_least", 0.0) > fields.get("at_most", 1e99):
        problems.note(node.place, path, "at_least is above at_most; exchange them")
    return RatioClaim(**fields) if len(problems) == before else None


def _note_keys(
    node: YamlMapping,
    allowed: Sequence[str],
    required: Sequence[str],
    path: str,
    problems: Problems,
) -> None:
    for name in node.entries:
        if name not in allowed:
            place = node.key_places.get(name, node.place)
            problems.note(place, f"{path}.{name}", sweeps.unknown_key(name, allowed))
    for name in required:
        if name not in node.entries:
            problems.note(node.place, path, f"{name} is missing; write e.g. {_EXAMPLE}")


def _text(node: YamlMapping, name: str, problems: Problems) -> str:
    try:
        return sweeps.text_of(node.entries[name], _EXAMPLE)
    except BadValueError as error:
        problems.note(node.entries[name].place, f"{SECTION}.{name}", *error.messages)
        return ""


def _ratio(node: YamlMapping, name: str, problems: Problems) -> float:
    try:
        number = float(values.number(sweeps.text_of(node.entries[name], "0.8")))
        if number > 0:
            return number
        message = "a ratio is above 0; write e.g. 0.8"
        problems.note(node.entries[name].place, f"{SECTION}.claims.{name}", message)
    except BadValueError as error:
        problems.note(node.entries[name].place, f"{SECTION}.claims.{name}", *error.messages)
    return 1.0


def _figure(node: YamlMapping, problems: Problems) -> str:
    known = {metric.name for metric in RUN_METRICS}
    known |= {metric.name for method in METHODS.values() for metric in method.compared}
    try:
        return values.choice(
            sweeps.text_of(node.entries["figure"], "forwarded"), sorted(known), "figure"
        )
    except BadValueError as error:
        problems.note(node.entries["figure"].place, f"{SECTION}.claims.figure", *error.messages)
        return ""
