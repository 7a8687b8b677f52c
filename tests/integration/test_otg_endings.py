"""Ending a server of the Open Traffic Generator API is not a failure."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.machine import needs_root, own_state
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, needs_root]


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    yield from own_state(monkeypatch, tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_server_ends_with_the_exit_code_of_its_help(
    state: Path, tmp_path: Path, number: signal.Signals
) -> None:
    log = tmp_path / "log"
    arguments = ["otg", "--port", "lo", "--listen", "127.0.0.1:0"]
    with log.open("w") as err:
        process = subprocess.Popen([sys.executable, "-m", "switchmark", *arguments], stderr=err)
    try:
        until(lambda: "ports lo" in log.read_text(), "the server", 60)
        process.send_signal(number)
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert log.read_text().endswith("\nended\n") and not list(state.glob("*.ledger"))
