"""The TCP roles over a veth pair: each request and byte is counted once, each failure by reason."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest

from switchmark.engine.events import TcpResult, parse
from switchmark.engine.tcp import TcpClient, TcpServer, failures_of, latency_from_due
from switchmark.host.kernel import namespaces
from tests.integration.engine_tools import (
    Engine,
    Node,
    engine_path,
    ip,
    needs_engine,
    veth_pair,
)
from tests.integration.machine import needs_root
from tests.integration.tcp_tools import (
    Run,
    address_of,
    intervals_of,
    result_of,
    run_once,
    run_trial,
    started,
)
from tests.integration.waiting import DEADLINE_S

pytestmark = [*needs_engine, needs_root]


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Node, Node]]:
    with veth_pair("tc") as nodes:
        yield nodes


def assert_all_answered(run: Run, request_bytes: int, response_bytes: int) -> None:
    """Requests sent = answered = served; bytes exact; intervals add up to totals."""
    sent, served = run.client.totals, run.server.totals
    assert sent.attempted == sent.completed == served.attempted == served.completed > 0
    assert failures_of(run.client) == failures_of(run.server) == {}
    assert sent.sent_bytes == served.received_bytes == request_bytes * sent.completed
    assert served.sent_bytes == sent.received_bytes == response_bytes * sent.completed
    assert run.client.unfinished == 0 and run.client.drained and run.server.drained
    for totals, intervals in ((sent, run.client_intervals), (served, run.server_intervals)):
        for name in ("attempted", "completed", "sent_bytes", "received_bytes"):
            assert sum(getattr(one, name) for one in intervals) == getattr(totals, name)
    assert run.client.latency is not None and run.client.latency.from_sent is not None
    assert run.client.latency.from_sent.count == sent.completed
    assert run.client.congestion_control and not run.client.congestion_varies


@pytest.mark.parametrize(
    ("connections", "request_bytes", "response_bytes"),
    [(1, 1, 1), (16, 64, 1448), (2, 300_000, 1_000_000)],
)
def test_closed_loop_answers_every_request(
    wire: tuple[Node, Node], connections: int, request_bytes: int, response_bytes: int
) -> None:
    """Messages larger than the socket buffers are sent and received in parts."""
    sizes = {"request_bytes": request_bytes, "response_bytes": response_bytes}
    run = run_once(
        wire,
        TcpServer(listen=address_of(wire[1]), interval_s=0.1, **sizes),  # type: ignore[arg-type]
        TcpClient(
            connect=address_of(wire[1]), connections=connections, interval_s=0.1,
            **sizes,  # type: ignore[arg-type]
        ),
        "duration=0.5",
    )  # fmt: skip
    assert_all_answered(run, request_bytes, response_bytes)
    assert run.client.totals.connects == run.server.totals.accepted == connections
    assert latency_from_due(run.client) is None


def test_open_loop_sends_what_is_due(wire: tuple[Node, Node]) -> None:
    run = run_once(
        wire,
        TcpServer(listen=address_of(wire[1])),
        TcpClient(connect=address_of(wire[1]), connections=4, rate_rps=1000),
        "duration=0.5",
    )
    assert run.client.totals.attempted + run.client.unsent == 500
    assert_all_answered(run, 64, 64)
    latency = latency_from_due(run.client)
    assert latency is not None and latency.count == 500


def test_each_request_has_its_connection(wire: tuple[Node, Node]) -> None:
    """The server closes first, so that the sockets in TIME_WAIT are there."""
    with (
        started(wire[1], TcpServer(listen=address_of(wire[1]), workload="crr")) as serving,
        started(
            wire[0],
            TcpClient(connect=address_of(wire[1]), workload="crr", connections=8, rate_rps=400),
        ) as sending,
    ):
        for count in (1, 2):  # a second trial of the session begins with counters of 0
            run = run_trial(serving, sending, count, "duration=0.5")
            assert run.client.totals.attempted + run.client.unsent == 200
            sent, served = run.client.totals, run.server.totals
            assert sent.connects == sent.connected == served.accepted == sent.completed
            assert sent.completed == served.completed == sent.attempted > 0
            assert run.client.latency is not None and run.client.latency.connect is not None
            assert run.client.latency.connect.count == sent.completed
            assert run.client.latency.first_byte is not None
            assert run.client.latency.first_byte.count == sent.completed
    assert run.server.time_waits is not None and run.client.time_waits is not None
    assert run.server.time_waits >= sent.completed > run.client.time_waits


@pytest.mark.parametrize("streams", [1, 4])
def test_stream_bytes_are_exact(wire: tuple[Node, Node], streams: int) -> None:
    run = run_once(
        wire,
        TcpServer(listen=address_of(wire[1]), workload="stream"),
        TcpClient(connect=address_of(wire[1]), workload="stream", connections=streams),
        "duration=0.5",
    )
    assert run.client.totals.sent_bytes == run.server.totals.received_bytes > 0
    assert run.client.kernel.acked_bytes >= run.client.totals.sent_bytes
    assert failures_of(run.client) == failures_of(run.server) == {}
    assert run.client.drained and run.server.totals.accepted == streams


def test_http_of_the_own_server(wire: tuple[Node, Node]) -> None:
    run = run_once(
        wire,
        TcpServer(listen=address_of(wire[1]), workload="http", response_bytes=1000),
        TcpClient(connect=address_of(wire[1]), workload="http", connections=4, path="/a"),
        "duration=0.3",
    )
    sent, served = run.client.totals, run.server.totals
    assert sent.completed == sent.attempted == served.completed > 0
    assert sent.received_bytes == served.sent_bytes > 1000 * sent.completed
    assert sent.sent_bytes == served.received_bytes


def test_other_response_length_is_malformed(wire: tuple[Node, Node]) -> None:
    run = run_once(
        wire,
        TcpServer(listen=address_of(wire[1]), response_bytes=65),
        TcpClient(connect=address_of(wire[1]), rate_rps=100),
        "duration=0.3",
    )
    totals = run.client.totals
    assert totals.completed == 0 and totals.malformed == totals.attempted > 0
    assert run.client.latency is not None and run.client.latency.from_sent is None


def test_refused_connections_are_counted(wire: tuple[Node, Node]) -> None:
    client = TcpClient(connect=address_of(wire[1]), workload="crr", rate_rps=200)
    with started(wire[0], client) as sending:
        sending.tell("start duration=0.3")
        result = result_of(sending)
    assert failures_of(result) == {"refused": result.totals.attempted}
    assert result.totals.attempted + result.unsent == 60 and result.last_error is not None
    assert "refused" in result.last_error


def test_client_without_a_server_ends_with_the_reason(wire: tuple[Node, Node]) -> None:
    role, *arguments = TcpClient(connect=address_of(wire[1])).arguments()
    client = Engine(role, arguments, wire[0].namespace)
    try:
        client.wait("ready")
        client.tell("start duration=0.3")
        assert "refused" in client.wait("error")["message"]
        assert client.process.wait(DEADLINE_S) == 1
    finally:
        client.close()


def test_server_at_a_used_address_ends_with_the_reason(wire: tuple[Node, Node]) -> None:
    role, *arguments = TcpServer(listen=address_of(wire[1])).arguments()
    with started(wire[1], TcpServer(listen=address_of(wire[1]))):
        second = Engine(role, arguments, wire[1].namespace)
        try:
            message = second.wait("error")["message"]
            assert address_of(wire[1]) in message and "in use" in message
            assert second.process.wait(DEADLINE_S) == 1
        finally:
            second.close()


def test_requests_without_an_answer_time_out(wire: tuple[Node, Node]) -> None:
    """A server that accepts and is silent: each request fails, with its time."""
    listener = namespaces.inside(
        wire[1].namespace, lambda: socket.create_server((wire[1].address, 5201))
    )
    client = TcpClient(connect=address_of(wire[1]), rate_rps=100, timeout_s=0.05)
    with listener, started(wire[0], client) as sending:
        sending.tell("start duration=0.4")
        result = result_of(sending)
    totals = result.totals
    assert totals.completed == 0 and totals.timed_out + result.unfinished == totals.attempted > 0
    assert totals.attempted + result.unsent == 40
    assert result.latency is not None and result.latency.unanswered is not None
    assert result.latency.unanswered.count == 40


def test_closing_server_is_connected_again(wire: tuple[Node, Node]) -> None:
    """A server that closes after each response (keepalive_requests of nginx): the next request
    connects again."""
    listener = namespaces.inside(
        wire[1].namespace, lambda: socket.create_server((wire[1].address, 5201))
    )
    ended = threading.Event()

    def serve() -> None:
        listener.settimeout(0.1)
        while not ended.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                if connection.recv(64):
                    connection.sendall(bytes(64))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with started(wire[0], TcpClient(connect=address_of(wire[1]), rate_rps=50)) as sending:
            sending.tell("start duration=0.4")
            result = result_of(sending)
    finally:
        ended.set()
        thread.join(DEADLINE_S)
        listener.close()
    totals = result.totals
    assert totals.completed + sum(failures_of(result).values()) == totals.attempted > 0
    assert totals.completed > 1 and totals.connected >= totals.completed


def test_http_server_that_announces_its_close(wire: tuple[Node, Node]) -> None:
    """No request is lost on a connection whose response said `Connection: close`."""
    listener = namespaces.inside(
        wire[1].namespace, lambda: socket.create_server((wire[1].address, 5201))
    )
    ended = threading.Event()
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"

    def serve() -> None:
        listener.settimeout(0.1)
        while not ended.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                with connection:
                    if connection.recv(4096):
                        connection.sendall(answer)
                        connection.recv(1)  # the client closes first

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        client = TcpClient(connect=address_of(wire[1]), workload="http", rate_rps=50)
        with started(wire[0], client) as sending:
            sending.tell("start duration=0.4")
            result = result_of(sending)
    finally:
        ended.set()
        thread.join(DEADLINE_S)
        listener.close()
    totals = result.totals
    assert totals.completed == totals.attempted == totals.connected > 1
    assert failures_of(result) == {}
    assert totals.received_bytes == len(answer) * totals.completed


def test_connections_fit_the_limit_of_files(wire: tuple[Node, Node]) -> None:
    """The default is lowered to the limit; a given number is refused with both numbers."""
    server = [engine_path(), "tcp-server", "--listen", address_of(wire[1]), "--start", "now",
              "--duration", "0.02"]  # fmt: skip
    limited = ["ip", "netns", "exec", wire[1].namespace, "prlimit", "--nofile=300:300", *server]
    done = subprocess.run(limited, capture_output=True, text=True, check=True, timeout=60)
    result = parse(done.stdout.splitlines()[-1])
    assert isinstance(result, TcpResult) and 1 < result.config.connections < 300
    command = [*limited, "--connections", "400"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "--connections: needs 464 open files" in done.stderr and "open 300" in done.stderr


def test_stop_ends_a_client_that_still_connects(wire: tuple[Node, Node]) -> None:
    """No SYN is answered (the neighbour does not exist): the result has no request."""
    ip("-n", wire[0].namespace, "neigh", "replace", "198.18.0.9", "lladdr", "02:00:00:00:00:09",
       "dev", wire[0].device)  # fmt: skip
    with started(wire[0], TcpClient(connect="198.18.0.9:5201", connections=3)) as sending:
        sending.tell("start duration=1")
        sending.tell("stop")
        result = result_of(sending)
    assert result.totals.connects == 3 and result.totals.connected == 0
    assert result.totals.attempted == result.unfinished == 0
    assert result.latency is not None and result.latency.unanswered is None


def test_server_counts_clients_that_leave(wire: tuple[Node, Node]) -> None:
    """A request that ends in the middle, a reset, and more connections than permitted."""
    server = TcpServer(listen=address_of(wire[1]), connections=2)
    with started(wire[1], server) as serving:
        serving.tell("start")
        serving.wait("started")

        def connect() -> socket.socket:
            return socket.create_connection((wire[1].address, 5201), timeout=DEADLINE_S)

        with namespaces.inside(wire[0].namespace, connect) as first:
            first.sendall(bytes(64))
            assert len(first.recv(64, socket.MSG_WAITALL)) == 64
            with namespaces.inside(wire[0].namespace, connect) as second:
                second.sendall(bytes(64))
                assert len(second.recv(64, socket.MSG_WAITALL)) == 64
                with namespaces.inside(wire[0].namespace, connect) as third:
                    assert third.recv(1) == b""
            first.sendall(bytes(10))
        serving.tell("stop")
        result = result_of(serving)
    assert result.totals.accepted == 2 and result.totals.turned_away == 1
    assert result.totals.completed == 2 and failures_of(result) == {"closed": 1}
    assert sum(one.accepted for one in intervals_of(serving)) == 2
