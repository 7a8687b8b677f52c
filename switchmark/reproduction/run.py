"""The runs of a paper's items: their folder, their status, and their rows.

A run belongs to a campaign, which several items may show. The settings of a run contain its scale,
so that it is resumed with the same scale.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from switchmark.errors import SwitchmarkError
from switchmark.reproduction.paper import Item, Paper
from switchmark.reproduction.stages import ONE_STAGE, Blocks, in_stages
from switchmark.results.find import find_latest, list_runs
from switchmark.results.query import read_table
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import Run, open_run
from switchmark.results.summary import summarise

GUESTS = "guests"  # folder of the runs of guests, in the folder of the paper


@dataclass(frozen=True, slots=True)
class MeasuredCampaign:
    """The latest run of a campaign, and its rows."""

    run: Run
    rows: tuple[SummaryRow, ...]
    blocks: Blocks = ONE_STAGE
    statuses: Mapping[str, str] = field(default_factory=dict)  # status of each trial, by its id

    @property
    def settings(self) -> list[str]:
        """The settings at its start."""
        return [str(setting) for setting in self.run.info.settings.get("set", [])]

    @property
    def is_surely_whole(self) -> bool:
        """True if no trial can be missing, since all have ended in the last of several blocks."""
        count = self.blocks.first + self.blocks.second
        return count > 1 and all(
            row.finished + row.failed >= count for row in self.rows if not row.is_baseline
        )

    @property
    def scale(self) -> list[str]:
        """The settings, and the repetitions of a second stage."""
        if not self.blocks.second:
            return self.settings
        ending = "" if self.blocks.is_over else " that is not over"
        return [
            *self.settings,
            f"{self.blocks.second} repetitions more in a second stage{ending}",
        ]


def folder_of(paper: Paper, results: Path) -> Path:
    """Return the folder of a paper's runs."""
    return results / "reproduce" / paper.name


def read_measured(
    paper: Paper, results: Path, campaigns: Collection[str] | None = None
) -> dict[str, MeasuredCampaign]:
    """Read the latest run of these campaigns of the paper, or of all. Runs without a finished trial
    are left out."""
    found: dict[str, MeasuredCampaign] = {}
    for campaign in dict.fromkeys(item.campaign for item in paper.items):
        if campaigns is not None and campaign not in campaigns:
            continue
        directory = latest(folder_of(paper, results), campaign)
        if directory is None:
            continue
        run, table = open_run(directory), read_table(directory)
        rows, blocks = in_stages(run, table)
        if any(row.finished for row in rows):
            ended = table.frame.select("trial_id", "status").iter_rows()
            found[campaign] = MeasuredCampaign(run, tuple(rows), blocks, dict(ended))
    return found


def read_guests(paper: Paper, results: Path) -> list[MeasuredCampaign]:
    """Return the runs of emulated guests (tools/reproduce-guests). They prove that something works,
    and their figures are not comparable with those of the host."""
    found = []
    for directory in list_runs(folder_of(paper, results) / GUESTS):
        rows = summarise(directory, read_table(directory))
        found.append(MeasuredCampaign(open_run(directory), tuple(rows)))
    return found


def latest(folder: Path, campaign: str) -> Path | None:
    """Return the latest run of a campaign; None without one."""
    try:
        return find_latest(folder, campaign)
    except SwitchmarkError:
        return None


def rows_of(item: Item, measured: Mapping[str, MeasuredCampaign]) -> list[SummaryRow]:
    """Return the rows of the item, without baselines."""
    campaign_run = measured.get(item.campaign)
    if campaign_run is None:
        return []
    return [row for row in campaign_run.rows if not row.is_baseline and item.shows(row.trial)]


def rows_by_item(
    items: Iterable[Item], measured: Mapping[str, MeasuredCampaign]
) -> dict[str, Sequence[SummaryRow]]:
    """Return the rows of each item, and all rows of each campaign, by name."""
    found: dict[str, Sequence[SummaryRow]] = {}
    for item in items:
        found[item.name] = rows_of(item, measured)
        campaign_run = measured.get(item.campaign)
        rows = () if campaign_run is None else campaign_run.rows
        found[item.campaign] = [row for row in rows if not row.is_baseline]
    return found


@dataclass(frozen=True, slots=True)
class StandIns:
    """The substitutes of a measured item."""

    notes: tuple[str, ...] = ()  # notes on substitutes that were set
    instead: Mapping[str, str] = field(default_factory=dict)  # notes on substituted switches


def standing_by_item(
    items: Iterable[Item], measured: Mapping[str, MeasuredCampaign]
) -> dict[str, StandIns]:
    """Return the substitutes of each item and campaign, by name."""
    found: dict[str, StandIns] = {}
    for item in items:
        campaign_run = measured.get(item.campaign)
        settings = set(campaign_run.settings) if campaign_run is not None else set()
        notes = tuple(entry.note for entry in item.stand_in if set(entry.set) <= settings)
        found[item.name] = found[item.campaign] = StandIns(notes, item.instead)
    return found
