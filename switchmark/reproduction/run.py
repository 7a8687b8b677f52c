"""The runs of a paper's items: where they are kept, which are finished, and their rows.

A run belongs to a campaign, and several items may show one. The scale of an item stands in the
run's own settings, so that it is resumed as it was begun.
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

GUESTS = "guests"  # the folder of runs of guests, in that of the paper


@dataclass(frozen=True, slots=True)
class MeasuredCampaign:
    """The latest run of a campaign, and its rows."""

    run: Run
    rows: tuple[SummaryRow, ...]
    blocks: Blocks = ONE_STAGE
    statuses: Mapping[str, str] = field(default_factory=dict)  # how each trial ended, by its id

    @property
    def settings(self) -> list[str]:
        """The settings with which it was begun."""
        return [str(one) for one in self.run.info.settings.get("set", [])]

    @property
    def is_surely_whole(self) -> bool:
        """Whether no trial can lack: a second block is begun when all have one."""
        count = self.blocks.first + self.blocks.second
        return count > 1 and all(
            row.finished + row.failed >= count for row in self.rows if not row.is_baseline
        )

    @property
    def scale(self) -> list[str]:
        """What was set, and what a second stage added."""
        if not self.blocks.second:
            return self.settings
        ending = "" if self.blocks.is_over else " that is not over"
        return [
            *self.settings,
            f"{self.blocks.second} repetitions more in a second stage{ending}",
        ]


def folder_of(paper: Paper, results: Path) -> Path:
    """The folder of a paper's runs."""
    return results / "reproduce" / paper.name


def read_measured(
    paper: Paper, results: Path, campaigns: Collection[str] | None = None
) -> dict[str, MeasuredCampaign]:
    """Read the latest run of these campaigns of the paper, or of all; those without a finished
    trial are not among them."""
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
    """What emulated guests measured of the paper (tools/reproduce-guests), a run each: it proves
    that something works, and is no figure to compare with the host's."""
    found = []
    for directory in list_runs(folder_of(paper, results) / GUESTS):
        rows = summarise(directory, read_table(directory))
        found.append(MeasuredCampaign(open_run(directory), tuple(rows)))
    return found


def latest(folder: Path, campaign: str) -> Path | None:
    """The latest run of a campaign; None without one."""
    try:
        return find_latest(folder, campaign)
    except SwitchmarkError:
        return None


def rows_of(item: Item, measured: Mapping[str, MeasuredCampaign]) -> list[SummaryRow]:
    """Return the rows of the item, without baselines."""
    held = measured.get(item.campaign)
    if held is None:
        return []
    return [row for row in held.rows if not row.is_baseline and item.shows(row.trial)]


def rows_by_item(
    items: Iterable[Item], measured: Mapping[str, MeasuredCampaign]
) -> dict[str, Sequence[SummaryRow]]:
    """Item -> its rows, in the form in which findings are judged; a campaign's name has all rows of
    it, whatever its items show."""
    found: dict[str, Sequence[SummaryRow]] = {}
    for item in items:
        found[item.name] = rows_of(item, measured)
        held = measured.get(item.campaign)
        rows = () if held is None else held.rows
        found[item.campaign] = [row for row in rows if not row.is_baseline]
    return found


@dataclass(frozen=True, slots=True)
class StandIns:
    """What stood in for what when an item was measured."""

    notes: tuple[str, ...] = ()  # of stand-ins that were set
    instead: Mapping[str, str] = field(default_factory=dict)  # of switches, if they are compared


def standing_by_item(
    items: Iterable[Item], measured: Mapping[str, MeasuredCampaign]
) -> dict[str, StandIns]:
    """Item, or campaign, -> what stood in for what in its run."""
    found: dict[str, StandIns] = {}
    for item in items:
        held = measured.get(item.campaign)
        given = set(held.settings) if held is not None else set()
        notes = tuple(one.note for one in item.stand_in if set(one.set) <= given)
        found[item.name] = found[item.campaign] = StandIns(notes, item.instead)
    return found
