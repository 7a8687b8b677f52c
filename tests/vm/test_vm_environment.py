"""The environment `qemu` for a user: machines of the bench's image behind real switches, over
vhost-user and taps, in pairs and in chains, without leftovers after `kill -9`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.environment.vm import packages
from switchmark.errors import UnavailableError
from switchmark.host.kernel import procfs
from switchmark.record import Record
from tests.combinations import IN_MACHINES, OTHERS_IN_MACHINES
from tests.integration.machine import needs_root
from tests.integration.main_job import (
    SHORT,
    Bench,
    campaign_file,
    describe,
    need,
    new_bench,
    settings,
)

pytestmark = [needs_root]

# A switch that polls would take the cores from the machines.
SWITCHES = {
    "linux-bridge": ("tap", "raw-mmsg", ""),
    "ovs-dpdk": ("vhost-user", "dpdk", "switch_options: pmd_maxsleep_us:500\n"),
}
IN_PAIRS_AND_CHAINS = [
    pytest.param(one.switch, one.scenario, id=f"{one.switch}-{one.scenario}")
    for one in IN_MACHINES
    if one.switch in SWITCHES
]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench with an empty cache, except for the kernel that was downloaded before."""
    need([], ["qemu"])
    try:
        monkeypatch.setenv(packages.KERNEL_SETTING, str(packages.kernel().root))
    except UnavailableError as error:
        pytest.skip(str(error))
    yield from new_bench(tmp_path)


def check(record: Record) -> None:
    """Check a trial with machines, emulated or not, however busy the host is."""
    text = describe(record)
    assert record.status == "finished", text
    assert record.verification is not None and record.verification.passed, text
    assert record.machines, text
    emulated = {"emulation" in machine["accelerator"] for machine in record.machines.values()}
    assert len(emulated) == 1
    assert record.verdict is not None
    assert ("software-emulated" in record.verdict.marks) == emulated.pop(), text
    assert record.verdict.valid or "software-emulated" in record.verdict.marks
    for name, machine in record.machines.items():
        assert record.placement is not None
        assert machine["pinned_to"] == str(record.placement.application_cores[name][0]), text
        assert (
            machine["guest_kernel"].startswith("Linux ") and float(machine["clock_error_us"]) >= 0
        )
    assert record.reconciliation is not None and record.reconciliation.sent > 0, text
    kind, io, _ = SWITCHES[record.trial.switch]
    assert (record.port_kind, record.io) == (kind, io)


@pytest.mark.parametrize(("switch", "scenario"), IN_PAIRS_AND_CHAINS)
def test_pairs_and_chains_one_way_and_both(
    bench: Bench, tmp_path: Path, switch: str, scenario: str
) -> None:
    need([switch])
    file = campaign_file(
        tmp_path,
        f"switch: {switch}\nenvironment: qemu\nscenario: {scenario}\n"
        "bidirectional: [false, true]\npacket_size: 64\nduration: 2s\nrate: 1k\nburst: 4\n"
        f"dimension: throughput\n{SWITCHES[switch][2]}",
    )
    code, _, err = bench.run(
        "run", file, "--no-baseline", "--quiet", *settings(*SHORT), timeout_s=600.0
    )
    assert code == 0, err
    records = bench.records()
    assert sorted(record.trial.bidirectional for record in records) == [False, True]
    for record in records:
        check(record)
        check_scenario(record, scenario)


def check_scenario(record: Record, scenario: str) -> None:
    """Check which ends are machines, and that frames went through all nodes."""
    chain = int(scenario.partition("-")[2] or 0)
    wires = record.wire_ends
    assert wires == {"p2v": ["tx0"], "v2v": []}.get(scenario, ["tx0", "rx0"])
    assert len(record.vnfs) == chain
    assert len(record.machines) == (chain or 2 - len(wires))
    assert record.reconciliation is not None
    arrived = sum(path.arrived for path in record.reconciliation.paths)
    assert arrived > 0, describe(record)
    for vnf in record.vnfs:
        assert (vnf.forwarded_frames or 0) >= arrived, f"{vnf.node} was passed by"
    ways = record.throughput.directions if record.throughput else []
    both = ["forward", "reverse"] if record.trial.bidirectional else []
    assert [way.direction for way in ways] == both


@pytest.mark.parametrize(
    "switch",
    [one.switch for one in OTHERS_IN_MACHINES],
)
def test_one_pair_through_other_switches(bench: Bench, tmp_path: Path, switch: str) -> None:
    need([switch])
    file = campaign_file(
        tmp_path,
        f"switch: {switch}\nenvironment: qemu\nscenario: v2v\npacket_size: 64\nduration: 1500ms\n"
        "rate: 1k\nburst: 4\ndimension: throughput\n",
    )
    code, _, err = bench.run("run", file, "--no-baseline", "--quiet", *settings(*SHORT))
    assert code == 0, err
    (record,) = bench.records()
    assert set(record.machines) == {"tx0", "rx0"}
    assert record.verification is not None and record.verification.passed, describe(record)
    assert record.reconciliation is not None
    assert sum(path.arrived for path in record.reconciliation.paths) > 0, describe(record)


