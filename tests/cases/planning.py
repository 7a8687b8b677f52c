"""Campaigns as `switchmark plan` reads them, on machines that files describe."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.cli.plan import Plan, make_plan
from switchmark.errors import SwitchmarkError

TWO_CORES = "sockets: 1\ncores: 2\n"


def machine(folder: Path, text: str = TWO_CORES) -> str:
    """Return the path of a description of a machine that has everything but many cores."""
    (path := folder / "machine.yaml").write_text(text)
    return str(path)


def planned(folder: Path, text: str, *settings: str, on: str | None = None) -> Plan:
    """Return the plan of a campaign's text."""
    (path := folder / "case.yaml").write_text(text)
    return make_plan(str(path), list(settings), on)


def refusal(folder: Path, text: str, *settings: str, on: str | None = None) -> str:
    """Return the lines in which a plan refuses a campaign's text."""
    with pytest.raises(SwitchmarkError) as refused:
        planned(folder, text, *settings, on=on).placed  # noqa: B018 (placing refuses, too)
    assert refused.value.exit_code in (2, 3)
    return str(refused.value)
