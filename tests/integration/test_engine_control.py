"""Control of the real engine: commands, endings, sessions, schedules, errors."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.engine_tools import (
    Engine,
    Event,
    Node,
    engine,
    engine_path,
    needs_engine,
    port,
    veth_pair,
)
from tests.integration.machine import needs_root
from tests.integration.waiting import until

pytestmark = [*needs_engine, needs_root]

SLEEP = ["--idle", "sleep"]


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Node, Node]]:
    with veth_pair("w") as nodes:
        yield nodes


@pytest.mark.parametrize("role", ["sender", "receiver"])
@pytest.mark.parametrize("how", ["stop", "eof", "SIGTERM", "SIGINT", "SIGHUP"])
def test_every_ending_gives_a_result(wire: tuple[Node, Node], role: str, how: str) -> None:
    with engine(
        role,
        "--port",
        port("raw-mmsg", wire[0]),
        "--rate",
        "1k",
        "--interval",
        "0.1",
        *SLEEP,
        node=wire[0],
    ) as running:
        running.tell("start")
        running.wait("interval", count=2)
        time.sleep(0.05)
        result, code = running.finish(how)
        intervals = running.all("interval")
    assert code == 0
    assert result["reason"] == ("signal" if how.startswith("SIG") else how)
    assert running.events[-1]["event"] == "end of file"
    check_sums(intervals, result)
    if role == "sender":
        assert result["totals"]["tx_offered"] > 0


def check_sums(intervals: list[dict[str, Any]], result: dict[str, Any]) -> None:
    """Check that the intervals, including the partial last one, add up to the totals."""
    assert [i["index"] for i in intervals] == list(range(len(intervals)))
    for name, total in result["totals"].items():
        assert sum(i[name] for i in intervals) == total, name
    length = sum(i["duration_ns"] for i in intervals)
    assert length == result["duration_ns"] + result["drain_ns"]


@pytest.mark.parametrize("how", ["stop", "eof", "SIGTERM"])
def test_ending_while_idle_is_quiet(how: str) -> None:
    with engine("receiver", "--port", "null:") as running:
        if how == "eof":
            assert running.process.stdin is not None
            running.process.stdin.close()
        elif how == "stop":
            running.tell("stop")
        else:
            running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(timeout=30) == 0
        running.reader.join(timeout=30)
    assert [e["event"] for e in running.events] == ["ready", "end of file"]


def test_a_slow_reader_loses_nothing() -> None:
    """1,500 intervals while nobody reads: the pipe fills, lines merge, the sums stay right."""
    path = engine_path()
    assert path is not None
    process = subprocess.Popen(
        [
            path,
            "sender",
            "--port",
            "null:",
            "--rate",
            "100k",
            "--interval",
            "0.001",
            "--duration",
            "1.5",
            "--start",
            "now",
            *SLEEP,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    time.sleep(2.2)
    assert process.poll() is None  # it waits for a reader
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    events = [json.loads(line) for line in output.splitlines()]
    result = events[-1]
    intervals = [e for e in events if e["event"] == "interval"]
    assert len(intervals) > 100
    assert result["totals"]["tx_intended"] == pytest.approx(150_000, abs=64)
    check_sums(intervals, result)


def test_a_session_runs_many_trials(wire: tuple[Node, Node]) -> None:
    a, b = wire
    with (
        engine("receiver", "--port", port("raw-mmsg", b), "--session", *SLEEP, node=b) as receiver,
        engine("sender", "--port", port("raw-mmsg", a), "--session", *SLEEP, node=a) as sender,
    ):
        for n, command in enumerate(["verify 3", "verify-broadcast 2"], start=1):
            sender.tell(command)
            assert sender.wait("verification", count=n)["sent"] == int(command.split()[1])
        until(lambda: counted(receiver)["rx_verification"] == 5, "verification is counted")
        so_far = len(receiver.all("counters"))
        for n, (size, rate) in enumerate([(64, 5000), (512, 2000), (1518, 1000)], start=1):
            receiver.tell("start")
            receiver.wait("started", count=n)
            sender.tell(f"start rate={rate} burst=1 frame-size={size} duration=0.2")
            sent = sender.wait("result", count=n)
            receiver.tell("stop")
            received = receiver.wait("result", count=n)
            assert sent["config"]["frame_size_bytes"] == size
            assert sent["config"]["rate_pps"] == rate
            assert received["totals"]["rx_frames"] == sent["totals"]["tx_offered"] > 0
            assert received["totals"]["rx_bytes"] == received["totals"]["rx_frames"] * size
            assert received["loss"]["first_sequence"] == 0
            assert received["loss"]["lost"] == 0
        receiver.tell("counters")
        total = sum(r["totals"]["rx_frames"] for r in receiver.all("result"))
        assert receiver.wait("counters", so_far + 1)["rx_stream"] == total
        for running in (sender, receiver):
            running.tell("exit")
            assert running.process.wait(timeout=30) == 0


def counted(running: Engine) -> Event:
    """Return its current counters."""
    count = len(running.all("counters")) + 1
    running.tell("counters")
    return running.wait("counters", count)


def test_verification_frames_to_others_are_seen_as_flooding(wire: tuple[Node, Node]) -> None:
    a, b = wire
    stranger = Node(a.namespace, a.device, a.mac, a.address)
    stranger.peer = Node("", "", "02:00:00:00:00:99", b.address)
    with (
        engine("receiver", "--port", port("raw", b), *SLEEP, node=b) as receiver,
        engine("sender", "--port", port("raw", a), *SLEEP, node=stranger) as sender,
    ):
        sender.tell("verify 4")
        sender.wait("verification")
        until(lambda: counted(receiver)["rx_foreign"] == 4, "frames to others are counted")
        assert counted(receiver)["rx_verification"] == 0


AHEAD_NS = 1_500_000_000  # a command needs a thousandth of this time


def test_start_at_a_given_time() -> None:
    with engine("sender", "--port", "null:", "--rate", "1k", "--burst", "1", *SLEEP) as sender:
        at = time.monotonic_ns() + AHEAD_NS
        sender.tell(f"start duration=0.1 at={at}")
        assert sender.wait("started")["t_ns"] == at
        result, _ = sender.finish("wait")
        assert time.monotonic_ns() >= at + 100_000_000
    assert result["totals"]["tx_intended"] == 100


@pytest.mark.parametrize("role", ["sender", "client", "duplex", "receiver"])
def test_trial_stopped_before_its_start_has_no_length(role: str) -> None:
    with engine(role, "--port", "null:", "--rate", "1k", *SLEEP) as running:
        running.tell(f"start at={time.monotonic_ns() + 3600 * 1_000_000_000}")
        running.wait("started")
        running.tell("interval")
        result, code = running.finish("stop")
    assert code == 0
    assert result["reason"] == "stop"
    assert result["duration_ns"] == result["drain_ns"] == result["cpu"]["wall_ns"] == 0
    assert result["totals"]["tx_intended"] == 0
    check_sums(running.all("interval"), result)


def test_pacing_keeps_the_rate(wire: tuple[Node, Node]) -> None:
    with engine(
        "sender",
        "--port",
        "null:",
        "--rate",
        "1M",
        "--burst",
        "8",
        "--duration",
        "0.5",
        "--catch-up-us",
        "1M",
    ) as sender:
        sender.tell("start")
        result, _ = sender.finish("wait")
    assert result["totals"]["tx_intended"] == result["totals"]["tx_offered"] == 500_000
    pacing = result["pacing"]
    assert pacing["skipped"] == 0
    assert pacing["on_schedule"] is True
    assert 0 < pacing["late_mean_ns"] <= pacing["late_max_ns"]
    assert 500_000_000 <= result["duration_ns"] < 1_500_000_000  # it may lose its core for a time


SLEPT, SELDOM = 50, 10  # sleeps; a polling engine may wait for a lock of the kernel


def sleeps(pid: int) -> int:
    """Return how often its first thread, which serves the port, has yielded its core."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])


