"""Judges the findings of a paper by the figures that were measured here.

Every claim consists of ratios of two figures that should lie between two bounds, each with a 95 %
interval for both interim analyses (statistics/stages.py). A finding holds if every interval lies
within its bounds. It is contradicted if a ratio is proven to lie outside (Holm's correction over
all ratios of the finding, 5 %), or if two figures are proven equal of which one should be better.
Otherwise, or if a part of the finding was not measured, it is undecided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from switchmark.formatting import first_of
from switchmark.model.parameter_table import BY_NAME
from switchmark.report.words import point, varying_fields
from switchmark.reproduction.claims import tries
from switchmark.reproduction.paper import Claim, Item, PaperFinding
from switchmark.reproduction.ratio_test import TriedRatio
from switchmark.reproduction.run import (
    MeasuredCampaign,
    StandIns,
    rows_by_item,
    standing_by_item,
)
from switchmark.results.findings import FindingVerdict
from switchmark.results.rows import SummaryRow
from switchmark.statistics.comparison import Correction, adjust
from switchmark.statistics.means import LEVEL

_SHOWN = 3  # largest number of ratios in a reason
SHARED = "cores that applications share"


@dataclass(frozen=True, slots=True)
class JudgedFinding:
    """A finding with its verdict."""

    finding: PaperFinding
    verdict: FindingVerdict
    why: str
    ratios: tuple[TriedRatio, ...] = ()
    is_whole: bool = True  # all parts of it were measured


def judge(
    finding: PaperFinding,
    rows_of: Mapping[str, Sequence[SummaryRow]],
    can_run: Collection[str] = (),
    standing: Mapping[str, StandIns] | None = None,
) -> JudgedFinding:
    """Judge a finding by the rows of the items that were measured (item -> its rows).

    `can_run` are the items that this machine can run; without rows, they are not measured yet.
    `standing` has the substitutes of each item."""
    if finding.cannot:
        return JudgedFinding(finding, FindingVerdict.CANNOT, finding.cannot)
    ratios: list[TriedRatio] = []
    lacking: dict[str, None] = {}
    notes: dict[str, None] = {}
    barred: dict[str, None] = {}
    for claim in finding.claims:
        if reason := _bar(claim, rows_of, standing or {}):
            barred[reason] = None
            continue
        found = list(tries(claim, rows_of))
        ratios += [replace(ratio, items=claim.items) for ratio in _distinguish(claim, found)]
        notes |= dict.fromkeys(_stand_ins(claim, found, standing or {}))
        lacking |= dict.fromkeys(_lacking(claim, found, rows_of))
    if not ratios and barred and not lacking:
        return JudgedFinding(finding, FindingVerdict.CANNOT, "; ".join(barred))
    if not ratios:
        return _untried(finding, list(lacking), rows_of, can_run)
    if any(row.oversubscribed for ratio in ratios for row in ratio.rows):
        notes[SHARED] = None
    verdict, why = _verdict(ratios)
    if verdict is FindingVerdict.HOLDS and (lacking or barred):  # only a part of it was judged
        verdict = FindingVerdict.UNDECIDED
    left = [f"not tried: {', '.join(lacking)}"] if lacking else []
    left += [f"with {', '.join(notes)}"] if notes else []
    reason = "; ".join([why, *barred, *left])
    return JudgedFinding(finding, verdict, reason, tuple(ratios), not (lacking or barred))


def judge_all(
    findings: Iterable[PaperFinding],
    items: Sequence[Item],
    measured: Mapping[str, MeasuredCampaign],
    can_run: Collection[str] = (),
) -> list[JudgedFinding]:
    """Judge these findings by the runs of a paper's items (campaign -> its run)."""
    rows, standing = rows_by_item(items, measured), standing_by_item(items, measured)
    return [judge(finding, rows, can_run, standing) for finding in findings]


def _lacking(
    claim: Claim, found: Sequence[TriedRatio], rows_of: Mapping[str, Sequence[SummaryRow]]
) -> Iterator[str]:
    """Yield the missing parts of a claim: all of it, or steps of its order."""
    if not found:
        yield _absent(claim, rows_of)
        return
    pairs = [tuple(row.trial.switch for row in ratio.rows) for ratio in found]
    for better, worse in pairwise(claim.order):
        if not any(upper in better and lower in worse for upper, lower in pairs):
            yield f"{', '.join(better)} / {', '.join(worse)}"


def _absent(claim: Claim, rows_of: Mapping[str, Sequence[SummaryRow]]) -> str:
    """Return the missing part of a claim: items without a valid figure, groups of switches without
    a valid figure, or an item with other settings."""
    valid = {
        name: {
            row.trial.switch for row in rows_of.get(name, ()) if row.valid and not row.is_baseline
        }
        for name in claim.items
    }
    if none := [name for name, switches in valid.items() if not switches]:
        return ", ".join(none)
    absent = [
        f"{item} with {' or '.join(names)}"
        for item, names in claim.sides
        if names and not valid[item] & {*names}
    ]
    return ", ".join(dict.fromkeys(absent)) or f"{claim.item} with these settings"


