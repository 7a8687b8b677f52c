"""`switchmark pool`: make certificates, serve a pool, show it, drain testbeds, cancel campaigns."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from switchmark.cli.options import AsJson, store_option, takes
from switchmark.cli.output import note, print_json, print_line
from switchmark.cli.pool_options import CredentialFiles, PoolContact, check_extra

EPILOG = """
Examples:
  switchmark pool init certs lab1 lab2 client --listen 10.77.0.1:8786
  switchmark pool serve --store postgresql://db.lab/switchmark
  switchmark pool status --pool 127.0.0.1:8786
  switchmark pool drain lab2 --reason "new cables"
  switchmark pool cancel my-campaign

SWITCHMARK_POOL can contain the address of the pool. docs/pool.md shows how to set a pool up.
"""
EVENTS_SHOWN = 10

app = typer.Typer()


@app.command(
    short_help="Make the certificates of a pool.",
    epilog="Exit codes: 0 done; 2 bad input; 3 a library is missing.",
)
def init(
    directory: Annotated[Path, typer.Argument(help="A directory for the certificates.")],
    members: Annotated[
        list[str] | None, typer.Argument(help="A name for each testbed and client.")
    ] = None,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where `pool serve` will listen.")
    ] = "127.0.0.1:8786",
) -> int:
    """Make an authority, and a certificate for the scheduler and for each member, and print the
    commands that use them. Repeat it with more names to add members: existing files stay."""
    check_extra()
    from switchmark.pool.security import make_pool_files, member_commands

    names = members or ["agent", "client"]
    for path in make_pool_files(directory, names):
        note(f"wrote {path}")
    for line in member_commands(directory, names, listen):
        print_line(line)
    return 0


@app.command(epilog="Exit codes: 0 ended by Ctrl-C or SIGTERM; 2 bad input; 3 address in use.")
@takes(CredentialFiles)
def serve(
    credentials: CredentialFiles,
    store: Annotated[str, store_option("The store of campaigns and results")],
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where agents connect.")
    ] = "127.0.0.1:8786",
    dashboard: Annotated[
        str | None,
        typer.Option(
            "--dashboard", metavar="HOST:PORT", help="Dask's dashboard, on this machine only."
        ),
    ] = None,
) -> int:
    """Run the scheduler of a pool until interrupted. All state is in the store, so it can be
    restarted at any time."""
    check_extra()
    from switchmark.pool import scheduler
    from switchmark.pool.database import PoolDatabase
    from switchmark.pool.security import dashboard_address
    from switchmark.store.address import read_store_address
    from switchmark.store.errors import StoreAwayError

    where, security = credentials.contact(listen)
    shown = None if dashboard is None else dashboard_address(dashboard)
    database = PoolDatabase(read_store_address(store))
    with suppress(StoreAwayError), database.transaction():
        pass  # refuse a database without a store now; wait for one that cannot be reached

    async def until_ended() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await scheduler.serve(where, security, database, note, stop, shown)

    asyncio.run(until_ended())
    note("ended; agents finish their blocks and wait for a scheduler")
    return 0


@app.command()
@takes(PoolContact)
def status(
    contact: PoolContact,
    json: AsJson = False,
) -> int:
    """Print the testbeds, the campaigns and the latest events."""
    from switchmark.pool import campaigns, events, testbeds

    with contact.database().transaction() as db:
        beds = testbeds.testbed_states(db)
        known = campaigns.campaigns(db)
        last = events.last_event(db)
        latest = events.events_since(db, max(0, last - EVENTS_SHOWN))
    if json:
        print_json({"testbeds": beds, "campaigns": known, "events": latest})
        return 0
    for bed in beds:
        print_line(_testbed_line(bed))
    for campaign in known[:EVENTS_SHOWN]:
        print_line(_campaign_line(campaign))
    for event in latest:
        print_line(f"{event.at:%Y-%m-%d %H:%M:%S}  {event.text}")
    return 0


@app.command()
@takes(PoolContact)
def drain(
    contact: PoolContact,
    testbed: Annotated[str, typer.Argument(help="The name of the testbed.")],
    reason: Annotated[
        str, typer.Option("--reason", help="The reason, as `status` shows it.")
    ] = "by hand",
    undo: Annotated[bool, typer.Option("--undo", help="Let it measure again.")] = False,
) -> int:
    """Let a testbed finish its block and give it no other."""
    from switchmark.pool import testbeds

    with contact.database().transaction() as db:
        if undo:
            testbeds.undrain(db, testbed)
            note(f"{testbed} may measure again")
        else:
            note(f"{testbed} is {testbeds.drain(db, testbed, reason)}")
    return 0


@app.command(short_help="Accept a testbed as it is now.")
@takes(PoolContact)
def accept(
    contact: PoolContact,
    testbed: Annotated[str, typer.Argument(help="The name of the testbed.")],
) -> int:
    """Accept an intended change of a testbed, for example a new kernel or processor."""
    from switchmark.pool import testbeds

    with contact.database().transaction() as db:
        testbeds.accept(db, testbed)
    note(f"{testbed}: its next check stores a new profile; later checks compare with it")
    return 0


@app.command(short_help="Cancel a campaign.")
@takes(PoolContact)
def cancel(
    contact: PoolContact,
    campaign: Annotated[str, typer.Argument(help="A campaign's name, or its run.")],
) -> int:
    """Cancel a campaign: stored records stay, the record of a running trial is refused."""
    from switchmark.pool import campaigns

    with contact.database().transaction() as db:
        left = campaigns.cancel(db, campaign)
    note(f"{left.campaign} is cancelled; {left.progress} trials are stored")
    return 0


def _testbed_line(bed: Any) -> str:
    activity = bed.block or ("waits" if bed.is_served else f"no agent for {bed.silent_s:.0f} s")
    why = f" ({bed.reason})" if bed.reason else ""
    clock = ""
    if bed.clock_ahead_s is not None and abs(bed.clock_ahead_s) >= 2:
        clock = f"; clock {bed.clock_ahead_s:+.0f} s"
    return f"{bed.name:<12} {bed.state}{why}: {activity}; {bed.blocks_done} blocks done{clock}"


def _campaign_line(campaign: Any) -> str:
    blocks = ", ".join(f"{count} {state}" for state, count in sorted(campaign.blocks.items()))
    failed = campaign.trials.get("failed", 0)
    lost = f" ({failed} failed)" if failed else ""
    return (
        f"{campaign.campaign:<12} {campaign.state}: {campaign.progress} trials{lost}; "
        f"blocks: {blocks}; run {campaign.run_name}"
    )
