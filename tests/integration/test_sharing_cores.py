"""Applications on a shared core take turns on it in every environment: between namespaces and
containers, as sender and receiver, as client and server, and with a VNF in between."""

from __future__ import annotations

import os

import pytest

from switchmark.record import Record
from tests.integration.machine import needs_root
from tests.integration.main_job import ATTEMPTS, POLLING, SHORT, Bench, need, settings, went_well

pytestmark = [pytest.mark.alone, pytest.mark.integration, needs_root]

MANY = 1000  # turns
ONE_CORE = f"application_cpus={min(os.sched_getaffinity(0))}"


def measured(bench: Bench, environment: str, *more: str) -> Record:
    """Return a finished trial whose applications are all on one core."""
    need(("basicfwd",), (environment,))
    options = settings(
        *SHORT, POLLING, "duration=1.2s", "rate=2k", ONE_CORE, f"environment={environment}", *more
    )
    code, _, err = bench.run_to_the_end("trial", "basicfwd", "--no-baseline", *options)
    assert went_well(code, err), err
    (record,) = bench.records()
    if record.status != "finished":
        pytest.skip(f"the machine is too busy: {record.message}")
    return record


def in_turns(bench: Bench, environment: str, *more: str) -> tuple[Record, dict[str, int]]:
    """Return a trial and its turns, of which each application has many.

    The trial is repeated if other programs used the core, by the record's own counts."""
    for _ in range(ATTEMPTS):
        record = measured(bench, environment, *more)
        done = turns(record)
        assert record.verdict is not None
        if min(done.values()) > MANY:
            return record, done
        assert "disturbed" in record.verdict.marks, done
    pytest.skip(f"the machine is too busy: {done} turns")


def turns(record: Record) -> dict[str, int]:
    """Return how often each application passed the core on and got it back, by role."""
    assert record.placement is not None and record.placement.idle == "baton"
    found = {}
    for engine in record.engines:
        assert engine.args[engine.args.index("--idle") + 1] == "baton"
        found[engine.role] = engine.result["baton"]["passes"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("environment", ["bare", "netns", "lxc", "docker"])
def test_sender_and_receiver_take_turns(bench: Bench, environment: str) -> None:
    _, done = in_turns(bench, environment)
    assert done.keys() == {"sender", "receiver"}
    assert abs(done["sender"] - done["receiver"]) <= 0.05 * done["sender"]


def test_client_and_server_take_turns(bench: Bench) -> None:
    record, done = in_turns(bench, "netns", "dimension=latency", "rate=1k")
    assert record.latency is not None and record.latency.count > 0
    assert done.keys() == {"client", "server"}


def test_vnf_takes_turns(bench: Bench) -> None:
    record, _ = in_turns(bench, "lxc", "scenario=loopback-1")
    (vnf,) = record.vnfs
    assert "baton" in vnf.command
    assert record.throughput is not None and record.throughput.forwarded_pps > 0


@pytest.mark.slow
def test_a_chain_of_containers_leaves_the_core_to_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four forwarders in separate control groups wait for frames while the rest of the chain is
    made. They passed the core only to each other, and the trial failed each time."""
    monkeypatch.setenv("SWITCHMARK_DOCKER", "private")
    need(("linux-bridge",), ("docker",))
    options = settings(
        *SHORT, "scenario=loopback-4", "environment=docker", "vnf=pcap", "rate=10k", "idle=baton",
        "connect_mode=cross-connect",
    )  # fmt: skip
    code, _, err = bench.run_to_the_end("trial", "linux-bridge", "--no-baseline", *options)
    assert code == 0, err
    (record,) = bench.records()
    assert len(record.vnfs) == 4
