"""`switchmark pool`: serve a pool of testbeds, look at it, take testbeds out, cancel campaigns."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import Annotated, Any

import typer

from switchmark.cli.options import AsJson, store_option, takes
from switchmark.cli.output import note, print_json, print_line
from switchmark.cli.pool_options import CredentialFiles, PoolContact, check_extra

EPILOG = """
Examples:
  switchmark pool serve --store postgresql://db.lab/switchmark      and agents come to it
  switchmark pool status --pool 127.0.0.1:8786
  switchmark pool drain lab2 --reason "new cables"                  it ends its block first
  switchmark pool cancel my-campaign

Where a pool is can stand in SWITCHMARK_POOL. How one is made: docs/pool.md.
"""
EVENTS_SHOWN = 10

app = typer.Typer()


@app.command(epilog="Exit codes: 0 ended by Ctrl-C or SIGTERM; 2 bad input; 3 address in use.")
@takes(CredentialFiles)
def serve(
    credentials: CredentialFiles,
    store: Annotated[str, store_option("Where campaigns and results are")],
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where agents connect.")
    ] = "127.0.0.1:8786",
) -> int:
    """Tell testbeds when there is work, until interrupted. All state is in the store: started anew,
    it goes on."""
    check_extra()
    from switchmark.pool import dispatch
    from switchmark.pool.database import PoolDatabase
    from switchmark.store.address import read_store_address
    from switchmark.store.errors import StoreAwayError

    where, security = credentials.contact(listen)
    database = PoolDatabase(read_store_address(store))
    with suppress(StoreAwayError), database.transaction():
        pass  # (no store at all is an error; one that is away is waited for)

    async def until_ended() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await dispatch.serve(where, security, database, note, stop)

    asyncio.run(until_ended())
    note("ended; agents finish their blocks, and wait")
    return 0


@app.command()
@takes(PoolContact)
def status(
    contact: PoolContact,
    json: AsJson = False,
) -> int:
    """Testbeds, campaigns, and what happened last."""
    from switchmark.pool import campaigns, events, testbeds

    with contact.database().transaction() as db:
        beds = testbeds.testbed_states(db)
        known = campaigns.campaigns(db)
        last = events.last_event(db)
        seen = events.events_since(db, max(0, last - EVENTS_SHOWN))
    if json:
        print_json({"testbeds": beds, "campaigns": known, "events": seen})
        return 0
    for bed in beds:
        print_line(_testbed_line(bed))
    for one in known[:EVENTS_SHOWN]:
        print_line(_campaign_line(one))
    for event in seen:
        print_line(f"{event.at:%Y-%m-%d %H:%M:%S}  {event.words}")
    return 0


@app.command()
@takes(PoolContact)
def drain(
    contact: PoolContact,
    testbed: Annotated[str, typer.Argument(help="Its name.")],
    reason: Annotated[
        str, typer.Option("--reason", help="The reason, as `status` shows it.")
    ] = "by hand",
    undo: Annotated[bool, typer.Option("--undo", help="Let it measure again.")] = False,
) -> int:
    """Let a testbed finish its block and take no other."""
    from switchmark.pool import testbeds

    with contact.database().transaction() as db:
        if undo:
            testbeds.undrain(db, testbed)
            note(f"{testbed} may measure again")
        else:
            note(f"{testbed} is {testbeds.drain(db, testbed, reason)}")
    return 0


@app.command(short_help="Take a testbed as it is now.")
@takes(PoolContact)
def accept(
    contact: PoolContact,
    testbed: Annotated[str, typer.Argument(help="Its name.")],
) -> int:
    """Hold a testbed against what it is now: its kernel or its NIC was changed on purpose."""
    from switchmark.pool import testbeds

    with contact.database().transaction() as db:
        testbeds.accept(db, testbed)
    note(f"{testbed}: its next check sets the profile that later ones compare with")
    return 0


@app.command(short_help="End a campaign.")
@takes(PoolContact)
def cancel(
    contact: PoolContact,
    campaign: Annotated[str, typer.Argument(help="A campaign's name, or its run.")],
) -> int:
    """End a campaign: what is stored stays; a trial that runs ends, and is not stored."""
    from switchmark.pool import campaigns

    with contact.database().transaction() as db:
        left = campaigns.cancel(db, campaign)
    note(f"{left.campaign} is cancelled; {left.progress} trials are kept")
    return 0


def _testbed_line(bed: Any) -> str:
    doing = bed.block or ("waits" if bed.is_served else f"no agent for {bed.silent_s:.0f} s")
    why = f" ({bed.reason})" if bed.reason else ""
    clock = ""
    if bed.clock_ahead_s is not None and abs(bed.clock_ahead_s) >= 2:
        clock = f"; clock {bed.clock_ahead_s:+.0f} s"
    return f"{bed.name:<12} {bed.state}{why}: {doing}; {bed.blocks_done} blocks done{clock}"


def _campaign_line(one: Any) -> str:
    blocks = ", ".join(f"{count} {state}" for state, count in sorted(one.blocks.items()))
    failed = one.trials.get("failed", 0)
    lost = f" ({failed} failed)" if failed else ""
    return (
        f"{one.campaign:<12} {one.state}: {one.progress} trials{lost}; "
        f"blocks: {blocks}; run {one.run_name}"
    )
