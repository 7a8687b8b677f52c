"""The verdict on each finding that a campaign declares, from pairs of trials in the same block.

A finding holds if the whole 95 % interval of each of its ratios lies within the bounds. It is
contradicted if a ratio is proven to lie outside (Holm's correction over the ratios of the finding,
5 %). Otherwise, or if a part of it was not measured, it is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from switchmark.formatting import ratios
from switchmark.model.finding import CampaignFinding, RatioClaim
from switchmark.model.parameter_table import BY_NAME
from switchmark.record.metric import Metric
from switchmark.results.answer import observed_in
from switchmark.results.blocks import Observed, as_block_trials
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import Run
from switchmark.statistics.comparison import Correction, adjust
from switchmark.statistics.means import LEVEL
from switchmark.statistics.paired import FEWEST_PAIRS, PairedRatio, pairs_of, ratio_of
from switchmark.statistics.states import state_figures


class FindingVerdict(StrEnum):
    """The verdict on a finding."""

    HOLDS = "holds"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    CANNOT = "cannot be tried here"
    NOT_YET = "not tried yet"


@dataclass(frozen=True, slots=True)
class TriedRatio:
    """One ratio of a finding, with its bounds."""

    claim: RatioClaim
    contender: str
    pairs: int
    ratio: PairedRatio | None  # None: too few pairs

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of the claim."""
        return self.claim.at_least or 0.0, self.claim.at_most or math.inf

    @property
    def is_inside(self) -> bool:
        """Return True if the whole interval lies within the bounds."""
        low, high = self.bounds
        return self.ratio is not None and low <= self.ratio.low and self.ratio.high <= high

    @property
    def p_inside(self) -> float | None:
        """The two-sided p-value of the nearest bound, for a ratio that was measured outside."""
        if self.ratio is None:
            return None
        low, high = self.bounds
        value = self.ratio.value
        if low <= value <= high:
            return 1.0
        from scipy.special import stdtr

        distance = abs(math.log(value / (low if value < low else high))) / self.ratio.log_error
        return float(2 * stdtr(self.ratio.degrees, -distance))

    @property
    def words(self) -> str:
        """The ratio in words: `linux-router, 100,000 routes / 1 route: 0.81 (0.78 to 0.84)`."""
        sides = " / ".join(
            ", ".join(map(_say, side, side.values()))
            for side in (self.claim.left, self.claim.right)
        )
        text = f"{self.contender}, {sides}: "
        if self.ratio is None:
            text += f"only {self.pairs} {'pair' if self.pairs == 1 else 'pairs'} of trials"
        else:
            value, low, high = ratios(self.ratio.value, self.ratio.low, self.ratio.high)
            text += f"{value} ({low} to {high})"
        text += f", expected {_range(self.claim)}"
        if self.claim.published is not None:
            text += f", published {self.claim.published:g}"
        return text


@dataclass(frozen=True, slots=True)
class FindingResult:
    """A finding of a campaign with its verdict."""

    finding: CampaignFinding
    verdict: FindingVerdict
    tried: tuple[TriedRatio, ...]
    reason: str  # for a finding without a ratio

    @property
    def words(self) -> str:
        """The finding, its verdict and its ratios in one line."""
        why = "; ".join(one.words for one in self.tried)
        why = "; ".join(filter(None, (why, self.reason)))
        statement = f"{self.finding.statement.rstrip('.')} ({self.finding.source})"
        if not self.tried:
            return f"Published finding, not tried here: {statement}. Reason: {why}"
        return f"Published finding {self.verdict}: {statement}. Here: {why}"


def findings_of(run: Run, rows: Sequence[SummaryRow]) -> list[FindingResult]:
    """Judge the findings of a run's campaign by these rows."""
    findings = run.info.parsed_definition.findings
    if not findings:
        return []
    names = {row.trial.id: row.contender for row in rows if not row.is_baseline}
    return judge_findings(findings, observed_in(run), names)


def judge_findings(
    findings: Sequence[CampaignFinding], observed: Sequence[Observed], names: Mapping[str, str]
) -> list[FindingResult]:
    """Judge findings. `names` gives the name of a contender by the id of its trial."""
    by_trial: dict[str, list[Observed]] = {}
    for item in observed:
        if item.trial.id in names:
            by_trial.setdefault(item.trial.id, []).append(item)
    return [_judge(finding, by_trial, names) for finding in findings]


def _judge(
    finding: CampaignFinding, by_trial: Mapping[str, list[Observed]], names: Mapping[str, str]
) -> FindingResult:
    tried: list[TriedRatio] = []
    lacking: list[str] = []
    for claim in finding.claims:
        ratios = list(_ratios(claim, by_trial, names))
        tried += ratios
        if not ratios:
            switch = {**claim.where, **claim.left}.get("switch", "")
            lacking.append(str(switch) or "the trials to compare")
    names_lacking = ", ".join(dict.fromkeys(lacking))
    reason = f"this run has no such figure of {names_lacking}" if lacking else ""
    if not tried:
        return FindingResult(finding, FindingVerdict.CANNOT, (), reason)
    adjusted = adjust([one.p_inside for one in tried], Correction.HOLM)
    if any(p is not None and p < LEVEL for p in adjusted):
        verdict = FindingVerdict.CONTRADICTED
    elif all(one.is_inside for one in tried) and not lacking:
        verdict = FindingVerdict.HOLDS
    else:
        verdict = FindingVerdict.UNDECIDED
    return FindingResult(finding, verdict, tuple(tried), reason)


def _ratios(
    claim: RatioClaim, by_trial: Mapping[str, list[Observed]], names: Mapping[str, str]
) -> Iterator[TriedRatio]:
    for identity, items in by_trial.items():
        trial = items[0].trial
        metric = _metric(items, claim.figure)
        if metric is None or not claim.is_left(trial):
            continue
        for other_identity, others in by_trial.items():
            other = others[0].trial
            same = {field: getattr(other, field) for field in claim.fields}
            if not claim.is_right(other) or trial.changed(same).id != other.id:
                continue
            trials = as_block_trials([*items, *others], metric)
            pairs = pairs_of(trials, state_figures(trials), identity, other_identity)
            ratio = ratio_of(pairs) if len(pairs) >= FEWEST_PAIRS else None
            yield TriedRatio(claim, names[identity], len(pairs), ratio)


def _metric(items: Sequence[Observed], name: str) -> Metric | None:
    return next((m for item in items for m in item.figures if m.name == name), None)


def _say(field: str, value: object) -> str:
    row = next((row for row in BY_NAME.values() if row.field == field), None)
    if row is None or row.say is None:
        return f"{row.name if row else field} {value}"
    return row.say(value)


def _range(claim: RatioClaim) -> str:
    if claim.at_least is None:
        return f"at most {claim.at_most:g}"
    if claim.at_most is None:
        return f"at least {claim.at_least:g}"
    return f"{claim.at_least:g} to {claim.at_most:g}"
