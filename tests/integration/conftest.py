"""Fixtures of several test files: the whole bench, a separate state directory, a session in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.engine.binary import find_engine
from switchmark.errors import UnavailableError
from switchmark.host.host import Session
from switchmark.host.session import open_session
from tests.integration.hosts_bench import AHEAD_S, CABLE_MBIT
from tests.integration.main_job import Bench, new_bench
from tests.integration.switch_rig import own_state_dir
from tests.integration.two_hosts import TwoHosts


@pytest.fixture
def state_dir() -> Iterator[None]:
    """Use a separate state directory for the bench during the test."""
    with own_state_dir():
        yield


@pytest.fixture(scope="module")
def module_state_dir() -> Iterator[None]:
    """Use a separate state directory for all tests of a module, which share deployments."""
    with own_state_dir():
        yield


@pytest.fixture
def session(state_dir: None) -> Iterator[Session]:
    """Open a session in the state directory, which ends with the test."""
    with open_session(measuring=False) as opened:
        yield opened


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """The bench as a user starts it, in a separate state directory."""
    yield from new_bench(tmp_path)


@pytest.fixture(scope="module")
def engine() -> Path:
    """The traffic engine."""
    try:
        return find_engine()
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    """Two hosts on this machine with different clocks and a cable of limited rate."""
    pair = TwoHosts.make(Path(f"/var/tmp/smhosts{os.getpid()}"), ahead_s=AHEAD_S)
    try:
        pair.limit(CABLE_MBIT)
        yield pair
    finally:
        pair.end()