def _verdict(ratios: Sequence[TriedRatio]) -> tuple[FindingVerdict, str]:
    """Return the verdict on these ratios, and the reason."""
    adjusted = adjust([ratio.p_outside for ratio in ratios], Correction.HOLM)
    outside = [r for r, p in zip(ratios, adjusted, strict=True) if p is not None and p < LEVEL]
    open_ = [ratio for ratio in ratios if not ratio.inside]
    if outside:
        text = "; ".join(ratio.words for ratio in outside[:_SHOWN])
        lie = "ratio lies" if len(ratios) == 1 else "ratios lie"
        why = f"{len(outside)} of {len(ratios)} {lie} outside: {text}"
        return FindingVerdict.CONTRADICTED, why
    if open_:
        text = "; ".join(ratio.words for ratio in open_[:_SHOWN])
        are = "ratio is" if len(ratios) == 1 else "ratios are"
        return FindingVerdict.UNDECIDED, f"{len(open_)} of {len(ratios)} {are} open: {text}"
    return FindingVerdict.HOLDS, first_of([ratio.words for ratio in ratios], _SHOWN, "; ")


def _bar(
    claim: Claim,
    rows_of: Mapping[str, Sequence[SummaryRow]],
    standing: Mapping[str, StandIns],
) -> str:
    """Return why these rows must not judge the claim: because of a substitute, or because
    applications share cores; empty if they may."""
    if not rows_of.get(claim.item):
        return ""
    if claim.cores != "any" and next(tries(claim, rows_of), None) is None:
        any_cores = claim.model_copy(update={"cores": "any"})
        if next(tries(any_cores, rows_of), None) is not None:
            have = "share cores" if claim.cores == "enough" else "have a core each"
            return f"not judged here: in {claim.item} the applications {have}"
    notes = standing.get(claim.item, StandIns()).notes
    if claim.stand_in == "none" and notes:
        return f"not judged here: {claim.item} has {', '.join(notes)}"
    if claim.stand_in == "only" and not notes:
        return f"not judged here: {claim.item} is as in the paper, without a substitute"
    return ""


def _stand_ins(
    claim: Claim, found: Sequence[TriedRatio], standing: Mapping[str, StandIns]
) -> Iterator[str]:
    """Yield notes on the substitutes in the rows that the claim compared."""
    switches = {row.trial.switch for ratio in found for row in ratio.rows}
    for name in claim.items:
        used = standing.get(name)
        if used is not None and found:
            yield from used.notes
            yield from (note for switch, note in used.instead.items() if switch in switches)


def _untried(
    finding: PaperFinding,
    lacking: Sequence[str],
    rows_of: Mapping[str, Sequence[SummaryRow]],
    can_run: Collection[str],
) -> JudgedFinding:
    """Return a finding without ratios: not measured yet, not valid, or not possible here."""
    items = dict.fromkeys(name for claim in finding.claims for name in claim.items)
    due = [name for name in items if name in can_run and not rows_of.get(name)]
    if due and not finding.needs:
        why = f"not measured yet: {', '.join(due)}"
        return JudgedFinding(finding, FindingVerdict.NOT_YET, why)
    if any(_is_measured_but_not_valid(claim, rows_of) for claim in finding.claims):
        why = f"no figure that it compares is valid: {', '.join(lacking)}"
        return JudgedFinding(finding, FindingVerdict.UNDECIDED, why)
    why = f"needs {finding.needs}" if finding.needs else ""
    why = why or f"nothing that it compares was measured: {', '.join(lacking)}"
    return JudgedFinding(finding, FindingVerdict.CANNOT, why)


def _is_measured_but_not_valid(claim: Claim, rows_of: Mapping[str, Sequence[SummaryRow]]) -> bool:
    """Return True if the claim could be judged if all figures were valid."""
    valid = {
        item: [replace(row, valid=True) for row in rows_of.get(item, ())] for item in claim.items
    }
    return next(tries(claim, valid), None) is not None


def _distinguish(claim: Claim, ratios: Sequence[TriedRatio]) -> list[TriedRatio]:
    """Add the fields in which ratios differ to labels that occur several times."""
    labels = Counter(ratio.label for ratio in ratios)
    if not any(count > 1 for count in labels.values()):
        return list(ratios)
    keys = [claim.over, claim.rises, claim.falls, *(claim.left or ()), *(claim.right or ())]
    named = {BY_NAME[key].field for key in keys if key}
    varying = [name for name in varying_fields([r.rows[0] for r in ratios]) if name not in named]
    return [
        replace(ratio, label=f"{ratio.label} ({point(dict(ratio.rows[0].point), varying)})")
        if labels[ratio.label] > 1
        else ratio
        for ratio in ratios
    ]
