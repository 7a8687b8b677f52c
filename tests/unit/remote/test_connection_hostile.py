"""A far host that has turned hostile: whatever it answers is a value of the kind that was asked
for, or the connection is given up with a line that says so."""

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
class FarHost:
    """Stands in for SSH and the agent: what is written gets the answer that is set."""

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


class Fake(Connection):
    """Is connected to a `FarHost` at once."""

    def __init__(self, greeting: Any, answer: Answer) -> None:
        super().__init__(SshTarget("far", "192.0.2.1"))
        self._greeting, self._answer = greeting, answer

    async def _connect(self) -> None:
        far = FarHost(self._answer)
        self._agent = far  # type: ignore[assignment]
        far.stdout.feed_data(json.dumps({"id": 0, "ok": self._greeting}).encode() + b"\n")
        self._tasks.append(asyncio.get_running_loop().create_task(self._listen()))


@pytest.fixture
def connect() -> Iterator[Callable[..., Connection]]:
    made: list[Connection] = []

    def connected(answer: Answer | None = None, greeting: Any = GREETING) -> Connection:
        made.append(Fake(greeting, answer or ok(None)))
        made[-1].open()
        return made[-1]

    yield connected
    for one in made:
        one.close()


def test_an_honest_host_is_understood(connect: Callable[..., Connection]) -> None:
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
def test_a_greeting_that_is_none_is_refused(
    connect: Callable[..., Connection], greeting: Any
) -> None:
    with pytest.raises(UnavailableError, match=r"its answer \(its greeting\) is none"):
        connect(greeting=greeting)


@pytest.mark.parametrize("value", [None, 5, "x", [], {}, {"args": 5}, [[[]]], {"exit_code": True}])
@pytest.mark.parametrize("kind", [Completed, NodeMade, MeterReading])
def test_an_answer_of_another_kind_ends_the_connection(
    connect: Callable[..., Connection], value: Any, kind: Any
) -> None:
    connection = connect(ok(value))
    with pytest.raises(HostLost, match="is none"):
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
def test_a_line_of_nonsense_ends_the_connection(
    connect: Callable[..., Connection], line: bytes
) -> None:
    connection = connect(lambda _: line)
    with pytest.raises(HostLost, match="in place of the agent it was heard"):
        connection.ask("it")


@pytest.mark.parametrize("told", [5, {}, {"heard_ns": 1}, {"heard_ns": "x", "told_ns": 1}, None])
def test_a_clock_that_is_none_is_no_clock(connect: Callable[..., Connection], told: Any) -> None:
    with pytest.raises(HostLost, match="the time"):
        connect(ok(told)).read_clock()


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
def test_the_codec_lets_no_other_type_through(kind: Any, value: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        from_plain(kind, value)


@pytest.mark.parametrize(
    ("processes", "reason"),
    [(1, "output wait to be read"), (5000, "more than 1000 processes that nobody has started")],
)
def test_a_host_that_tells_more_than_is_read_is_given_up(
    connect: Callable[..., Connection],
    monkeypatch: pytest.MonkeyPatch,
    processes: int,
    reason: str,
) -> None:
    monkeypatch.setattr(exchange, "MOST_WAITING_BYTES", 1 << 19)
    told = [{"process": number % processes, "line": "x" * 100} for number in range(5000)]
    connection = connect(lambda _: "".join(f"{json.dumps(one)}\n" for one in told).encode())
    lines = connection.process(0).lines
    with pytest.raises(HostLost, match=reason):
        connection.ask("it")
    assert connection._loop is not None
    listens = asyncio.wait(connection._tasks, timeout=60)
    _, still = asyncio.run_coroutine_threadsafe(listens, connection._loop).result()
    assert not still, "what else it sends is not read"
    held = 0
    while lines.get(0) is not None:
        held += 1
    assert held < 5000


def test_what_is_read_makes_room_and_so_does_what_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts are asked for days."""
    monkeypatch.setattr(exchange, "MOST_WAITING_BYTES", 10_000)
    far = exchange.Exchange(SshTarget("far", "192.0.2.1"))
    far.begin()
    read = far.process(0)
    for number in range(1, 1000):
        far.take({"process": 0, "line": "x" * 1000}, 0)
        assert read.lines.get(0) == "x" * 1000
        far.take({"process": number, "line": "x" * 1000}, 0)
        unread = far.process(number)
        far.take({"process": number, "ended": 0}, 0)
        assert unread.ended.is_set()
    assert unread.lines.get(0) == "x" * 1000
    assert far.lost is None and set(far._processes) == {0}
    for _ in range(20):
        far.take({"process": 0, "line": "x" * 1000}, 0)
    assert far.lost is not None
    held = [read.lines.get(0) for _ in range(20)]
    assert held[:9] == ["x" * 1000] * 9 and held[10:] == [None] * 10, "no more than there is room"
