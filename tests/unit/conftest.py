"""Fixtures of all unit tests: a machine without other programs, and sessions on it.

A trial of fakes reads the real machine's use of cores, so that it would be marked `disturbed` on a
busy machine only."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from switchmark.host import hugepages, place
from switchmark.host.cores.cpu_time import MachineTime
from switchmark.host.cores.throttling import OwnThrottling
from switchmark.host.host import Session
from switchmark.host.local import LocalHost
from switchmark.host.place import PlaceLimits
from switchmark.host.undo.ledger import Ledger
from switchmark.model.capabilities import available


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let trials read that no other program uses a core. Files whose tests read the real clocks
    override this fixture."""
    monkeypatch.setattr(MachineTime, "read", lambda: MachineTime(0.0, 0.0, 0.0, {}))


@pytest.fixture
def all_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A place that allows everything, for tests of later steps."""
    monkeypatch.setattr(place, "can", lambda _: available("yes"))


@pytest.fixture(autouse=True)
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """No control group limits the tests, wherever they run."""
    monkeypatch.setattr(OwnThrottling, "read", OwnThrottling)
    monkeypatch.setattr(place, "limits", limits)


def limits(**changes: Any) -> PlaceLimits:
    """Return the limits of a process without limits, with changes."""
    names = [one.name for one in fields(PlaceLimits)]
    allowed = tuple(sorted(os.sched_getaffinity(0)))
    return PlaceLimits(**{**dict.fromkeys(names), "allowed_cpus": allowed, **changes})


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session on this host; its processes are certainly distinguished from those of other runs
    and of other tests."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    session_id = f"{worker % 16:x}{secrets.token_hex(3)[1:]}"
    ledger = Ledger.create(tmp_path / "state", session_id)
    host = LocalHost(ledger)
    yield Session(session_id, host, ledger, tmp_path / "run")
    host.close()
    ledger.close()


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """A folder for sockets, whose paths have at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="sm", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def root_with_hugepages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as if by root, with a gigabyte of free hugepages."""
    monkeypatch.setattr(place, "missing", lambda *_: None)
    monkeypatch.setattr(hugepages, "are_reserved", lambda: True)
    monkeypatch.setattr(hugepages, "pools", lambda: (hugepages.HugepagePool(2048, 512, 512),))
