"""A TCP server and its clients in two namespaces that a veth pair joins."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from switchmark.engine.events import TcpInterval, TcpResult, parse
from switchmark.engine.tcp import TcpClient, TcpServer
from tests.integration.engine_tools import Engine, Node
from tests.integration.waiting import DEADLINE_S

PORT = 5201


def address_of(node: Node, port: int = PORT) -> str:
    return f"{node.address}:{port}"


def result_of(engine: Engine, count: int = 1) -> TcpResult:
    """Wait for the `count`-th result of an engine."""
    engine.wait("tcp_result", count, timeout_s=DEADLINE_S)
    line = [event for event in engine.lines if '"event":"tcp_result"' in event][count - 1]
    result = parse(line)
    assert isinstance(result, TcpResult)
    return result


def intervals_of(engine: Engine) -> list[TcpInterval]:
    parsed = [parse(line) for line in engine.lines if '"event":"tcp_interval"' in line]
    return [one for one in parsed if isinstance(one, TcpInterval)]


def between(intervals: list[TcpInterval], begin_ns: int, end_ns: int) -> list[TcpInterval]:
    """The intervals that lie wholly between two times."""
    return [
        one for one in intervals if one.t_ns - one.duration_ns >= begin_ns and one.t_ns <= end_ns
    ]


@dataclass
class Run:
    """The results of a client and its server in one trial."""

    client: TcpResult
    server: TcpResult
    client_intervals: list[TcpInterval]
    server_intervals: list[TcpInterval]


@contextlib.contextmanager
def started(node: Node, end: TcpServer | TcpClient, *, real_time: bool = False) -> Iterator[Engine]:
    """A TCP role in the namespace of a node that is ready.

    With `real_time` its worker runs before ordinary programs, where that is permitted: times of
    microseconds then do not depend on what else the machine does. It sleeps between requests."""
    role, *arguments = end.arguments()
    engine = Engine(role, arguments, node.namespace)
    try:
        engine.wait("ready")
        if real_time:
            with contextlib.suppress(PermissionError):
                os.sched_setscheduler(engine.process.pid, os.SCHED_FIFO, os.sched_param(10))
        yield engine
    finally:
        engine.close()


def run_trial(server: Engine, client: Engine, count: int = 1, start: str = "duration=1") -> Run:
    """The `count`-th trial of two engines in sessions."""
    server.tell("start")
    server.wait("started", count)
    client.tell(f"start {start}")
    sent = result_of(client, count)
    server.tell("stop")
    return Run(sent, result_of(server, count), intervals_of(client), intervals_of(server))


def run_once(
    wire: tuple[Node, Node],
    server: TcpServer,
    client: TcpClient,
    start: str,
    *,
    real_time: bool = False,
) -> Run:
    """One trial of a client at the first node and a server at the second."""
    a, b = wire
    with (
        started(b, server, real_time=real_time) as serving,
        started(a, client, real_time=real_time) as sending,
    ):
        return run_trial(serving, sending, start=start)