@pytest.mark.parametrize("idle", ["poll", "sleep"])
def test_cpu_time_and_idle_strategies(idle: str) -> None:
    """A polling engine may lose its core but never yields it; a sleeping one uses little CPU
    time."""
    with engine("receiver", "--port", "null:", "--interval", "0.1", "--idle", idle) as running:
        running.tell("start")
        running.wait("started")
        before = sleeps(running.process.pid)
        running.wait("interval", 3)
        if idle == "sleep":
            until(lambda: sleeps(running.process.pid) > before + SLEPT, "it sleeps")
        else:
            assert sleeps(running.process.pid) <= before + SELDOM
        result, _ = running.finish("stop")
    cpu = result["cpu"]
    assert cpu["cpu_ns"] == cpu["user_ns"] + cpu["system_ns"] > 0
    assert idle == "poll" or cpu["cpu_ns"] < 0.4 * cpu["wall_ns"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["sendr"], "did you mean 'sender'"),
        (["sender", "--port", "null:", "--frame-size", "41"], "from 64 to 9018"),
        (["sender", "--port", "null:", "--rate", "0"], "--rate"),
        (["sender", "--port", "nul:"], "did you mean 'null'"),
        (["sender", "--port", "null:", "--brust", "1"], "did you mean '--burst'"),
        (["receiver", "--port", "raw:dev=lo,nonsense"], "'nonsense' is not understood"),
        (["receiver", "--port", "null:x=1"], "null takes rx-rate"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(args: list[str], message: str) -> None:
    path = engine_path()
    assert path is not None
    done = subprocess.run([path, *args], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_ports_that_cannot_be_opened_are_exit_code_1(wire: tuple[Node, Node]) -> None:
    for spec in ("raw:dev=no-such", "raw:"):
        running = Engine("receiver", ["--port", spec])
        assert running.process.wait(timeout=30) == 1
        running.reader.join(timeout=30)
        assert running.all("error")[0]["message"].startswith("port 0")
        assert running.stderr().count("\n") == 1
        running.close()


def test_frames_that_do_not_fit_the_mtu_are_refused(wire: tuple[Node, Node]) -> None:
    a = wire[0]
    assert a.peer is not None
    running = Engine(
        "sender",
        ["--port", port("raw", a), "--dst-mac", a.peer.mac, "--frame-size", "9018"],
        a.namespace,
    )
    assert running.process.wait(timeout=30) == 1
    running.reader.join(timeout=30)
    assert "needs an MTU of 9000; the port has 1500" in running.all("error")[0]["message"]
    running.close()


def test_removed_device_ends_the_trial_with_an_error() -> None:
    with (
        veth_pair("d") as (a, _),
        engine("sender", "--port", port("raw", a), "--rate", "1k", *SLEEP, node=a) as sender,
    ):
        sender.tell("start interval=0.05")
        sender.wait_sent(1)
        subprocess.run(["ip", "-n", a.namespace, "link", "del", a.device], check=True)
        result, code = sender.finish("wait")
    assert code == 1
    assert result["reason"] == "failure"
    assert result["totals"]["tx_offered"] > 0
    assert a.device in sender.all("error")[0]["message"]


def test_commands_in_the_wrong_place_are_errors() -> None:
    with engine("sender", "--port", "null:", "--rate", "1k", *SLEEP) as sender:
        sender.tell("start")
        sender.wait("started")
        sender.tell("verify 1")
        result, code = sender.finish("wait")
    assert code == 1
    assert "a trial runs" in sender.all("error")[0]["message"]
    assert result["totals"]["tx_offered"] >= 0


def test_end_of_output_ends_the_engine() -> None:
    path = engine_path()
    assert path is not None
    process = subprocess.Popen(
        [path, "receiver", "--port", "null:", "--start", "now", "--interval", "0.05", *SLEEP],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    process.stdout.readline()
    process.stdout.close()
    killer = threading.Timer(60, process.kill)
    killer.start()
    assert process.wait() == 0
    killer.cancel()
    process.stdin.close()


def test_a_forwarder_of_many_ports_reports_each() -> None:
    ports = ["--port", "null:"] * 6
    with engine("forwarder", *ports, "--interval", "0.05", *SLEEP) as running:
        running.tell("start")
        running.wait("interval", 3)
        result, code = running.finish("stop")
        intervals = running.all("interval")
    assert code == 0
    assert len(intervals) >= 3
    assert all(len(e["ports"]) == 6 for e in [*intervals, result])
    assert all(p["up"] for e in intervals for p in e["ports"])


def test_start_now_runs_without_an_input() -> None:
    path = engine_path()
    assert path is not None
    done = subprocess.run(
        [path, "sender", "--port", "null:", "--duration", "0.2", "--start", "now", *SLEEP],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["event"], result["reason"]) == ("result", "duration")


def without_start(redirection: str, stdin: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run a sender without `--start`, with the shell's redirection of standard input."""
    path = engine_path()
    assert path is not None
    command = f'exec "$0" sender --port null: --duration 0.1 --idle sleep {redirection}'
    return subprocess.run(
        ["sh", "-c", command, path], stdin=stdin, capture_output=True, text=True, timeout=30,
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize("redirection", ["<&-", "</dev/null"])
def test_engine_without_an_input_for_start_is_refused(redirection: str) -> None:
    done = without_start(redirection)
    assert done.returncode == 2
    assert "add --start now" in done.stderr
    assert "ready" not in done.stdout


def test_input_without_start_reports_nothing_was_measured(tmp_path: Path) -> None:
    (empty := tmp_path / "empty").touch()
    (commands := tmp_path / "commands").write_text("counters\n")
    for redirection, is_reported in ((f"<{empty}", True), (f"<{commands}", False)):
        done = without_start(redirection)
        assert done.returncode == 0
        assert ("nothing was measured" in done.stderr) == is_reported


def test_terminal_user_gets_hint_to_start_and_traffic() -> None:
    keyboard, terminal = pty.openpty()
    path = engine_path()
    assert path is not None
    with (
        os.fdopen(keyboard, "wb", buffering=0) as typed,
        subprocess.Popen(
            [path, "sender", "--port", "null:", "--duration", "0.1", *SLEEP],
            stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process,
    ):  # fmt: skip
        os.close(terminal)
        assert process.stderr is not None
        assert "type start to begin" in process.stderr.readline()
        typed.write(b"start\n")
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    result = json.loads(out.splitlines()[-1])
    assert result["event"] == "result"
    assert result["totals"]["tx_offered"] > 0


def test_end_of_file_at_terminal_reports_nothing_was_measured() -> None:
    keyboard, terminal = pty.openpty()
    with os.fdopen(keyboard, "wb", buffering=0) as typed:
        typed.write(b"\x04")
        done = without_start("", terminal)
        os.close(terminal)
    assert done.returncode == 0
    assert "type start to begin" in done.stderr
    assert "nothing was measured" in done.stderr
