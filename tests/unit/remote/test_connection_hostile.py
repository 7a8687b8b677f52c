"""Hostile remote hosts: an answer of the wrong type closes the connection with one clear line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from switchmark.errors import UnavailableError
from switchmark.host.cores.counters import MeterReading
from switchmark.host.facts import Cpu, gather
from switchmark.host.host import Completed
from switchmark.remote import exchange
from switchmark.remote.codec import from_plain, to_plain
from switchmark.remote.connection import Connection, HostLost
from switchmark.remote.hello import Hello, NodeMade
from switchmark.testbed.testbed import SshTarget

GREETING = to_plain(Hello("abc123", Path("/run/x"), "far", "boot", gather()))
Answer = Callable[[dict[str, Any]], bytes]


@dataclass
class FakeHost:
    """A fake of SSH and the agent: it gives each request the same answer."""

    answer: Answer
    exit_status: int | None = None

    def __post_init__(self) -> None:
        self.stdout = asyncio.StreamReader()
        self.stderr = asyncio.StreamReader()
        self.stdin = self

    def write(self, data: bytes) -> None:
        for line in data.splitlines():
            request = json.loads(line)
            if request["do"] == "exit":
                self.stdout.feed_eof()
            else:
                self.stdout.feed_data(self.answer(request))

    async def wait_closed(self) -> None:
        pass


def ok(value: Any) -> Answer:
    return lambda request: json.dumps({"id": request["id"], "ok": value}).encode() + b"\n"


class FakeConnection(Connection):
    """A connection to a `FakeHost`."""

    def __init__(self, greeting: Any, answer: Answer) -> None:
        super().__init__(SshTarget("far", "192.0.2.1"))
        self._greeting, self._answer = greeting, answer

    async def _connect(self) -> None:
        host = FakeHost(self._answer)
        self._agent = host  # type: ignore[assignment]
        host.stdout.feed_data(json.dumps({"id": 0, "ok": self._greeting}).encode() + b"\n")
        self._tasks.append(asyncio.get_running_loop().create_task(self._read_messages()))


@pytest.fixture
def connect() -> Iterator[Callable[..., Connection]]:
    connections: list[Connection] = []

    def connect(answer: Answer | None = None, greeting: Any = GREETING) -> Connection:
        connections.append(FakeConnection(greeting, answer or ok(None)))
        connections[-1].open()
        return connections[-1]

    yield connect
    for connection in connections:
        connection.close()


def test_valid_answers_are_returned(connect: Callable[..., Connection]) -> None:
    connection = connect(ok({"args": ["a"], "exit_code": 0, "stdout": "", "stderr": ""}))
    assert connection.hello is not None and connection.hello.facts == gather_like(connection)
    assert connection.ask_for(Completed, "run") == Completed(("a",), 0, "", "")


def gather_like(connection: Connection) -> object:
    assert connection.hello is not None
    return from_plain(type(connection.hello.facts), GREETING["facts"])


@pytest.mark.parametrize(
    "greeting",
    [
        None, 5, [], "x", {}, {**GREETING, "facts": 5}, {**GREETING, "facts": {}},
        {**GREETING, "facts": {**GREETING["facts"], "cpus": "0-3"}},
        {**GREETING, "facts": {**GREETING["facts"], "cpus": [{"id": "x"}]}},
        {**GREETING, "facts": {**GREETING["facts"], "usable_cpus": [0.5]}},
        {**GREETING, "hostname": {"a": 1}}, {**GREETING, "run_dir": 7},
        {**GREETING, "session": "../../etc"}, {**GREETING, "session": None},
        {**GREETING, "more": 1},
    ],
)  # fmt: skip
def test_malformed_greeting_is_refused(connect: Callable[..., Connection], greeting: Any) -> None:
    with pytest.raises(UnavailableError, match=r"its answer \(its greeting\) is malformed"):
        connect(greeting=greeting)


@pytest.mark.parametrize("value", [None, 5, "x", [], {}, {"args": 5}, [[[]]], {"exit_code": True}])
@pytest.mark.parametrize("kind", [Completed, NodeMade, MeterReading])
def test_answer_of_another_type_closes_the_connection(
    connect: Callable[..., Connection], value: Any, kind: Any
) -> None:
    connection = connect(ok(value))
    with pytest.raises(HostLost, match="is malformed"):
        connection.ask_for(kind, "it")
    with pytest.raises(HostLost):
        connection.ask("again")


@pytest.mark.parametrize(
    "line",
    [
        b"5\n", b"null\n", b"{}\n", b'{"process": [1]}\n', b'{"process": 1}\n', b"\xff\xfe\n",
        b'{"process": 1, "line": 5}\n', b'{"id": {}}\n', b'{"id": 1}\n', b"[" * 100_000 + b"\n",
        b'{"id": 1, "ok": NaN}\n', b'{"id": 1, "ok": Infinity}\n', b'{"id": 1, "error": 5}\n',
    ],
    ids=range(13),
)  # fmt: skip
def test_malformed_line_closes_the_connection(
    connect: Callable[..., Connection], line: bytes
) -> None:
    connection = connect(lambda _: line)
    with pytest.raises(HostLost, match="this line does not come from the agent"):
        connection.ask("it")


@pytest.mark.parametrize(
    "times", [5, {}, {"received_ns": 1}, {"received_ns": "x", "sent_ns": 1}, None]
)
def test_malformed_clock_is_refused(connect: Callable[..., Connection], times: Any) -> None:
    with pytest.raises(HostLost, match="the time"):
        connect(ok(times)).read_clock()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Cpu, {"id": True, "core": [0, 0], "node": 0, "isolated": False}),
        (Cpu, {"id": 1, "core": [0], "node": 0, "isolated": False}),
        (Cpu, {"id": 1, "core": "00", "node": 0, "isolated": False}),
        (Cpu, {"id": 1, "core": [0, 0], "node": 0, "isolated": 1}),
        (Path, 5),
        (float, "1"),
        (dict[str, int], [["a", 1]]),
        (tuple[int, ...], {"1": 2}),
    ],
)
def test_codec_refuses_values_of_other_types(kind: Any, value: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        from_plain(kind, value)


@pytest.mark.parametrize(
    ("processes", "reason"),
    [(1, "output wait to be read"), (5000, "more than 1000 processes that were not started")],
)
def test_too_much_output_closes_the_connection(
    connect: Callable[..., Connection],
    monkeypatch: pytest.MonkeyPatch,
    processes: int,
    reason: str,
) -> None:
    monkeypatch.setattr(exchange, "MOST_WAITING_BYTES", 1 << 19)
    messages = [{"process": number % processes, "line": "x" * 100} for number in range(5000)]
    output = "".join(f"{json.dumps(message)}\n" for message in messages).encode()
    connection = connect(lambda _: output)
    lines = connection.process(0).lines
    with pytest.raises(HostLost, match=reason):
        connection.ask("it")
    assert connection._loop is not None
    readers = asyncio.wait(connection._tasks, timeout=60)
    _, pending = asyncio.run_coroutine_threadsafe(readers, connection._loop).result()
    assert not pending, "the connection still reads after it was closed"
    line_count = 0
    while lines.get(0) is not None:
        line_count += 1
    assert line_count < 5000


def test_read_lines_and_ended_processes_free_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection can be open for days: its memory must not grow with each line or process."""
    monkeypatch.setattr(exchange, "MOST_WAITING_BYTES", 10_000)
    requests = exchange.Exchange(SshTarget("far", "192.0.2.1"))
    requests.begin()
    reader = requests.process(0)
    for number in range(1, 1000):
        requests.take({"process": 0, "line": "x" * 1000}, 0)
        assert reader.lines.get(0) == "x" * 1000
        requests.take({"process": number, "line": "x" * 1000}, 0)
        unread = requests.process(number)
        requests.take({"process": number, "ended": 0}, 0)
        assert unread.ended.is_set()
    assert unread.lines.get(0) == "x" * 1000
    assert requests.lost is None and set(requests._processes) == {0}
    for _ in range(20):
        requests.take({"process": 0, "line": "x" * 1000}, 0)
    assert requests.lost is not None
    lines = [reader.lines.get(0) for _ in range(20)]
    assert lines[:9] == ["x" * 1000] * 9 and lines[10:] == [None] * 10, "more than the room"
