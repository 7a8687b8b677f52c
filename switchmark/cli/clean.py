"""`switchmark clean`: remove leftovers of killed runs on this machine."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer

from switchmark.cli.output import note, print_json, print_line
from switchmark.errors import UnavailableError
from switchmark.host import place
from switchmark.host.place.remedies import as_root
from switchmark.host.state import cache_dir
from switchmark.host.undo.clean import Cleaned, clean_stale

EPILOG = """
Examples:
  switchmark clean --dry-run      list the leftovers
  switchmark clean                remove them
  switchmark clean --cache        also remove the cached root file systems

Exit codes:
  0    nothing is left
  1    a leftover could not be removed
  3    a run of another user has left something, or /proc is not mounted
"""


def command(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the leftovers, and remove nothing.")
    ] = False,
    cache: Annotated[
        bool,
        typer.Option("--cache", help="Also remove the cached root file systems of containers."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Remove leftovers of killed runs: namespaces, containers, processes, sockets, files.

    A run lists everything in its ledger before it creates it. The command removes only things in
    ledgers of runs that have ended. Each run does the same at its start.
    """
    place.require_proc()
    try:
        found = clean_stale(dry_run=dry_run)
    except PermissionError as error:
        raise UnavailableError(
            f"clean: {error.filename}: {error.strerror}; use the account of that run, for root: "
            f"{as_root('clean')}"
        ) from None
    cached = _remove_cache(dry_run) if cache else None
    if json:
        print_json({"dry_run": dry_run, "sessions": found, "cache": cached})
    else:
        _tell(found, cached, dry_run)
    return 1 if any(session.problems for session in found) else 0


def _remove_cache(dry_run: bool) -> str | None:
    roots = cache_dir() / "roots"
    if not roots.is_dir():
        return None
    if not dry_run:
        shutil.rmtree(roots)
    return str(roots)


def _tell(found: list[Cleaned], cached: str | None, dry_run: bool) -> None:
    verb = "would remove" if dry_run else "removed"
    for session in found:
        print_line(f"session {session.session} ({session.command}, since {session.opened_at}):")
        for thing in session.removed:
            print_line(f"  {verb} {thing}")
        for problem in session.problems:
            note(f"  could not remove {problem}")
    if cached is not None:
        print_line(f"{verb} {cached}")
    if not found and cached is None:
        print_line("nothing was left behind")
