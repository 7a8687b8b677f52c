"""`switchmark run --pool`: the campaign is handed in and followed, and its answer shown; who
leaves may come back with the same command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from switchmark.campaign.installed import Installed
from switchmark.cli.output import note
from switchmark.errors import SwitchmarkError, UsageError
from switchmark.model.campaign import CampaignDefinition

if TYPE_CHECKING:
    from switchmark.pool.database import PoolDatabase


def not_in_a_pool(given: Mapping[str, object]) -> None:
    """Raise `UsageError` where an option is given that a pool does not serve, and say what does."""
    refused = [name for name, value in given.items() if value]
    if refused:
        raise UsageError(
            f"{refused[0]} does not go with --pool: trials run on testbeds, and their results are "
            "in the pool's store; `switchmark show | report | compare` read them from there"
        )


def run_in_pool(
    campaign: CampaignDefinition,
    there: Installed,
    database: PoolDatabase,
    *,
    campaign_text: str,
    overrides: list[str],
    baseline: bool,
    again: bool,
) -> int:
    """Hand it in, or come back to it; returns the exit code."""
    from switchmark.pool.laptop import follow, hand_in

    done = hand_in(
        database,
        campaign,
        there,
        campaign_text=campaign_text,
        overrides=tuple(overrides),
        baseline=baseline,
        again=again,
    )
    if not done.is_new:
        note(f"{campaign.name} was handed in before; its run is {done.run} (--again runs it anew)")
    try:
        over = follow(database, done.run, note, is_new=done.is_new)
    except KeyboardInterrupt:
        note(f"{done.run} goes on without us; the same command comes back to it")
        return 0
    if over.state == "cancelled":
        raise SwitchmarkError(f"{done.run} was cancelled; {sum(over.trials.values())} trials kept")
    _show(database, done.run)
    failed = over.trials.get("failed", 0) + over.trials_asked - sum(over.trials.values())
    kept = f"run {done.run}, store {database.address}"
    note(f"{over.trials_asked - failed} trials finished, {failed} failed; {kept}")
    return 1 if failed else 0


def _show(database: PoolDatabase, run: str) -> None:
    from switchmark.cli.run_summary import print_summary
    from switchmark.results.query import read_table
    from switchmark.results.store import open_run
    from switchmark.results.summary import summarise
    from switchmark.store.source import StoreSource

    found = StoreSource(database.address).find(run)
    for problem in found.problems:
        note(problem)
    rows = summarise(found.directory, read_table(found.directory))
    print_summary(open_run(found.directory), rows, rows)
