"""Trials between two hosts as a bench runs them, for the tests of them: records, and what a busy
machine does to them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from switchmark.record import Record
from tests.integration.two_hosts import TwoHosts, run

AHEAD_S = 5000  # the right host's clock
CABLE_MBIT = 20
ATTEMPTS = 4  # on a machine that others use, a paced frame may come late
SPARED = 50  # frames: what still waited in the limited cable at the end


def measured(hosts: TwoHosts, engine: Path, *args: str) -> tuple[int, list[Record], str]:
    """A bench on the left host to its end: exit code, records, what it said."""
    command = [*args, "--no-baseline", "--quiet", "--json"]
    results = ["--results", str(hosts.folder / "results")]
    code, out, err = run(hosts.bench(*command, *results, engine=engine))
    documents = json.loads(out) if out.strip() else []
    return code, [Record.model_validate(one) for one in documents], err


def trial_args(**more: Any) -> list[str]:
    keys = {"location": "remote", "duration": "60s", "rate": "1000", "packet_size": "64"} | more
    return ["trial", "linux-bridge", *(w for k, v in keys.items() for w in ("--set", f"{k}={v}"))]


def begin_traffic(hosts: TwoHosts, engine: Path, **more: Any) -> subprocess.Popen[str]:
    """A bench in the middle of a trial: more frames have come over the cable than are sent to
    teach and to verify."""
    before = hosts.cable_frames()
    results = ["--results", str(hosts.folder / "results")]
    args = [*trial_args(**more), "--no-baseline", "--quiet", "--json", *results]
    bench = hosts.bench(*args, engine=engine)
    deadline = time.monotonic() + 120  # only a bench that hangs needs so long
    while hosts.cable_frames() < before + 300:
        assert bench.poll() is None and time.monotonic() < deadline, "no traffic"
        time.sleep(0.05)
    assert any("receiver" in one for one in hosts.right.processes())
    return bench


def fail_without_agent(hosts: TwoHosts, bench: subprocess.Popen[str]) -> None:
    """Kill the agent of a bench in the middle of a trial: the trial fails, and what was made for it
    is left on the other host."""
    os.kill(hosts.right.agent(), signal.SIGKILL)
    code, out, err = run(bench)
    (record,) = json.loads(out)
    assert code == 1 and "connection lost" in record["message"], (record["message"], err)
    assert hosts.right.remains(), "it was in the middle of a trial"


def without_a_core(records: list[Record]) -> list[str]:
    """What a busy machine does to trials, and nothing else does: deadlines missed, frames that an
    application did not fetch in time or that were on their way when counters were read."""
    found = [one.message for one in records if one.status == "failed"]
    for one in (record for record in records if record.status == "finished"):
        assert one.verification is not None and one.reconciliation is not None
        dropped = sum(run.result["totals"]["rx_socket_drops"] for run in one.engines)
        dropped += sum(vnf.dropped_frames or 0 for vnf in one.vnfs)
        lost = sum(pair.lost_frames or 0 for pair in one.throughput.pairs) if one.throughput else 0
        spared = one.reconciliation.cable_lost + SPARED
        late = any(run.result.get("drained") is False for run in one.engines)
        found += [
            f"{one.notation}: {what}"
            for what, holds in (
                (f"not verified ({one.verification.message})", not one.verification.passed),
                (f"{dropped} frames dropped at the applications' own sockets", dropped),
                ("frames still arrived at the end", late),
                ("counters read too early", one.reconciliation.unexplained_ratio >= 0.01),
                (f"{lost} frames late, or lost off the cable", lost > spared),
            )
            if holds
        ]
    return found


def repeated(run_once: Callable[[], tuple[int, list[Record], str]]) -> list[Record]:
    """The records of a run in which every application had its core, of at most so many attempts;
    on a machine that is busy in all of them the test is skipped, with what was seen. Where no
    attempt was clean and trials failed, that is no matter of a busy machine: so does the test."""
    story: list[str] = []
    failed = False
    for _ in range(ATTEMPTS):
        code, records, said = run_once()
        assert records, said
        noise = without_a_core(records)
        if not noise:
            assert code == 0, said
            return records
        story += noise
        failed |= any(one.status == "failed" for one in records)
    if failed:
        pytest.fail(f"in every attempt: {'; '.join(story)}")
    if any("disturbed" in one.verdict.marks for one in records if one.verdict is not None):
        pytest.skip(f"this machine is too busy: {'; '.join(story)}")
    pytest.fail(f"in every attempt: {'; '.join(story)}")
