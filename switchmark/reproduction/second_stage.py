"""Plans a second stage of blocks that probably decides undecided findings.

The interval of each open ratio after the first stage gives the number of blocks after which it
probably lies within its bounds, or outside. A finding is decided if all open ratios lie within, or
if one lies outside. The rest of the budget goes first to the finding that needs the least time,
then to the finding that needs the least additional time. Findings that do not fit get no blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from switchmark.campaign.overhead import usual_around_s
from switchmark.formatting import format_duration
from switchmark.method.registry import usual_time_s
from switchmark.model.choices import MAX_REPETITIONS
from switchmark.reproduction.findings import JudgedFinding, judge_all
from switchmark.reproduction.paper import Paper
from switchmark.reproduction.ratio_test import ALIKE, TriedRatio
from switchmark.reproduction.run import MeasuredCampaign, read_measured
from switchmark.results.findings import FindingVerdict

GIVEN_AWAY = 0.85  # planned share of the remaining time, since estimates are rough
FEWEST = 3  # least number of blocks of a second stage; fewer hardly show their spread
LONGEST_S = 86400.0  # no number of blocks is reported for longer times
NOT_IN_A_DAY = "not in a day at this noise"
Measured = Mapping[str, MeasuredCampaign]
Further = dict[str, int]  # campaign -> further blocks


def ways(paper: Paper, judged: JudgedFinding, measured: Measured) -> Iterator[Further]:
    """Yield the numbers of blocks that would probably decide an undecided finding."""
    if judged.verdict is not FindingVerdict.UNDECIDED:
        return
    shares = [(ratio, *_shares(ratio, len(judged.ratios))) for ratio in judged.ratios]
    found = [[(ratio, outside)] for ratio, _, outside in shares]
    if judged.is_whole:
        found.append([(ratio, inside) for ratio, inside, _ in shares if not ratio.inside])
    for way in found:
        if way and all(math.isfinite(share) for _, share in way):
            yield _needed(paper, way, measured)


def _needed(paper: Paper, way: Sequence[tuple[TriedRatio, float]], measured: Measured) -> Further:
    needed: Further = {}
    for ratio, share in way:
        for campaign in dict.fromkeys(paper.item(name).campaign for name in ratio.items):
            if campaign in measured:
                present = measured[campaign].blocks
                blocks = max(FEWEST, math.ceil(share * (present.first + present.second)))
                needed[campaign] = max(blocks, needed.get(campaign, 0))
    return needed


def _shares(ratio: TriedRatio, family: int) -> tuple[float, float]:
    """Return the additional blocks that the ratio needs to lie within its bounds, and to be proven
    outside, divided by its present blocks (StagedRatio.further)."""
    if ratio.value is None or not ratio.made_of:
        return math.inf, math.inf
    if len(ratio.made_of) > 1:  # a rank correlation needs all pairs
        share = max(
            pair.further(abs(math.log(pair.value or 1.0)), len(ratio.made_of))
            for pair in ratio.made_of
        )
        inside = ratio.at_least <= ratio.value <= ratio.at_most
        return (share, math.inf) if inside else (math.inf, share)
    if ratio.value <= 0:
        return math.inf, math.inf
    at = math.log(ratio.value)
    low = math.log(ratio.at_least) if ratio.at_least > 0 else -math.inf
    within = min(at - low, math.log(ratio.at_most) - at)
    alike = min(at - math.log(ALIKE[0]), math.log(ALIKE[1]) - at) if ratio.is_strict else -math.inf
    (staged,) = ratio.made_of
    outside = math.inf if ratio.low is None else staged.further(max(-within, alike), family)
    return staged.further(within), outside


def block_s(campaign: MeasuredCampaign) -> float:
    """Return the expected seconds of another block of a campaign."""
    return sum(
        usual_time_s(row.trial)
        + (usual_around_s(row.trial) if row.overhead_s is None else row.overhead_s)
        for row in campaign.rows
        if not row.is_baseline
    )


def time_s(blocks: Further, measured: Measured, planned: Mapping[str, int] | None = None) -> float:
    """Return the seconds of these blocks, without those that are already planned."""
    known = planned or {}
    return sum(
        max(0, count - known.get(campaign, 0)) * block_s(measured[campaign])
        for campaign, count in blocks.items()
    )


def outlook(paper: Paper, judged: JudgedFinding, measured: Measured) -> str:
    """Return a text on the blocks that would decide the finding; empty if it is decided, or if more
    blocks cannot decide it."""
    is_open = judged.verdict is FindingVerdict.UNDECIDED
    if is_open and any(row.planned for ratio in judged.ratios for row in ratio.rows):
        return "the first stage is not over: the same command continues it"
    found = list(ways(paper, judged, measured))
    if not found:
        return _hopeless(judged)
    best = min(found, key=lambda way: time_s(way, measured))
    stages = [measured[campaign].blocks for campaign in best]
    if any(not blocks.is_over for blocks in stages):
        return "the second stage is not over"
    if (cost_s := time_s(best, measured)) > LONGEST_S:
        return NOT_IN_A_DAY
    has_second = any(blocks.second for blocks in stages)
    anew, more = ("measured again, ", "") if has_second else ("", "more ")
    parts = [
        f"{count} {f'{more}blocks ' if not place else ''}of {_short(paper, campaign)}"
        for place, (campaign, count) in enumerate(best.items())
    ]
    took = format_duration(cost_s)
    return f"{anew}about {' and '.join(parts)} ({took}) would probably decide it"


def _hopeless(judged: JudgedFinding) -> str:
    """Return why no number of blocks is known that would decide an undecided finding."""
    is_open = judged.verdict is FindingVerdict.UNDECIDED and judged.is_whole
    if not is_open or not judged.ratios:
        return ""
    if any(row.finished < 2 for ratio in judged.ratios for row in ratio.rows):
        return "one block shows no spread"
    is_spread = all(staged.stages for ratio in judged.ratios for staged in ratio.made_of)
    return NOT_IN_A_DAY if is_spread else "a ratio that is open has no interval"


def with_outlook(paper: Paper, judged: JudgedFinding, measured: Measured) -> JudgedFinding:
    """Return the finding with its outlook among its reasons."""
    text = outlook(paper, judged, measured)
    return replace(judged, why=f"{judged.why}; {text}") if text else judged


def _short(paper: Paper, campaign: str) -> str:
    return campaign.removeprefix(f"{paper.name}-")


@dataclass(frozen=True, slots=True)
class OpenPaper:
    """A paper with its findings after the first stage."""

    paper: Paper
    findings: Sequence[JudgedFinding]
    measured: Measured
    chosen: Set[str]  # the campaigns that may get blocks


def open_paper(paper: Paper, results: Path, chosen: Set[str]) -> OpenPaper:
    """Return the paper with its latest runs and the findings of these campaigns."""
    findings = [f for f in paper.findings if not chosen.isdisjoint(paper.campaigns_of(f))]
    campaigns = frozenset(chosen).union(*map(paper.campaigns_of, findings))
    measured = read_measured(paper, results, campaigns)
    return OpenPaper(paper, judge_all(findings, paper.items, measured), measured, chosen)


@dataclass
class SecondStage:
    """The blocks of a second stage, and the findings that they decide."""

    left_s: float  # rest of the budget
    blocks: dict[tuple[str, str], int] = field(default_factory=dict)  # by paper and campaign
    decides: list[str] = field(default_factory=list)
    cannot: list[str] = field(default_factory=list)  # findings that do not fit into the rest
    expected_s: float = 0.0

    def words(self) -> Iterator[str]:
        """Yield the lines of the plan."""
        if self.blocks:
            blocks = ", ".join(
                f"{count} more of {campaign}" for (_, campaign), count in self.blocks.items()
            )
            yield (
                f"second stage: {blocks}, about {format_duration(self.expected_s)}, for "
                f"{', '.join(self.decides)}"
            )
        if self.cannot:
            yield (
                f"no blocks for findings that cannot be decided in the remaining "
                f"{format_duration(self.left_s)} (the page shows what they need): "
                f"{', '.join(self.cannot)}"
            )


def plan(papers: Sequence[OpenPaper], left_s: float) -> SecondStage:
    """Plan the second stage within the rest of the budget. Its size depends on the first stage
    alone, and each campaign has at most one."""
    stage = SecondStage(max(0.0, left_s))
    open_ = [
        (paper, judged, found)
        for paper in papers
        for judged in paper.findings
        if (found := [w for w in ways(paper.paper, judged, paper.measured) if _can_run(paper, w)])
    ]
    while open_:
        costs = [
            min(
                ((_more_s(stage, paper, way), place) for place, way in enumerate(found)),
                key=lambda cost: cost[0],
            )
            for paper, _, found in open_
        ]
        index = min(range(len(open_)), key=lambda at: costs[at][0])
        more_s, place = costs[index]
        paper, judged, found = open_.pop(index)
        name = f"{paper.paper.name} {judged.finding.name}"
        if stage.expected_s + more_s > left_s:
            stage.cannot.append(name)
            continue
        stage.expected_s += more_s
        stage.decides.append(name)
        for campaign, count in found[place].items():
            key = paper.paper.name, campaign
            stage.blocks[key] = max(count, stage.blocks.get(key, 0))
    return stage


def _can_run(paper: OpenPaper, way: Further) -> bool:
    """Return True if these campaigns can get a second stage: they are chosen, and their first stage
    is over."""
    return bool(way) and all(
        campaign in paper.chosen
        and paper.measured[campaign].blocks.first + count <= MAX_REPETITIONS
        and not paper.measured[campaign].blocks.second
        and all(
            row.finished + row.failed >= paper.measured[campaign].blocks.first
            for row in paper.measured[campaign].rows
            if not row.is_baseline
        )
        for campaign, count in way.items()
    )


def _more_s(stage: SecondStage, paper: OpenPaper, way: Further) -> float:
    """Return the seconds that these blocks need in addition to the planned ones."""
    planned = {campaign: stage.blocks.get((paper.paper.name, campaign), 0) for campaign in way}
    return time_s(way, paper.measured, planned)
