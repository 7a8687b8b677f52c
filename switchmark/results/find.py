"""Finds results directories by their names, campaigns or age."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from switchmark.errors import UsageError
from switchmark.model.value import parse_utc
from switchmark.results import DEFAULT_ROOT
from switchmark.results.documents import CorruptResultError, read_info


def _print_left_out(line: str) -> None:
    print(f"switchmark: left out: {line}", file=sys.stderr)


def list_runs(
    root: Path = DEFAULT_ROOT,
    campaign: str | None = None,
    on_corrupt: Callable[[str], None] = _print_left_out,
) -> list[Path]:
    """Return the results directories under `root`, oldest first; if `campaign` is given, only its
    directories. An unreadable one is left out and reported to `on_corrupt`."""
    runs = []
    for path in root.glob("*/run.json") if root.is_dir() else ():
        try:
            info = read_info(path.parent)
        except CorruptResultError as error:
            on_corrupt(str(error))
            continue
        if campaign is None or info.campaign == campaign:
            runs.append((parse_utc(info.started_at), path.parent))
    return [directory for _, directory in sorted(runs)]


def find_latest(root: Path = DEFAULT_ROOT, campaign: str | None = None) -> Path | None:
    """Return the newest results directory (of a campaign), for `--resume`, `show` and `report`."""
    runs = list_runs(root, campaign)
    return runs[-1] if runs else None


def find_run(name: str | None, root: Path = DEFAULT_ROOT) -> Path:
    """Resolve a user's argument: a directory, its name under `root`, a campaign, or `latest`.

    Raises UsageError, which names the searched place."""
    campaign = None if name == "latest" else name
    for directory in (Path(campaign), root / campaign) if campaign is not None else ():
        if (directory / "run.json").is_file():
            return directory
    if (latest := find_latest(root, campaign)) is not None:
        return latest
    if campaign is None:
        raise UsageError(f"{root}: no results here; measure first: switchmark run quick")
    known = sorted({read_info(directory).campaign for directory in list_runs(root)})
    raise UsageError(
        f"{name}: neither a results directory nor a campaign with results in {root} "
        f"(there: {', '.join(known) or 'nothing'})"
    )
