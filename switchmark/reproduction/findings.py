"""Whether what a paper concludes holds in what was measured here.

Every claim comes down to ratios of two figures that should lie between two bounds, each with an
interval that holds with 95 % at both looks (statistics/stages.py). A finding holds where every
interval lies within its bounds; it is contradicted where a ratio is proven to lie outside (Holm's
correction over all ratios of the finding, 5 %), or no different where one figure is to be better;
otherwise, or if a part of it was not tried, it is undecided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from switchmark.model.parameter_table import BY_NAME
from switchmark.report.words import point, varying_fields
from switchmark.reproduction.claims import tries
from switchmark.reproduction.paper import Claim, Item, PaperFinding
from switchmark.reproduction.ratio_test import Tried
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

_SHOWN = 3  # of the ratios, in words
SHARED = "cores that applications share"


@dataclass(frozen=True, slots=True)
class JudgedFinding:
    """A finding with its verdict."""

    finding: PaperFinding
    verdict: FindingVerdict
    why: str
    tried: tuple[Tried, ...] = ()
    is_whole: bool = True  # no part of it was left untried


def judge(
    finding: PaperFinding,
    rows_of: Mapping[str, Sequence[SummaryRow]],
    can_run: Collection[str] = (),
    standing: Mapping[str, StandIns] | None = None,
) -> JudgedFinding:
    """Judge a finding by the rows of the items that were measured (item -> its rows).

    `can_run` are the items that this machine can run: without rows they were not tried yet.
    `standing` is what stood in for what, for each item."""
    if finding.cannot:
        return JudgedFinding(finding, FindingVerdict.CANNOT, finding.cannot)
    tried: list[Tried] = []
    lacking: dict[str, None] = {}
    notes: dict[str, None] = {}
    barred: dict[str, None] = {}
    for claim in finding.claims:
        if reason := _bar(claim, rows_of, standing or {}):
            barred[reason] = None
            continue
        found = list(tries(claim, rows_of))
        tried += [replace(one, items=claim.items) for one in _told_apart(claim, found)]
        notes |= dict.fromkeys(_stand_ins(claim, found, standing or {}))
        lacking |= dict.fromkeys(_lacking(claim, found, rows_of))
    if not tried and barred and not lacking:
        return JudgedFinding(finding, FindingVerdict.CANNOT, "; ".join(barred))
    if not tried:
        return _untried(finding, list(lacking), rows_of, can_run)
    if any(row.oversubscribed for one in tried for row in one.rows):
        notes[SHARED] = None
    verdict, why = _verdict(tried)
    if verdict is FindingVerdict.HOLDS and (lacking or barred):  # of a part of it alone
        verdict = FindingVerdict.UNDECIDED
    left = [f"not tried: {', '.join(lacking)}"] if lacking else []
    left += [f"with {', '.join(notes)}"] if notes else []
    told = "; ".join([why, *barred, *left])
    return JudgedFinding(finding, verdict, told, tuple(tried), not (lacking or barred))


def judge_all(
    findings: Iterable[PaperFinding],
    items: Sequence[Item],
    measured: Mapping[str, MeasuredCampaign],
    can_run: Collection[str] = (),
) -> list[JudgedFinding]:
    """Judge these findings by the runs of a paper's items (campaign -> its run)."""
    rows, standing = rows_by_item(items, measured), standing_by_item(items, measured)
    return [judge(one, rows, can_run, standing) for one in findings]


def _lacking(
    claim: Claim, found: Sequence[Tried], rows_of: Mapping[str, Sequence[SummaryRow]]
) -> Iterator[str]:
    """What of the claim was not tried, and for lack of what: all of it, or a step of its order."""
    if not found:
        yield _absent(claim, rows_of)
        return
    pairs = [tuple(row.trial.switch for row in one.rows) for one in found]
    for better, worse in pairwise(claim.order):
        if not any(upper in better and lower in worse for upper, lower in pairs):
            yield f"{', '.join(better)} / {', '.join(worse)}"


def _absent(claim: Claim, rows_of: Mapping[str, Sequence[SummaryRow]]) -> str:
    """Of a claim that cannot be tried: the items without a valid figure, the switches of which
    there is none where one of them is needed, or the item whose settings were others."""
    valid = {
        name: {
            row.trial.switch for row in rows_of.get(name, ()) if row.valid and not row.is_baseline
        }
        for name in claim.items
    }
    if none := [name for name, there in valid.items() if not there]:
        return ", ".join(none)
    gone = [
        f"{item} with {' or '.join(names)}"
        for item, names in claim.sides
        if names and not valid[item] & {*names}
    ]
    return ", ".join(dict.fromkeys(gone)) or f"{claim.item} with these settings"


