"""Removes what dead benches left behind: it replays the ledgers whose owner is gone.

Nothing that is not in such a ledger is touched. It runs at each start of the bench, and as
`switchmark clean`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from switchmark.host.state import state_dir
from switchmark.host.undo import ledger as ledgers
from switchmark.host.undo.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The entries of one dead session's ledger, and which of them were undone."""

    session: str
    command: str
    opened_at: str
    removed: list[str]  # in a dry run, the things that would be removed
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        text = f"session {self.session} ({self.command}): {len(self.removed)} entries removed"
        return text + "".join(f"; could not remove {problem}" for problem in self.problems)


def clean_stale(*, dry_run: bool = False) -> list[Cleaned]:
    """Undo everything that dead sessions left, session by session, last made first.

    Sessions that are alive, and those that another process is cleaning at this moment, are
    left alone. With `dry_run` nothing is changed. Raises PermissionError without root."""
    results = (_would_clean(path) if dry_run else _clean(path) for path in _ledgers())
    return [cleaned for cleaned in results if cleaned is not None]


def _ledgers() -> list[Path]:
    """Return the ledgers of all sessions. Raises PermissionError, which `Path.glob` would hide."""
    try:
        return sorted(path for path in state_dir().iterdir() if path.suffix == ledgers.SUFFIX)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _clean(path: Path) -> Cleaned | None:
    ledger = Ledger.adopt(path)
    if ledger is None:
        return None
    removed: list[str] = []
    problems = ledger.undo_all(lambda entry: removed.append(str(entry)))
    ledger.close()
    return Cleaned(ledger.session, ledger.owner.command, ledger.owner.opened_at, removed, problems)


def _would_clean(path: Path) -> Cleaned | None:
    try:
        content = ledgers.read(path)
    except FileNotFoundError:
        return None
    if content.owner is None or content.owner.alive():
        return None
    entries = [str(entry) for _, entry in sorted(content.entries.items(), reverse=True)]
    return Cleaned(
        content.owner.session,
        content.owner.command,
        content.owner.opened_at,
        entries,
        [f"{line}: written by another version of switchmark" for line in content.unknown],
    )
