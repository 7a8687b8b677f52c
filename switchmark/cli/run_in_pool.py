"""`switchmark run --pool`: submit a campaign, follow it, and print its summary.

The same command follows a campaign that was submitted before.
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


def refuse_options(options: Mapping[str, object]) -> None:
    """Raise `UsageError` if one of these options is set: a pool does not support them."""
    refused = [name for name, value in options.items() if value]
    if refused:
        raise UsageError(
            f"{refused[0]} does not go with --pool: trials run on testbeds, and their results are "
            "in the pool's store",
            remedy="`switchmark show`, `report` and `compare` read them from there",
        )


def run_in_pool(
    campaign: CampaignDefinition,
    installed: Installed,
    database: PoolDatabase,
    *,
    campaign_text: str,
    overrides: list[str],
    baseline: bool,
    again: bool,
    junit: Path | None = None,
    bmf: Path | None = None,
) -> int:
    """Submit the campaign or find it again, and follow it; return the exit code.

    The code is 4 if an expectation is violated on a testbed, as without a pool."""
    from switchmark.pool.client import follow, submit_campaign

    ci.check_places(junit, bmf)
    submitted = submit_campaign(
        database,
        campaign,
        installed,
        note,
        campaign_text=campaign_text,
        overrides=tuple(overrides),
        baseline=baseline,
        again=again,
    )
    if not submitted.is_new:
        note(f"{campaign.name} was submitted before; its run is {submitted.run}")
        if again:
            note("it has not finished; --again measures only finished campaigns again")
        else:
            note("--again measures it again when it has finished")
    try:
        status = follow(database, submitted.run, note, is_new=submitted.is_new)
    except KeyboardInterrupt:
        note(f"{submitted.run} continues in the pool; the same command follows it again")
        return 0
    if status.state == "cancelled":
        raise SwitchmarkError(
            f"{submitted.run} was cancelled; {sum(status.trials.values())} trials are stored"
        )
    violated = _show(database, submitted.run, junit, bmf)
    failed = status.trials.get("failed", 0) + status.trials_asked - sum(status.trials.values())
    place = f"run {submitted.run}, store {database.address}"
    note(f"{status.trials_asked - failed} trials finished, {failed} failed; {place}")
    if violated:
        return ci.EXIT_VIOLATED
    return 1 if failed else 0


def _show(database: PoolDatabase, run: str, junit: Path | None, bmf: Path | None) -> bool:
    """Print the summary and write the files for CI; return True if an expectation is violated."""
    from switchmark.cli.run_output import print_summary
    from switchmark.pool.database import retry
    from switchmark.results.by_machine import rows_by_machine
    from switchmark.results.query import read_table
    from switchmark.results.run_directory import open_run
    from switchmark.results.summary import summarise
    from switchmark.store.source import StoreSource

    stored_run = retry(lambda: StoreSource(database.address).find(run), note)
    for problem in stored_run.problems:
        note(problem)
    stored, table = open_run(stored_run.directory), read_table(stored_run.directory)
    rows = summarise(stored_run.directory, table)
    print_summary(stored, rows, rows)
    if not ci.wants_verdicts(stored, junit, bmf):
        return False
    by_testbed = rows_by_machine(stored, table)
    judgements = judge_testbeds(stored.info.definition, by_testbed, expected_of(stored))
    return ci.give_verdicts(stored, rows, judgements, junit, bmf)
