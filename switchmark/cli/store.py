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

SWITCHMARK_STORE can contain the address, instead of --store. Passwords and keys come from the
environment (PGPASSWORD, AWS_SECRET_ACCESS_KEY) or ~/.pgpass: docs/store.md.

Exit codes: 0 done; 1 something could not be stored or read, or is damaged; 2 bad input;
3 the libraries of a store are not installed.
"""
app = typer.Typer()
StoreAt = Annotated[str | None, store_option("The store", envvar="SWITCHMARK_STORE")]


@app.command()
def init(
    address: Annotated[str, typer.Argument(help="postgresql://host/database")],
    objects: Annotated[
        str | None,
        typer.Option(
            "--objects", metavar="PLACE", help="s3://bucket/prefix, or a shared directory."
        ),
    ] = None,
) -> int:
    """Set a store up, or bring it up to date. May be repeated."""
    read = _store(address)
    steps, place = init_store(read, objects)
    for step in steps:
        note(f"{read}: step {step.number}, {step.name}")
    print_line(f"{read}: record files in {place}")
    return 0


@app.command(short_help="Copy run directories into the store.")
def push(
    folders: Annotated[
        list[str] | None,
        typer.Argument(help="Run directories, directories of them, or names of runs."),
    ] = None,
    store: StoreAt = None,
    results: ResultsIn = DEFAULT_ROOT,
    json: AsJson = False,
) -> int:
    """Copy run directories into the store; files that it has are skipped."""
    address = _store(store)
    paths = [_path(folder, results) for folder in folders or [str(results)]]
    failed = False
    results_of_push = []
    with open_store(address) as opened:
        for folder in folders_of(paths):
            try:
                pushed = push_folder(opened, folder)
            except SwitchmarkError as error:
                if opened.connection.closed:
                    raise
                failed = True
                note(f"switchmark: {folder}: not stored: {error}")
                continue
            results_of_push.append(pushed)
            left = f"; left out: {', '.join(pushed.left_out)}" if pushed.left_out else ""
            if not json:
                print_line(f"{pushed.run}: {pushed.new} new, {pushed.known} known{left}")
    if json:
        print_json(results_of_push)
    return 1 if failed else 0


@app.command(short_help="Copy a run out of the store.")
def pull(
    run: Annotated[str, typer.Argument(help="A run, a campaign (its newest run), or `latest`.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Create its directory here.")],
    store: StoreAt = None,
) -> int:
    """Copy a run out of the store as a run directory; every file is checked."""
    address, name = _run(run, store)
    with open_store(address) as opened:
        print_line(str(pull_run(opened, find_stored(opened, name), to)))
    return 0


@app.command("list")
def list_(
    campaign: Annotated[str | None, typer.Argument(help="Only runs of this campaign.")] = None,
    store: StoreAt = None,
    last: Annotated[int, typer.Option("--last", min=1, help="The most runs to list.")] = 100,
    json: AsJson = False,
) -> int:
    """List the runs in the store, the newest last."""
    with open_store(_store(store)) as opened:
        runs = list_stored(opened, campaign, last)
    if json:
        print_json(
            [
                {
                    "run": run.name, "campaign": run.campaign, "started_at": run.started_at,
                    "finished": run.finished, "failed": run.failed,
                    "size_bytes": int(run.size_bytes),
                }
                for run in runs
            ]
        )  # fmt: skip
        return 0
    print_table(
        ["run", "campaign", "started (UTC)", "finished", "failed", "MB"],
        [
            [
                *(run.name, run.campaign, f"{run.started_at:%Y-%m-%d %H:%M}"),
                *(run.finished, run.failed, f"{float(run.size_bytes) / 1e6:.1f}"),
            ]
            for run in runs
        ],
        right=["finished", "failed", "MB"],
    )
    return 0


@app.command(short_help="Compare every record file with the index.")
def check(
    store: StoreAt = None,
    quick: Annotated[bool, typer.Option("--quick", help="Names and sizes only.")] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Rewrite rows of the index from their records.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Compare each record file with its name, size, digest and row in the index."""
    with open_store(_store(store)) as opened:
        result = check_store(opened, note, quick=quick, fix=fix)
    if json:
        print_json(result)
    else:
        note_problems(result.problems)
        print_line(
            f"{result.runs} runs, {result.files} files, {result.size_bytes / 1e6:.1f} MB: "
            f"{len(result.problems)} problems"
        )
        if result.unknown:
            print_line(
                f"{len(result.unknown)} objects without a row, left by interrupted writers; "
                "they have no effect"
            )
        if result.older_rows:
            remedy = "rewritten" if fix else "--fix rewrites them"
            print_line(f"{result.older_rows} rows with the columns of an earlier version: {remedy}")
    return 1 if result.problems else 0


def _store(text: str | None) -> StoreAddress:
    if text is None:
        raise UsageError("--store is missing", remedy="give --store postgresql://host/database")
    address = read_store_address(text)
    if address.run is not None:
        raise UsageError(
            f"--store {text}: contains a run", remedy="write postgresql://host/database"
        )
    return address


def _run(run: str, store: str | None) -> tuple[StoreAddress, str | None]:
    if is_store_address(run):
        address = read_store_address(run)
        return address, address.run
    return _store(store), run


def _path(name: str, results: Path) -> Path:
    return Path(name) if Path(name).is_dir() else find_run(name, results)
