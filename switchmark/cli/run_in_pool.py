"""`switchmark run --pool`: the campaign is submitted and followed, and its answer shown.

A user who leaves may come back with the same command.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from switchmark.campaign.installed import Installed
from switchmark.cli import ci
from switchmark.cli.output import note
from switchmark.errors import SwitchmarkError, UsageError
from switchmark.model.campaign import CampaignDefinition
from switchmark.results.expectations import expected_of, judge_testbeds

if TYPE_CHECKING:
    from switchmark.pool.database import PoolDatabase


def not_in_a_pool(given: Mapping[str, object]) -> None:
    """Raise `UsageError` where an option is given that a pool does not serve, and name what
    does."""
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
    junit: Path | None = None,
    bmf: Path | None = None,
) -> int:
    """Submit the campaign, or come back to it; returns the exit code: 4 when an expectation is
    violated on a testbed, as without a pool."""
    from switchmark.pool.laptop import follow, hand_in

    ci.check_places(junit, bmf)
    done = hand_in(
        database,
        campaign,
        there,
        note,
        campaign_text=campaign_text,
        overrides=tuple(overrides),
        baseline=baseline,
        again=again,
    )
    if not done.is_new:
        note(f"{campaign.name} was submitted before; its run is {done.run} (--again runs it anew)")
    try:
        over = follow(database, done.run, note, is_new=done.is_new)
    except KeyboardInterrupt:
        note(f"{done.run} goes on in the pool; the same command follows it again")
        return 0
    if over.state == "cancelled":
        raise SwitchmarkError(f"{done.run} was cancelled; {sum(over.trials.values())} trials kept")
    violated = _show(database, done.run, junit, bmf)
    failed = over.trials.get("failed", 0) + over.trials_asked - sum(over.trials.values())
    kept = f"run {done.run}, store {database.address}"
    note(f"{over.trials_asked - failed} trials finished, {failed} failed; {kept}")
    if violated:
        return ci.EXIT_VIOLATED
    return 1 if failed else 0


def _show(database: PoolDatabase, run: str, junit: Path | None, bmf: Path | None) -> bool:
    """Print the answer, write the files for CI; returns whether an expectation is violated."""
    from switchmark.cli.run_output import print_summary
    from switchmark.pool.patience import patiently
    from switchmark.results.by_machine import rows_by_machine
    from switchmark.results.query import read_table
    from switchmark.results.store import open_run
    from switchmark.results.summary import summarise
    from switchmark.store.source import StoreSource

    found = patiently(lambda: StoreSource(database.address).find(run), note)
    for problem in found.problems:
        note(problem)
    stored, table = open_run(found.directory), read_table(found.directory)
    rows = summarise(found.directory, table)
    print_summary(stored, rows, rows)
    if not ci.wants_verdicts(stored, junit, bmf):
        return False
    by_testbed = rows_by_machine(stored, table)
    judgements = judge_testbeds(stored.info.definition, by_testbed, expected_of(stored))
    return ci.give_verdicts(stored, rows, judgements, junit, bmf)
