"""Fixtures of tests that use the bench's parts by themselves: a state directory of their own,
so that they see no other bench's things, and a session in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from switchmark.testbed.host import Session
from switchmark.testbed.session import open_session
from tests.integration.switch_rig import own_state_dir


@pytest.fixture
def state_dir() -> Iterator[None]:
    """For the test's time all state of the bench lies apart."""
    with own_state_dir():
        yield


@pytest.fixture(scope="module")
def module_state_dir() -> Iterator[None]:
    """The same for all tests of a module, whose deployments they share."""
    with own_state_dir():
        yield


@pytest.fixture
def session(state_dir: None) -> Iterator[Session]:
    """An open session in it, which ends with the test."""
    with open_session(measuring=False) as opened:
        yield opened
