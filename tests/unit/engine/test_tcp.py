"""Command lines of the TCP roles, and figures of their results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from switchmark.engine.binary import find_engine
from switchmark.engine.check import command_line_errors
from switchmark.engine.events import TcpResult, parse
from switchmark.engine.tcp import (
    TcpClient,
    TcpServer,
    failures_of,
    goodput_bps,
    latency_from_due,
)
from switchmark.errors import UnavailableError
from switchmark.statistics.histogram import Histogram
from tests.unit import engine_lines
from tests.unit.engine_lines import event
from tests.unit.trial_fakes import T0, FakeEngine, process

MS = 1_000_000


def result(**given: Any) -> TcpResult:
    parsed = parse(engine_lines.event("tcp_result", **given))
    assert isinstance(parsed, TcpResult)
    return parsed


def delays(times: dict[int, int]) -> dict[str, Any]:
    return {"count": sum(times.values()), "histogram": Histogram.of(times)}


def test_command_lines_have_the_given_values_alone() -> None:
    assert TcpServer(listen="198.18.0.2:5201").arguments() == [
        "tcp-server", "--session", "--workload", "rr", "--listen", "198.18.0.2:5201",
    ]  # fmt: skip
    client = TcpClient(
        connect="198.18.0.2:5201", workload="crr", connections=8, request_bytes=100,
        rate_rps=2500.5,
        schedule="poisson:3", timeout_s=1.0, congestion_control="reno", interval_s=0.1, core=1,
    )  # fmt: skip
    command = " ".join(client.arguments())
    for option in ("tcp-client --session", "--connect 198.18.0.2:5201", "--workload crr",
                   "--connections 8", "--request-size 100", "--rate 2500.5", "--timeout 1",
                   "--schedule poisson:3", "--congestion-control reno", "--interval 0.1",
                   "--core 1"):  # fmt: skip
        assert option in command
    assert "--response-size" not in command


def test_engine_accepts_the_command_lines() -> None:
    try:
        engine = find_engine()
    except UnavailableError:
        pytest.skip("switchmark-traffic is not built")
    ends: list[TcpServer | TcpClient] = [
        TcpServer(listen="198.18.0.2:5201", spin_us=500, response_bytes=10),
        TcpServer(listen="[2001:2::2]:5201", workload="http", response_bytes=1000),
        TcpClient(connect="198.18.0.2:5201", rate_rps=1000.0, idle="poll"),
        TcpClient(connect="198.18.0.2:80", workload="http", path="/x", connections=4),
        TcpClient(connect="198.18.0.2:5201", workload="stream", connections=4),
    ]
    assert command_line_errors(engine, [one.arguments() for one in ends]) == [""] * len(ends)


def test_failures_are_those_that_occurred() -> None:
    failed = result(totals={"attempted": 5, "completed": 2, "refused": 2, "timed_out": 1})
    assert failures_of(failed) == {"refused": 2, "timed_out": 1}


def test_latency_from_due_has_requests_without_an_answer() -> None:
    """A server that stalls at the end of a trial must not look fast."""
    parts = {"from_due": delays({MS: 90}), "unanswered": delays({400 * MS: 10})}
    latency = latency_from_due(result(config={"rate_rps": 1000.0}, latency=parts))
    assert latency is not None and latency.count == 100
    values = latency.percentiles_ns(["50", "99"])
    assert values["50"] < 1.01 * MS and values["99"] > 399 * MS


def test_latency_from_due_lacks_for_a_closed_loop() -> None:
    parts = {"from_sent": delays({MS: 90})}
    assert latency_from_due(result(config={"rate_rps": None}, latency=parts)) is None
    assert latency_from_due(result(latency=None)) is None


def test_goodput_counts_received_payload() -> None:
    received = result(duration_ns=2_000 * MS, totals={"received_bytes": 250_000_000})
    assert goodput_bps(received) == 1e9


def test_engine_process_reads_the_events_of_a_tcp_role() -> None:
    lines = [
        event("started", t_ns=T0),
        engine_lines.event("tcp_interval", t_ns=T0 + 5, completed=3),
        engine_lines.event("tcp_result", totals={"completed": 3}),
    ]
    engine = process(FakeEngine({"start": lambda _: lines}), "tcp-client")
    engine.start(rate=1000)
    assert engine.wait_tcp_result(1).totals.completed == 3
    assert engine.has_result and engine.tcp_result.totals.completed == 3
    assert [one.completed for one in engine.tcp_intervals] == [3]
    run = engine.as_run()
    assert run.result == json.loads(lines[-1])
    assert [one.counters["completed"] for one in run.intervals] == [3]
