"""Virtual machines between two hosts (`location: remote`): an end, or a VNF, in a guest on each
host behind a switch of that host, without leftovers whichever process dies.

The hosts are namespaces of this machine with an sshd each; every host runs QEMU itself."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.environment.vm import packages
from switchmark.errors import UnavailableError
from switchmark.record import EngineRun, Record
from switchmark.switch.registry import make_switch
from tests.integration.conftest import engine
from tests.integration.hosts_bench import AHEAD_S, fail_without_agent, trial_args
from tests.integration.machine import needs_root
from tests.integration.main_job import SHORT, describe, need, settings
from tests.integration.two_hosts import TwoHosts, missing, run

__all__ = ["engine"]
pytestmark = [needs_root, pytest.mark.skipif(missing() is not None, reason=str(missing()))]

BOOTED_S = 300.0  # only a hanging bench needs so long
RUN_S = 900.0
QEMU = "qemu-system-x86_64"
CAMPAIGN = """
name: far-machines
environment: qemu
location: remote
packet_size: 64
rate: 200
burst: 1
duration: 2s
verify: {timeout: 20s}
mixed_connect_modes: true
sweeps:
  - {switch: linux-bridge, scenario: v2v}
  - {switch: linux-bridge, scenario: v2v, dimension: latency}
  - {switch: linux-bridge, scenario: loopback-2, vnf: bridge, connect_mode: cross-connect}
"""
# A polling switch leaves no core to an emulated machine.
OVS_DPDK = "  - {switch: ovs-dpdk, scenario: v2v, switch_options: {pmd_maxsleep_us: 500}}\n"


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    """Two hosts with the kernel that was downloaded before."""
    need([], ["qemu"])
    with pytest.MonkeyPatch.context() as patched:
        try:
            patched.setenv(packages.KERNEL_SETTING, str(packages.kernel().root))
        except UnavailableError as error:
            pytest.skip(str(error))
        pair = TwoHosts.make(Path(f"/var/tmp/smfar{os.getpid()}"), ahead_s=AHEAD_S)
        try:
            yield pair
        finally:
            pair.end()


def command(hosts: TwoHosts, *args: str) -> list[str]:
    results = ["--results", str(hosts.folder / "results")]
    return [*args, "--no-baseline", "--quiet", "--json", *results]


def test_end_or_vnf_in_a_guest_on_each_host(hosts: TwoHosts, engine: Path) -> None:
    file = hosts.folder / "campaign.yaml"
    also = make_switch("ovs-dpdk").availability().available
    file.write_text(CAMPAIGN + OVS_DPDK * also)
    started = hosts.bench(*command(hosts, "run", str(file), *settings(*SHORT)), engine=engine)
    code, out, err = run(started, RUN_S)
    assert code == 0, err
    records = [Record.model_validate(one) for one in json.loads(out)]
    (times,) = (one for one in records if one.trial.dimension == "latency")
    (chain,) = (one for one in records if one.trial.scenario == "loopback-2")
    loads = [one for one in records if one not in (times, chain)]
    assert {(one.trial.switch, one.port_kind) for one in loads} == {
        ("linux-bridge", "tap"), *([("ovs-dpdk", "vhost-user")] if also else []),
    }  # fmt: skip
    check(times, ["cl0", "sv0"])
    check(chain, ["v0-1", "v0-2"])
    for record in loads:
        check(record, ["tx0", "rx0"])
        check_times(*record.engines)
    for record in (*loads, chain):
        assert record.reconciliation is not None
        assert sum(one.arrived for one in record.reconciliation.paths) > 0, describe(record)
    assert times.latency is not None and times.latency.count > 0, describe(times)
    assert times.one_way is None, "a guest's clock is neither host's"
    assert [one.kind for one in chain.vnfs] == ["bridge", "bridge"]
    assert hosts.remains() == []


def check(record: Record, machines: list[str]) -> None:
    """Check that both are machines, one on each host, and used CPU time there."""
    assert record.status == "finished", describe(record)
    assert record.verification is not None and record.verification.passed, describe(record)
    assert sorted(record.machines) == sorted(machines)
    here, remote = (record.machines[name] for name in machines)
    far = record.far_host
    assert far is not None and far.placement is not None and record.placement is not None
    assert remote["pinned_to"] == str(far.placement.application_cores[machines[1]][0])
    assert here["pinned_to"] == str(record.placement.application_cores[machines[0]][0])
    assert remote["accelerator"] == here["accelerator"], "both hosts are on one machine"
    assert record.verdict is not None
    emulated = "emulation" in remote["accelerator"]
    assert ("software-emulated" in record.verdict.marks) == emulated, describe(record)
    if not record.vnfs:
        assert float(remote["clock_error_us"]) > 0
    assert far.cpu is not None and far.cpu.applications_cores_used > 0.01, "its QEMU runs"


def check_times(sender: EngineRun, receiver: EngineRun) -> None:
    """Clocks that began with their guests, on hosts hours apart, were converted to one clock."""
    spans = [(one.intervals[0].t_ns, one.intervals[-1].t_ns) for one in (sender, receiver)]
    assert spans[0][0] < spans[1][1] and spans[1][0] < spans[0][1]


def begin_traffic(hosts: TwoHosts, engine: Path) -> subprocess.Popen[str]:
    """Start a bench and wait until a trial sends traffic from a wire here to a guest there."""
    before = hosts.cable_frames()
    args = trial_args(environment="qemu", scenario="p2v", rate="200", burst="1")
    bench = hosts.bench(*command(hosts, *args, *settings("verify.timeout=20s")), engine=engine)
    deadline = time.monotonic() + BOOTED_S
    while hosts.cable_frames() < before + 300:
        assert bench.poll() is None and time.monotonic() < deadline, "no traffic"
        time.sleep(0.1)
    assert len(machines_of(hosts)) == 1
    return bench


def machines_of(hosts: TwoHosts) -> list[str]:
    return [words for words in hosts.right.processes() if QEMU in words]


def test_killed_bench_leaves_no_machine_on_other_host(hosts: TwoHosts, engine: Path) -> None:
    bench = begin_traffic(hosts, engine)
    bench.kill()
    bench.communicate()
    code, _, err = run(hosts.bench("clean", engine=engine))
    assert code == 0, err
    assert hosts.remains() == []


def test_lost_connection_ends_the_machine(hosts: TwoHosts, engine: Path) -> None:
    bench = begin_traffic(hosts, engine)
    for pid in hosts.right.sshd_sessions():
        os.kill(pid, 9)
    code, out, err = run(bench)
    (record,) = json.loads(out)
    assert code == 1 and record["status"] == "failed", err
    assert record["message"].startswith("host right (192.0.2.2): connection lost: "), record
    assert record["machines"]["rx0"]["guest_kernel"].startswith("Linux ")
    assert hosts.remains() == []


def test_machines_of_a_killed_agent_are_ended_by_the_next(hosts: TwoHosts, engine: Path) -> None:
    fail_without_agent(hosts, begin_traffic(hosts, engine))
    code, _, err = run(hosts.bench("list", "hosts", engine=engine))
    assert code == 0, err
    assert hosts.remains() == []
