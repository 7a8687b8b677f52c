"""Interrupts of an agent whose bench has ended, and cases without one; the agent undoes
everything."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator

import pytest

from switchmark.remote.channel import Channel

DEADLINE_S = 60.0


class Bench:
    """The other end of an agent's standard input."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def ask(self, operation: str) -> None:
        os.write(self._descriptor, json.dumps({"id": 1, "do": operation}).encode() + b"\n")

    def hang_up(self) -> None:
        os.close(self._descriptor)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    reader, writer = os.pipe()
    read = os.read
    monkeypatch.setattr(os, "read", lambda fd, most: read(reader if fd == 0 else fd, most))
    return Bench(writer)


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    found: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _pid, number: found.append(number))
    yield found


def wait_over(channel: Channel) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not channel._is_over:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_waiting_agent_ends_by_itself(bench: Bench, killed: list[int]) -> None:
    """A signal would come as it begins to undo."""
    channel = Channel()
    bench.ask("facts")
    assert channel.following() == {"id": 1, "do": "facts"}
    bench.ask("exit")
    assert channel.following() is None
    bench.hang_up()
    wait_over(channel)
    assert channel.following() is None
    assert killed == []


@pytest.mark.parametrize("requests", [0, 1])
def test_working_agent_is_interrupted_once(bench: Bench, killed: list[int], requests: int) -> None:
    """Also before it accepts a request."""
    channel = Channel()
    for _ in range(requests):
        bench.ask("facts")
        assert channel.following() is not None
    bench.hang_up()
    wait_over(channel)
    channel._leave()  # as after a long silence
    assert killed == [signal.SIGTERM]
    assert channel.following() is None
