"""Stopping the bench at any moment: finished trials are stored and not repeated, nothing is left on
the machine, and the user's things stay."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.machine import needs_root
from tests.integration.main_job import (
    POLLING,
    SHORT,
    Bench,
    Job,
    campaign_file,
    need,
    settings,
    went_well,
)
from tests.integration.test_clean import decoys

__all__ = ["decoys"]
pytestmark = [pytest.mark.integration, needs_root]

# The first trial finishes, the others are met while they run, also on a busy machine. With the
# default seed they run in this order.
JOB = """
name: job
switch: {switch}
environment: lxc
rate: 10k
sweeps:
  - {{packet_size: 64, duration: 1.2s}}
  - {{packet_size: [256, 1500], duration: 1.5s}}
"""


@pytest.fixture(params=["linux-bridge", "ovs-dpdk"])
def switch(request: pytest.FixtureRequest) -> str:
    need((request.param,), ("lxc",))
    return str(request.param)


@pytest.fixture
def command(tmp_path: Path, switch: str) -> list[str]:
    path = campaign_file(tmp_path, JOB.format(switch=switch))
    return ["run", path, "--no-baseline", *settings(*SHORT, POLLING)]


@pytest.fixture
def job(bench: Bench, command: list[str]) -> Iterator[Job]:
    """A campaign of three trials that has finished the first."""
    started = bench.start(*command)
    try:
        started.wait_session()
        started.wait_stored(1)
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.communicate()


def in_deployment(job: Job) -> None:
    """Wait until the second trial has made its first objects but not started its applications."""
    lines = job.ledger_lines()
    job.until(lambda: job.ledger_lines() >= lines + 2, "the second trial")


def in_measurement(job: Job) -> None:
    job.wait_measuring()


@pytest.mark.parametrize("phase", [in_deployment, in_measurement])
def test_kill_9_and_resume(
    bench: Bench, job: Job, command: list[str], decoys: dict[str, str], phase: object
) -> None:
    phase(job)  # type: ignore[operator]
    job.process.kill()
    code, _, err = job.end()
    assert code == -signal.SIGKILL, err
    stored = bench.stored()
    assert 1 <= len(stored) < 3
    assert (bench.state / f"{job.session}.ledger").exists(), "there is something to clean"

    again = bench.start(*command, "--resume")
    session = again.wait_session()
    code, _, err = again.end()
    assert went_well(code, err), err
    assert f"cleaned up after a bench that was killed: session {job.session}" in err
    assert "could not remove" not in err and "left behind" not in err
    assert f"{3 - len(stored)} trials ({len(stored)} finished before)" in err
    after = bench.stored()
    assert len(after) == 3
    assert {name: after[name] for name in stored} == stored, "no finished trial was measured again"
    assert len({record.trial.packet_size_bytes for record in bench.records()}) == 3
    assert bench.left(job.session) == []
    assert bench.left(session) == []


@pytest.mark.parametrize("switch", ["ovs-dpdk"], indirect=True)
def test_clean_after_kill_9(bench: Bench, job: Job, decoys: dict[str, str]) -> None:
    in_measurement(job)
    assert len(bench._left(job.session)) > 5, "there is something to clean"
    job.process.kill()
    job.end()
    code, out, err = bench.run("clean")
    assert code == 0 and job.session in out + err
    assert bench.left(job.session) == []


@pytest.mark.parametrize(
    ("switch", "number", "code"),
    [
        ("linux-bridge", signal.SIGINT, 130),
        ("ovs-dpdk", signal.SIGINT, 130),
        ("ovs-dpdk", signal.SIGTERM, 143),
        ("linux-bridge", signal.SIGHUP, 129),
    ],
    indirect=["switch"],
)
def test_signal_stops_the_campaign(
    bench: Bench, job: Job, decoys: dict[str, str], number: signal.Signals, code: int
) -> None:
    in_measurement(job)
    stored = bench.stored()
    job.process.send_signal(number)
    ended, _, err = job.end()
    assert ended == code, err
    assert "Traceback" not in err and "left behind" not in err
    assert bench.stored() == stored, "finished trials are kept, the running trial gives no result"
    assert len(bench.records()) == len(stored), "the records can be read"
    assert bench.left(job.session) == []


@pytest.mark.parametrize("switch", ["ovs-dpdk"], indirect=True)
def test_signal_stops_the_campaign_during_deployment(bench: Bench, job: Job) -> None:
    in_deployment(job)
    job.process.send_signal(signal.SIGINT)
    ended, _, err = job.end()
    assert ended == 130 and "Traceback" not in err, err
    assert bench.left(job.session) == []
