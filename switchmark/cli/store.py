"""`switchmark store`: results of many machines and years in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from switchmark.cli.options import AsJson, ResultsIn, store_option
from switchmark.cli.output import note, note_problems, print_json, print_line, print_table
from switchmark.errors import SwitchmarkError, UsageError
from switchmark.results import DEFAULT_ROOT
from switchmark.results.find import find_run
from switchmark.store.address import StoreAddress, is_store_address, read_store_address
from switchmark.store.check import check_store
from switchmark.store.find import find_stored, list_stored
from switchmark.store.pull import pull as pull_run
from switchmark.store.push import folders_of, push_folder
from switchmark.store.store import init_store, open_store

EPILOG = """
Examples:
  switchmark store init postgresql://db.lab/bench --objects s3://bench/records
  switchmark store init postgresql://db.lab/bench                 bring it up to date
  switchmark store push results --store postgresql://db.lab/bench
  switchmark store list --store postgresql://db.lab/bench
  switchmark store pull quick --to results --store postgresql://db.lab/bench
  switchmark store check --store postgresql://db.lab/bench

SWITCHMARK_STORE says once for these commands what --store says. Passwords and keys come from the
environment (PGPASSWORD, AWS_SECRET_ACCESS_KEY) or ~/.pgpass: docs/store.md.

Exit codes: 0 done; 1 something could not be stored, read or believed; 2 bad input;
3 the libraries of a store are not installed.
"""
app = typer.Typer()
StoreAt = Annotated[str | None, store_option("The store", envvar="SWITCHMARK_STORE")]


@app.command()
def init(
    address: Annotated[str, typer.Argument(help="postgresql://host/database")],
    objects: Annotated[
        str | None,
        typer.Option("--objects", metavar="PLACE", help="s3://bucket/prefix, or a shared folder."),
    ] = None,
) -> int:
    """Set a store up, or bring it up to date. May be repeated."""
    read = _store(address)
    done, place = init_store(read, objects)
    for step in done:
        note(f"{read}: step {step.number}, {step.name}")
    print_line(f"{read}: record files in {place}")
    return 0


@app.command(short_help="Copy results folders into the store.")
def push(
    folders: Annotated[
        list[str] | None,
        typer.Argument(help="Results directories, folders of such, or names of runs."),
    ] = None,
    store: StoreAt = None,
    results: ResultsIn = DEFAULT_ROOT,
    json: AsJson = False,
) -> int:
    """Copy results folders into the store; what is there already is skipped."""
    address = _store(store)
    named = [_path(one, results) for one in folders or [str(results)]]
    failed = False
    done = []
    with open_store(address) as opened:
        for folder in folders_of(named):
            try:
                pushed = push_folder(opened, folder)
            except SwitchmarkError as error:
                if opened.connection.closed:
                    raise
                failed = True
                note(f"switchmark: {folder}: not stored: {error}")
                continue
            done.append(pushed)
            left = f"; left out: {', '.join(pushed.left_out)}" if pushed.left_out else ""
            if not json:
                print_line(f"{pushed.run}: {pushed.new} new, {pushed.known} known{left}")
    if json:
        print_json(done)
    return 1 if failed else 0


@app.command(short_help="Copy a run out of the store.")
def pull(
    run: Annotated[str, typer.Argument(help="A run, a campaign (its newest run), or `latest`.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Make its folder in here.")],
    store: StoreAt = None,
) -> int:
    """Copy a run out of the store, as the folder that it was; every file is checked."""
    address, name = _run(run, store)
    with open_store(address) as opened:
        print_line(str(pull_run(opened, find_stored(opened, name), to)))
    return 0


@app.command("list")
def list_(
    campaign: Annotated[str | None, typer.Argument(help="Only runs of this campaign.")] = None,
    store: StoreAt = None,
    last: Annotated[int, typer.Option("--last", min=1, help="List so many runs at most.")] = 100,
    json: AsJson = False,
) -> int:
    """Name the runs in the store, the newest last."""
    with open_store(_store(store)) as opened:
        found = list_stored(opened, campaign, last)
    if json:
        print_json(
            [
                {
                    "run": one.name, "campaign": one.campaign, "started_at": one.started_at,
                    "finished": one.finished, "failed": one.failed,
                    "size_bytes": int(one.size_bytes),
                }
                for one in found
            ]
        )  # fmt: skip
        return 0
    print_table(
        ["run", "campaign", "started (UTC)", "finished", "failed", "MB"],
        [
            [
                *(one.name, one.campaign, f"{one.started_at:%Y-%m-%d %H:%M}"),
                *(one.finished, one.failed, f"{float(one.size_bytes) / 1e6:.1f}"),
            ]
            for one in found
        ],
        right=["finished", "failed", "MB"],
    )
    return 0


@app.command(short_help="Compare every record file with the index.")
def check(
    store: StoreAt = None,
    quick: Annotated[bool, typer.Option("--quick", help="Names and sizes only.")] = False,
    mend: Annotated[
        bool, typer.Option("--mend", help="Write rows of the index anew from their records.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Compare every record file with the index: is it there, whole, and what was stored?"""
    with open_store(_store(store)) as opened:
        found = check_store(opened, note, quick=quick, mend=mend)
    if json:
        print_json(found)
    else:
        note_problems(found.problems)
        print_line(
            f"{found.runs} runs, {found.files} files, {found.size_bytes / 1e6:.1f} MB: "
            f"{len(found.problems)} problems"
        )
        if found.unknown:
            print_line(
                f"{len(found.unknown)} objects that no row names, of writers that were cut off; "
                "they harm nothing"
            )
        if found.older_rows:
            renewed = "written anew" if mend else "--mend writes them anew"
            print_line(f"{found.older_rows} rows with an earlier version's columns: {renewed}")
    return 1 if found.problems else 0


def _store(text: str | None) -> StoreAddress:
    if text is None:
        raise UsageError("--store: say which: --store postgresql://host/database")
    address = read_store_address(text)
    if address.run is not None:
        raise UsageError(f"--store {text}: names a run; write postgresql://host/database")
    return address


def _run(run: str, store: str | None) -> tuple[StoreAddress, str | None]:
    if is_store_address(run):
        address = read_store_address(run)
        return address, address.run
    return _store(store), run


def _path(name: str, results: Path) -> Path:
    return Path(name) if Path(name).is_dir() else find_run(name, results)
