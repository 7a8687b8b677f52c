"""The engine's end from outside: signals at any moment, a terminal that hangs up, full files and
pipes. It always gives a result or a clear line, and never hangs."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.engine_tools import Engine, engine, engine_path, needs_engine

pytestmark = needs_engine
FULL = "/dev/full"
NOW = ("--start", "now", "--idle", "sleep")
ROLES = {
    "sender": ("--port", "null:", "--rate", "10k"),
    "receiver": ("--port", "null:"),
    "tester": ("--port", "null:", "--port", "null:", "--rate", "1k"),
    "reference": ("--port", "null:", "--port", "null:", "--delay-us", "500"),
}


def path() -> str:
    found = engine_path()
    assert found is not None
    return found


@pytest.mark.parametrize("role", ROLES)
def test_signal_at_any_moment_gives_a_result(role: str) -> None:
    """From before it handles signals until long after its start."""
    results = 0
    names = itertools.cycle((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    for after_ms, name in zip((0, 3, 10, 30, 60, 70, 80, 90, 150, 300), names, strict=False):
        process = subprocess.Popen(
            [path(), role, *ROLES[role], *NOW, "--interval", "0.01"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        time.sleep(after_ms / 1000)
        process.send_signal(name)
        output, errors = process.communicate(timeout=30)
        events = [json.loads(line) for line in output.splitlines()]
        assert errors == ""
        if process.returncode == -name:  # before it handles signals
            assert events == []
            continue
        assert process.returncode == 0
        if any(event["event"] == "started" for event in events):
            assert events[-1]["event"] == "result"
            assert events[-1]["reason"] == "signal"
            results += 1
    if results == 0:
        pytest.skip("machine too busy: the engine never began in time")


def test_hangup_after_nohup_does_not_end_the_engine() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        running = Engine("sender", ["--port", "null:", "--rate", "1k", "--interval", "0.05", *NOW])
    finally:
        signal.signal(signal.SIGHUP, before)
    try:
        running.wait("started")
        running.process.send_signal(signal.SIGHUP)
        for count in range(1, 4):
            running.wait("interval", len(running.all("interval")) + count)
        result, code = running.finish("SIGTERM")
        assert (code, result["reason"]) == (0, "signal")
    finally:
        running.close()


@pytest.mark.parametrize("many", [True, False], ids=["while it runs", "at its end"])
def test_a_full_disk_makes_a_partial_result(many: bool) -> None:
    """A few frames fit the file's buffer, so that the failed write shows at the end."""
    rate = "max" if many else "1k"
    with engine(
        "sender", "--port", f"pcap:write={FULL}", "--rate", rate, "--idle", "yield"
    ) as running:
        running.tell("start duration=0.2")
        result, code = running.finish("wait")
    assert code == 1
    assert result["partial"] is True
    assert result["reason"] == "failure"
    assert result["totals"]["tx_offered"] > 0
    assert "the file is not complete: No space left on device" in result["fault"]
    (error,) = running.all("error")
    assert f"pcap:write={FULL}" in error["message"]


def test_unwritable_verification_frames_are_reported() -> None:
    with engine("sender", "--port", f"pcap:write={FULL}") as running:
        running.tell("verify 1")
        running.wait("verification")
        running.tell("stop")
        assert running.process.wait(timeout=30) == 1
        running.reader.join(timeout=30)
        assert "No space left on device" in running.all("error")[0]["message"]


@pytest.mark.parametrize(
    "args",
    [
        ("sender", *ROLES["sender"], *NOW),
        ("receiver", *ROLES["receiver"]),
        ("list", "--json"),
        ("list",),
        ("--help",),
        ("--man",),
    ],
    ids=" ".join,
)
def test_full_output_ends_it_with_a_line(args: tuple[str, ...]) -> None:
    read, write = os.pipe()  # an input that does not end
    try:
        with Path(FULL).open("w") as full:
            done: Any = subprocess.run(
                [path(), *args], stdin=read, stdout=full, stderr=subprocess.PIPE, text=True,
                timeout=30, check=False,
            )  # fmt: skip
    finally:
        os.close(read)
        os.close(write)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


def in_order(running: Engine) -> list[str]:
    """Return the names of its events after `ready`, except for the end marker."""
    assert running.process.wait(timeout=30) is not None
    running.reader.join(timeout=30)
    return [one["event"] for one in running.events[1:-1]]


def test_bad_command_in_trial_is_reported_after_its_result() -> None:
    with engine("receiver", "--port", "null:", "--idle", "sleep", "--session") as running:
        running.tell("start")
        running.wait("started")
        running.tell("nonsense")
        assert in_order(running) == ["started", "interval", "result", "error"]
        assert running.process.returncode == 1
        assert running.all("result")[0]["reason"] == "failure"
        assert "unknown command 'nonsense'" in running.all("error")[0]["message"]


def test_late_stop_does_not_end_the_session() -> None:
    with engine("sender", "--port", "null:", "--rate", "1k", "--session") as running:
        for count in (1, 2):
            running.tell("start duration=0.02")
            running.wait("result", count)
            running.tell("stop")
        running.tell("counters")
        running.wait("counters")
        running.tell("start duration=0")
        running.wait("started", 3)
        running.tell("exit")
        assert in_order(running)[-1] == "result"
        assert running.process.returncode == 0
        assert [one["reason"] for one in running.all("result")] == ["duration", "duration", "stop"]


def test_start_before_the_result_does_not_change_its_loss() -> None:
    """`stop` contains the number of sent frames; the `start` that comes with it must not take it
    from the trial before."""
    with engine("receiver", "--port", "null:", "--session", "--patience", "0.02") as running:
        for count in range(1, 11):
            if count == 1:
                running.tell("start")
            running.wait("started", count)
            running.tell(f"stop sent={count}")
            # A start is refused while a trial drains, so it is repeated until it is accepted.
            running.wait("interval", count)
            running.tell("start")
        running.wait("started", 11)
        running.tell("exit")
        in_order(running)
        assert [one["loss"]["sent"] for one in running.all("result")] == [*range(1, 11), None]
