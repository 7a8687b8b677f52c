"""`switchmark clean`: remove what benches that were killed have left on this machine."""

from __future__ import annotations

import json as json_module
import os
import shutil
from dataclasses import asdict
from typing import Annotated

import typer

from switchmark.errors import UnavailableError
from switchmark.testbed.clean import Cleaned, clean_stale
from switchmark.testbed.state import cache_dir


def command(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")
    ] = False,
    cache: Annotated[
        bool, typer.Option("--cache", help="Remove the cached container roots, too.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Remove what killed runs have left: namespaces, containers, processes, sockets, files.

    Only things that a bench wrote into its ledger before it made them are touched, and only
    when that bench is dead. Each run does the same at its start.

    Exit codes: 0 all clean, 1 something could not be removed, 3 not permitted.

    Examples: switchmark clean --dry-run; switchmark clean --json
    """
    if os.geteuid() != 0 and not dry_run:
        raise UnavailableError("clean: needs root to remove namespaces and processes; use sudo")
    found = clean_stale(dry_run=dry_run)
    cached = _remove_cache(dry_run) if cache else None
    if json:
        document = {"dry_run": dry_run, "sessions": [asdict(one) for one in found]}
        typer.echo(json_module.dumps({**document, "cache": cached}, indent=2))
    else:
        _tell(found, cached, dry_run)
    if any(one.problems for one in found):
        raise typer.Exit(1)


def _remove_cache(dry_run: bool) -> str | None:
    roots = cache_dir() / "roots"
    if not roots.is_dir():
        return None
    if not dry_run:
        shutil.rmtree(roots)
    return str(roots)


def _tell(found: list[Cleaned], cached: str | None, dry_run: bool) -> None:
    verb = "would remove" if dry_run else "removed"
    for one in found:
        typer.echo(f"session {one.session} ({one.command}, since {one.opened_at}):")
        for thing in one.removed:
            typer.echo(f"  {verb} {thing}")
        for problem in one.problems:
            typer.echo(f"  could not remove {problem}", err=True)
    if cached is not None:
        typer.echo(f"{verb} {cached}")
    if not found and cached is None:
        typer.echo("nothing was left behind")
