"""What all unit tests share: a machine on which nothing else runs, and sessions on it.

A trial of fakes asks the real machine what other programs use meanwhile; by that it would be
marked `disturbed` on a busy one, and not on another.
"""

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
    """Trials read that no other program uses a core. A file whose tests read the real clocks
    overrides this fixture."""
    monkeypatch.setattr(MachineTime, "read", lambda: MachineTime(0.0, 0.0, 0.0, {}))


@pytest.fixture
def all_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A place that allows everything, for tests of what lies behind that question."""
    monkeypatch.setattr(place, "can", lambda _: available("yes"))


@pytest.fixture(autouse=True)
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """No control group limits the tests, wherever they run."""
    monkeypatch.setattr(OwnThrottling, "read", OwnThrottling)
    monkeypatch.setattr(place, "limits", limits)


def limits(**changes: Any) -> PlaceLimits:
    """The limits of a process on which none is set, with changes."""
    names = [one.name for one in fields(PlaceLimits)]
    allowed = tuple(sorted(os.sched_getaffinity(0)))
    return PlaceLimits(**{**dict.fromkeys(names), "allowed_cpus": allowed, **changes})


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session of its own, with this host; its processes are told from those of other runs, and
    for certain from those of the tests beside it."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    session_id = f"{worker % 16:x}{secrets.token_hex(3)[1:]}"
    ledger = Ledger.create(tmp_path / "state", session_id)
    host = LocalHost(ledger)
    yield Session(session_id, host, ledger, tmp_path / "run")
    host.close()
    ledger.close()


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """A folder in which sockets can lie, wherever tests do: their paths have 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="sm", dir="/tmp") as made:
        yield Path(made)


@pytest.fixture
def root_with_hugepages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks who we are, and a gigabyte of hugepages is free."""
    monkeypatch.setattr(place, "missing", lambda *_: None)
    monkeypatch.setattr(hugepages, "are_reserved", lambda: True)
    monkeypatch.setattr(hugepages, "pools", lambda: (hugepages.HugepagePool(2048, 512, 512),))
