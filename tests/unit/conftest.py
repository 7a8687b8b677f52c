"""What all unit tests share: a machine on which nothing else runs.

A trial of fakes asks the real machine what other programs use meanwhile; by that it would be
marked `disturbed` on a busy one, and not on another.
"""

from __future__ import annotations

import pytest

from switchmark.testbed.cpu_time import MachineTime


@pytest.fixture(autouse=True)
def quiet_machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody uses the machine's cores, as far as trials see; tests that read its clocks do."""
    if request.module.__name__.rpartition(".")[2] != "test_trial_cpu":
        monkeypatch.setattr(MachineTime, "read", lambda: MachineTime(0.0, 0.0, 0.0, {}))
