"""What it would take to decide findings that are undecided, and the second stage that does it.

The first stage's interval of each open ratio tells how many more blocks it would probably need to
lie within its bounds, or to exclude one. A finding is decided when all open ratios lie within, or
when one is outside. The rest of the budget goes first to the finding that needs the least of it,
then to the one that needs the least beside that; what does not fit gets nothing.
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
from switchmark.reproduction.ratio_test import ALIKE, Tried
from switchmark.reproduction.run import MeasuredCampaign, read_measured
from switchmark.results.findings import FindingVerdict

GIVEN_AWAY = 0.85  # of the time that is left: what is foretold is rough, and half a stage is none
FEWEST = 3  # blocks of a second stage: fewer hardly know their own spread
LONGEST_S = 86400.0  # beyond which no number of blocks is told
NOT_IN_A_DAY = "not in a day at this noise"
Measured = Mapping[str, MeasuredCampaign]
Further = dict[str, int]  # campaign -> further blocks


def ways(paper: Paper, judged: JudgedFinding, measured: Measured) -> Iterator[Further]:
    """The further blocks with which an undecided finding would probably be decided, one way or the
    other."""
    if judged.verdict is not FindingVerdict.UNDECIDED:
        return
    shares = [(one, *_shares(one, len(judged.tried))) for one in judged.tried]
    found = [[(one, outside)] for one, _, outside in shares]
    if judged.is_whole:
        found.append([(one, inside) for one, inside, _ in shares if not one.inside])
    for way in found:
        if way and all(math.isfinite(share) for _, share in way):
            yield _needed(paper, way, measured)


def _needed(paper: Paper, way: Sequence[tuple[Tried, float]], measured: Measured) -> Further:
    needed: Further = {}
    for one, share in way:
        for campaign in dict.fromkeys(paper.item(name).campaign for name in one.items):
            if campaign in measured:
                own = measured[campaign].blocks
                blocks = max(FEWEST, math.ceil(share * (own.first + own.second)))
                needed[campaign] = max(blocks, needed.get(campaign, 0))
    return needed


def _shares(one: Tried, family: int) -> tuple[float, float]:
    """How much more the ratio needs to lie within its bounds, and to be proven outside, over the
    blocks that it has (StagedRatio.further)."""
    if one.value is None or not one.made_of:
        return math.inf, math.inf
    if len(one.made_of) > 1:  # a rank correlation is known when all pairs are
        share = max(
            pair.further(abs(math.log(pair.value or 1.0)), len(one.made_of)) for pair in one.made_of
        )
        inside = one.at_least <= one.value <= one.at_most
        return (share, math.inf) if inside else (math.inf, share)
    if one.value <= 0:
        return math.inf, math.inf
    at = math.log(one.value)
    low = math.log(one.at_least) if one.at_least > 0 else -math.inf
    within = min(at - low, math.log(one.at_most) - at)
    alike = min(at - math.log(ALIKE[0]), math.log(ALIKE[1]) - at) if one.is_strict else -math.inf
    (ratio,) = one.made_of
    outside = math.inf if one.low is None else ratio.further(max(-within, alike), family)
    return ratio.further(within), outside


def block_s(held: MeasuredCampaign) -> float:
    """The time of one more block of a campaign in seconds, by what its trials took so far."""
    return sum(
        usual_time_s(row.trial)
        + (usual_around_s(row.trial) if row.overhead_s is None else row.overhead_s)
        for row in held.rows
        if not row.is_baseline
    )


def time_s(blocks: Further, measured: Measured, planned: Mapping[str, int] | None = None) -> float:
    """The time of these blocks in seconds, beside what is planned already."""
    known = planned or {}
    return sum(
        max(0, count - known.get(campaign, 0)) * block_s(measured[campaign])
        for campaign, count in blocks.items()
    )


def outlook(paper: Paper, judged: JudgedFinding, measured: Measured) -> str:
    """What it would take to decide the finding, in words; empty where it is decided, or where
    blocks are not what it lacks."""
    is_open = judged.verdict is FindingVerdict.UNDECIDED
    if is_open and any(row.planned for one in judged.tried for row in one.rows):
        return "the first stage is not over: the same command goes on with it"
    found = list(ways(paper, judged, measured))
    if not found:
        return _hopeless(judged)
    best = min(found, key=lambda one: time_s(one, measured))
    stages = [measured[campaign].blocks for campaign in best]
    if any(not one.is_over for one in stages):
        return "the second stage is not over"
    if (cost_s := time_s(best, measured)) > LONGEST_S:
        return NOT_IN_A_DAY
    anew, more = ("measured again, ", "") if any(one.second for one in stages) else ("", "more ")
    told = [
        f"{count} {f'{more}blocks ' if not place else ''}of {_short(paper, campaign)}"
        for place, (campaign, count) in enumerate(best.items())
    ]
    took = format_duration(cost_s)
    return f"{anew}about {' and '.join(told)} ({took}) would probably decide it"


def _hopeless(judged: JudgedFinding) -> str:
    """Why no number of blocks is known that would decide an undecided finding."""
    is_open = judged.verdict is FindingVerdict.UNDECIDED and judged.is_whole
    if not is_open or not judged.tried:
        return ""
    if any(row.finished < 2 for one in judged.tried for row in one.rows):
        return "one block shows no spread"
    is_spread = all(ratio.stages for one in judged.tried for ratio in one.made_of)
    return NOT_IN_A_DAY if is_spread else "a ratio that is open has no interval"


def with_outlook(paper: Paper, judged: JudgedFinding, measured: Measured) -> JudgedFinding:
    """The finding, with what it would take among its reasons."""
    told = outlook(paper, judged, measured)
    return replace(judged, why=f"{judged.why}; {told}") if told else judged


def _short(paper: Paper, campaign: str) -> str:
    return campaign.removeprefix(f"{paper.name}-")


@dataclass(frozen=True, slots=True)
class OpenPaper:
    """A paper with its findings as the first stage left them."""

    paper: Paper
    findings: Sequence[JudgedFinding]
    measured: Measured
    chosen: Set[str]  # the campaigns that may get blocks


def open_paper(paper: Paper, results: Path, chosen: Set[str]) -> OpenPaper:
    """The paper as its latest runs are: of it, what these campaigns are about."""
    findings = [one for one in paper.findings if not chosen.isdisjoint(paper.campaigns_of(one))]
    wanted = frozenset(chosen).union(*map(paper.campaigns_of, findings))
    measured = read_measured(paper, results, wanted)
    return OpenPaper(paper, judge_all(findings, paper.items, measured), measured, chosen)


@dataclass
class SecondStage:
    """Further blocks, and what they are for."""

    left_s: float  # of the budget
    blocks: dict[tuple[str, str], int] = field(default_factory=dict)  # of paper and campaign
    decides: list[str] = field(default_factory=list)
    cannot: list[str] = field(default_factory=list)  # within what is left
    expected_s: float = 0.0

    def words(self) -> Iterator[str]:
        """The plan, a line each."""
        if self.blocks:
            told = ", ".join(
                f"{count} more of {campaign}" for (_, campaign), count in self.blocks.items()
            )
            yield (
                f"second stage: {told}, about {format_duration(self.expected_s)}, for "
                f"{', '.join(self.decides)}"
            )
        if self.cannot:
            yield (
                f"no blocks for what cannot be decided within the {format_duration(self.left_s)} "
                f"left (the page says what each would take): {', '.join(self.cannot)}"
            )


def plan(papers: Sequence[OpenPaper], left_s: float) -> SecondStage:
    """The second stage that is worth the rest of the budget. It is planned once, and a campaign has
    one: its size follows from the first stage alone."""
    made = SecondStage(max(0.0, left_s))
    open_ = [
        (one, judged, found)
        for one in papers
        for judged in one.findings
        if (found := [way for way in ways(one.paper, judged, one.measured) if _may(one, way)])
    ]
    while open_:
        costs = [
            min(
                ((_more_s(made, one, way), place) for place, way in enumerate(found)),
                key=lambda cost: cost[0],
            )
            for one, _, found in open_
        ]
        index = min(range(len(open_)), key=lambda at: costs[at][0])
        more_s, place = costs[index]
        one, judged, found = open_.pop(index)
        name = f"{one.paper.name} {judged.finding.name}"
        if made.expected_s + more_s > left_s:
            made.cannot.append(name)
            continue
        made.expected_s += more_s
        made.decides.append(name)
        for campaign, count in found[place].items():
            key = one.paper.name, campaign
            made.blocks[key] = max(count, made.blocks.get(key, 0))
    return made


def _may(one: OpenPaper, way: Further) -> bool:
    """Whether these campaigns may get a second stage: chosen, through with their first one."""
    return bool(way) and all(
        campaign in one.chosen
        and one.measured[campaign].blocks.first + count <= MAX_REPETITIONS
        and not one.measured[campaign].blocks.second
        and all(
            row.finished + row.failed >= one.measured[campaign].blocks.first
            for row in one.measured[campaign].rows
            if not row.is_baseline
        )
        for campaign, count in way.items()
    )


def _more_s(made: SecondStage, one: OpenPaper, way: Further) -> float:
    """The time that the way needs beside what is planned already."""
    own = {campaign: made.blocks.get((one.paper.name, campaign), 0) for campaign in way}
    return time_s(way, one.measured, own)
