"""Runs a bench between two hosts and recognises the effects of a busy machine in its records."""

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
ATTEMPTS = 4  # other programs may delay a paced frame
SPARED = 50  # frames that still wait in the limited cable at the end


def measured(hosts: TwoHosts, engine: Path, *args: str) -> tuple[int, list[Record], str]:
    """Run a bench on the left host to its end; return exit code, records and stderr."""
    command = [*args, "--no-baseline", "--quiet", "--json"]
    results = ["--results", str(hosts.folder / "results")]
    code, out, err = run(hosts.bench(*command, *results, engine=engine))
    documents = json.loads(out) if out.strip() else []
    return code, [Record.model_validate(one) for one in documents], err


def trial_args(**more: Any) -> list[str]:
    keys = {"location": "remote", "duration": "60s", "rate": "1000", "packet_size": "64"} | more
    return ["trial", "linux-bridge", *(w for k, v in keys.items() for w in ("--set", f"{k}={v}"))]


def begin_traffic(hosts: TwoHosts, engine: Path, **more: Any) -> subprocess.Popen[str]:
    """Start a bench and wait until a trial sends traffic, after learning and verification."""
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
    """Kill the agent during a trial: the trial fails, and leftovers stay on the other host."""
    os.kill(hosts.right.agent(), signal.SIGKILL)
    code, out, err = run(bench)
    (record,) = json.loads(out)
    assert code == 1 and "connection lost" in record["message"], (record["message"], err)
    assert hosts.right.remains(), "it was in the middle of a trial"


def without_a_core(records: list[Record]) -> list[str]:
    """Return the effects of a busy machine on the trials: missed deadlines, and frames that an
    application read too late or that were on their way when the counters were read."""
    found = [record.message for record in records if record.status == "failed"]
    for record in (record for record in records if record.status == "finished"):
        assert record.verification is not None and record.reconciliation is not None
        dropped = sum(run.result["totals"]["rx_socket_drops"] for run in record.engines)
        dropped += sum(vnf.dropped_frames or 0 for vnf in record.vnfs)
        lost = (
            sum(pair.lost_frames or 0 for pair in record.throughput.pairs)
            if record.throughput
            else 0
        )
        spared = record.reconciliation.cable_lost + SPARED
        late = any(run.result.get("drained") is False for run in record.engines)
        found += [
            f"{record.notation}: {effect}"
            for effect, holds in (
                (f"not verified ({record.verification.message})", not record.verification.passed),
                (f"{dropped} frames dropped at the applications' own sockets", dropped),
                ("frames still arrived at the end", late),
                ("counters read too early", record.reconciliation.unexplained_ratio >= 0.01),
                (f"{lost} frames late, or lost off the cable", lost > spared),
            )
            if holds
        ]
    return found


def repeated(run_once: Callable[[], tuple[int, list[Record], str]]) -> list[Record]:
    """Return the records of the first run in which every application had its core.

    If there is none, fail if a trial failed, otherwise skip the test as the machine is busy."""
    story: list[str] = []
    failed = False
    for _ in range(ATTEMPTS):
        code, records, stderr = run_once()
        assert records, stderr
        noise = without_a_core(records)
        if not noise:
            assert code == 0, stderr
            return records
        story += noise
        failed |= any(one.status == "failed" for one in records)
    if failed:
        pytest.fail(f"in every attempt: {'; '.join(story)}")
    if any("disturbed" in one.verdict.marks for one in records if one.verdict is not None):
        pytest.skip(f"this machine is too busy: {'; '.join(story)}")
    pytest.fail(f"in every attempt: {'; '.join(story)}")