def _verdict(tried: Sequence[Tried]) -> tuple[FindingVerdict, str]:
    """The verdict on ratios that were tried, and why."""
    adjusted = adjust([one.p_outside for one in tried], Correction.HOLM)
    outside = [one for one, p in zip(tried, adjusted, strict=True) if p is not None and p < LEVEL]
    open_ = [one for one in tried if not one.inside]
    if outside:
        told = "; ".join(one.words for one in outside[:_SHOWN])
        lie = "ratio lies" if len(tried) == 1 else "ratios lie"
        why = f"{len(outside)} of {len(tried)} {lie} outside: {told}"
        return FindingVerdict.CONTRADICTED, why
    if open_:
        told = "; ".join(one.words for one in open_[:_SHOWN])
        are = "ratio is" if len(tried) == 1 else "ratios are"
        return FindingVerdict.UNDECIDED, f"{len(open_)} of {len(tried)} {are} open: {told}"
    told = "; ".join(one.words for one in tried[:_SHOWN])
    more = f" and {len(tried) - _SHOWN} more" if len(tried) > _SHOWN else ""
    return FindingVerdict.HOLDS, f"{told}{more}"


def _bar(
    claim: Claim,
    rows_of: Mapping[str, Sequence[SummaryRow]],
    standing: Mapping[str, StandIns],
) -> str:
    """Why the claim must not be judged by these rows: what stands in, or that applications share
    cores, changes what it is about."""
    if not rows_of.get(claim.item):
        return ""
    if claim.cores != "any" and next(tries(claim, rows_of), None) is None:
        whoever = claim.model_copy(update={"cores": "any"})
        if next(tries(whoever, rows_of), None) is not None:
            have = "share cores" if claim.cores == "enough" else "have a core each"
            return f"not judged here: in {claim.item} the applications {have}"
    notes = standing.get(claim.item, StandIns()).notes
    if claim.stand_in == "none" and notes:
        return f"not judged here: {claim.item} has {', '.join(notes)}"
    if claim.stand_in == "only" and not notes:
        return f"not judged here: {claim.item} is as in the paper, without a substitute"
    return ""


def _stand_ins(
    claim: Claim, found: Sequence[Tried], standing: Mapping[str, StandIns]
) -> Iterator[str]:
    """What stood in for what in the rows that the claim compared."""
    switches = {row.trial.switch for one in found for row in one.rows}
    for name in claim.items:
        one = standing.get(name)
        if one is not None and found:
            yield from one.notes
            yield from (note for switch, note in one.instead.items() if switch in switches)


def _untried(
    finding: PaperFinding,
    lacking: Sequence[str],
    rows_of: Mapping[str, Sequence[SummaryRow]],
    can_run: Collection[str],
) -> JudgedFinding:
    """The finding without a ratio: not yet measured, not valid, or not possible here."""
    items = dict.fromkeys(name for claim in finding.claims for name in claim.items)
    due = [name for name in items if name in can_run and not rows_of.get(name)]
    if due and not finding.needs:
        why = f"not measured yet: {', '.join(due)}"
        return JudgedFinding(finding, FindingVerdict.NOT_YET, why)
    if any(_given_but_not_valid(claim, rows_of) for claim in finding.claims):
        why = f"no figure that it compares is valid: {', '.join(lacking)}"
        return JudgedFinding(finding, FindingVerdict.UNDECIDED, why)
    why = f"needs {finding.needs}" if finding.needs else ""
    why = why or f"nothing that it compares was measured: {', '.join(lacking)}"
    return JudgedFinding(finding, FindingVerdict.CANNOT, why)


def _given_but_not_valid(claim: Claim, rows_of: Mapping[str, Sequence[SummaryRow]]) -> bool:
    """Whether the claim could be tried if all figures were valid."""
    valid = {
        item: [replace(row, valid=True) for row in rows_of.get(item, ())] for item in claim.items
    }
    return next(tries(claim, valid), None) is not None


def _told_apart(claim: Claim, tries: Sequence[Tried]) -> list[Tried]:
    """The ratios, with the fields in which they differ where their words are the same."""
    said = Counter(one.what for one in tries)
    if not any(count > 1 for count in said.values()):
        return list(tries)
    keys = [claim.over, claim.rises, claim.falls, *(claim.left or ()), *(claim.right or ())]
    told = {BY_NAME[key].field for key in keys if key}
    varying = [name for name in varying_fields([one.rows[0] for one in tries]) if name not in told]
    return [
        replace(one, what=f"{one.what} ({point(dict(one.rows[0].point), varying)})")
        if said[one.what] > 1
        else one
        for one in tries
    ]