@pytest.mark.parametrize("switch", ["af-packet", "ovs-dpdk"])
def test_kinds_of_vnf(bench: Bench, tmp_path: Path, switch: str) -> None:
    """With the guest's own driver on every kind of port."""
    need([switch])
    file = campaign_file(
        tmp_path,
        f"switch: {switch}\nenvironment: qemu\nscenario: loopback-1\nvnf: [bridge, pcap]\n"
        "connect_mode: cross-connect\nbidirectional: true\nrate: 500\nburst: 4\nduration: 3s\n"
        f"dimension: throughput\n{SWITCHES.get(switch, ('', '', ''))[2]}",
    )
    code, _, err = bench.run("run", file, "--no-baseline", "--quiet", *settings(*SHORT))
    assert code == 0, err
    records = bench.records()
    assert {record.vnfs[0].kind for record in records} == {"bridge", "pcap"}
    for record in records:
        assert record.verification is not None and record.verification.passed, describe(record)
        assert record.reconciliation is not None
        assert all(path.arrived > 0 for path in record.reconciliation.paths), describe(record)


def test_program_of_the_user_with_two_virtual_cpus(bench: Bench, tmp_path: Path) -> None:
    """Its two devices, and the engine in the guest; then a program that ends at once."""
    good, bad = tmp_path / "good" / "my-vnf", tmp_path / "bad" / "my-vnf"
    for program, text in (
        (good, 'grep -c "" "${0%/*}/table"; exec /usr/bin/switchmark-traffic forwarder --port '
               '"raw:dev=$1" --port "raw:dev=$2" --idle sleep --start now >/dev/null'),
        (bad, "echo no such port >&2; exit 4"),
    ):  # fmt: skip
        program.parent.mkdir()
        (program.parent / "table").write_text("1\n")
        program.write_text(f'#!/bin/sh\ntest -n "$SWITCHMARK_NEXT_B" || exit 3\n{text}\n')
        program.chmod(0o755)
    file = campaign_file(
        tmp_path,
        f"switch: linux-bridge\nenvironment: qemu\nscenario: loopback-1\nvnf: [{good}, {bad}]\n"
        "connect_mode: cross-connect\nvcpus: 2\nrate: 200\nburst: 1\nduration: 3s\n"
        "dimension: throughput\nverify: {timeout: 20s}\n",
    )
    code, _, err = bench.run("run", file, "--no-baseline", "--quiet", *settings(*SHORT))
    assert code == 1, err
    records = {Path(record.trial.vnf).parent.name: record for record in bench.records()}
    record = records["good"]
    assert record.verification is not None and record.verification.passed, describe(record)
    assert record.reconciliation is not None
    assert all(path.arrived > 0 for path in record.reconciliation.paths), describe(record)
    assert record.vnfs[0].kind == "program" and record.vnfs[0].command[0] == str(good)
    assert record.machines["v0-1"]["vcpus"] == "2"
    assert "no such port" in records["bad"].message, describe(records["bad"])


def test_round_trips_between_machines(bench: Bench, tmp_path: Path) -> None:
    file = campaign_file(
        tmp_path,
        "switch: linux-bridge\nenvironment: qemu\nscenario: v2v\nio: [auto, dpdk, udp]\n"
        "dimension: latency\nduration: 2s\nrate: 100\nburst: 1\n",
    )
    code, _, err = bench.run("run", file, "--no-baseline", "--quiet", *settings(*SHORT))
    assert code == 0, err
    records = bench.records()
    assert {record.io for record in records} == {"raw-mmsg", "dpdk", "udp"}
    for record in records:
        assert record.latency is not None and record.latency.count > 0, describe(record)
        assert record.verdict is not None and record.verification is not None
        assert record.verification.passed, describe(record)


def test_nothing_is_left_after_kill_9(bench: Bench, tmp_path: Path) -> None:
    file = campaign_file(
        tmp_path,
        "switch: linux-bridge\nenvironment: qemu\nscenario: p2v\nduration: 60s\nrate: 1k\n"
        "dimension: throughput\n",
    )
    job = bench.start("run", file, "--no-baseline", "--quiet")
    try:
        session = job.wait_session()
        job.wait_measuring()
        machines = job.pids_of("qemu-system-x86_64", f"sm{session}-rx0")
    finally:
        job.process.send_signal(signal.SIGKILL)
        job.process.communicate(timeout=30)
    assert len(machines) == 1, "only the receiver's machine"
    code, _, err = bench.run("clean")
    assert code == 0, err
    assert bench.left(session) == []
    assert not any(one.pid in machines for one in procfs.session_processes(session))
