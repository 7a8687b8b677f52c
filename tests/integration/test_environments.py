"""The bare host and Docker beside a user's programs; CPU quotas; noisy neighbours."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from switchmark.host.cores.cpu_limit import find_hierarchy
from switchmark.host.kernel import cgroups
from switchmark.host.undo.entries import chosen_of
from switchmark.record import Record
from tests.integration.machine import needs_root
from tests.integration.main_job import (
    SHORT,
    Bench,
    campaign_file,
    describe,
    measured,
    need,
    settings,
)

pytestmark = [pytest.mark.integration, needs_root]


@pytest.fixture(autouse=True)
def own_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide Docker daemons of the machine: these tests start their own."""
    monkeypatch.setenv("SWITCHMARK_DOCKER", "private")


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize(
    ("switch", "environment"),
    [("linux-bridge", "bare"), ("linux-bridge", "docker"), ("ovs-dpdk", "docker")],
)
def test_one_pair_through_switches(
    bench: Bench, tmp_path: Path, switch: str, environment: str
) -> None:
    need([switch], [environment])
    records = measured(
        bench, tmp_path,
        f"switch: {switch}\nenvironment: {environment}\n"
        "throughput: {duration: 1s, rate: 5k}\nlatency: {duration: 1s, rate: 500}\n",
    )  # fmt: skip
    for record in records:
        assert record.verification is not None and record.verification.passed, describe(record)
        assert record.reconciliation is not None and record.reconciliation.sent > 0
        if record.throughput is not None:
            assert record.throughput.forwarded_pps > 0


@pytest.mark.alone
def test_cpu_limit_bounds_time_and_throughput(bench: Bench, tmp_path: Path) -> None:
    """Each trial keeps its limit. Noise only lowers throughput, so the switch with a whole core has
    three attempts to forward twice as much as the switch with an eighth of a core."""
    need(["basicfwd"], ["netns"])
    if find_hierarchy() is None:
        pytest.skip("no control group hierarchy with the cpu controller is mounted")
    share = 1.0
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        records = measured(
            bench, folder,
            "switch: basicfwd\ncpu_limit: [100%, 50%, 12.5%]\npacket_size: 64\nduration: 2s\n",
        )  # fmt: skip
        share = forwarded_share_of_limited_switch(records)
        if share < 0.5:
            break
    assert share < 0.5, f"an eighth of the CPU time carried {share:.0%}"


def forwarded_share_of_limited_switch(records: list[Record]) -> float:
    """Check that each record kept its limit. Return the throughput at 12.5 % as a share of that at
    100 %, or 0 if the machine did not give the switch the time that 100 % allows."""
    by_limit = {record.trial.cpu_limit: record for record in records}
    for limit, record in by_limit.items():
        quota = record.cpu_quota
        assert limit is not None and quota is not None and quota.used_cores is not None
        assert quota.in_force and quota.used_cores <= limit * 1.1 + 0.05, describe(record)
        assert quota.quota_us == limit * quota.period_us
        assert record.verdict is not None and "limit-not-in-force" not in record.verdict.marks
    low, high = by_limit[0.125], by_limit[1.0]
    assert low.cpu_quota is not None and low.cpu_quota.throttled_periods > 0
    assert low.throughput is not None and high.throughput is not None
    if high.cpu_quota is None or (high.cpu_quota.used_cores or 0) <= 0.7:
        return 0.0
    return low.throughput.forwarded_pps / high.throughput.forwarded_pps


@pytest.mark.parametrize("place", ["lxc", pytest.param("docker", marks=pytest.mark.slow)])
def test_a_switch_in_a_container_has_its_limit_there(
    bench: Bench, tmp_path: Path, place: str
) -> None:
    """Programs with one process and with two, with separate devices (ovs-dpdk's monitor port) and
    with ports that are devices (ovs-netdev)."""
    need(["basicfwd", "ovs-dpdk", "ovs-netdev"], ["netns", place])
    if find_hierarchy() is None:
        pytest.skip("no control group hierarchy with the cpu controller is mounted")
    records = measured(
        bench, tmp_path,
        f"switch_environment: {place}\nduration: 1s\nrate: 5k\nsweeps:\n"
        "  - {switch: basicfwd, connect_mode: cross-connect, cpu_limit: 50%}\n"
        "  - {switch: ovs-dpdk, connect_mode: learning, cpu_limit: 50%}\n"
        "  - {switch: ovs-netdev, connect_mode: learning, cpu_limit: 50%}\n",
        "mixed_connect_modes=true",
    )  # fmt: skip
    for record in records:
        quota = record.cpu_quota
        assert record.verification is not None and record.verification.passed, describe(record)
        assert quota is not None and quota.in_force and quota.share == 0.5
        assert "lxc.payload.sm" in quota.group or (place == "docker" and "/" in quota.group)
        assert not list(Path("/sys/fs/cgroup").glob(f"*/{quota.group}")), "removed with it"
        assert f"in {place}]" in record.topology[0]


def test_neighbour_runs_during_the_trial_only(bench: Bench, tmp_path: Path) -> None:
    need(["linux-bridge"], ["netns"])
    if shutil.which("stress-ng") is None:
        pytest.skip("no stress-ng on this machine: apt install stress-ng")
    records = measured(
        bench, tmp_path,
        "switch: linux-bridge\nneighbour: [none, cpu]\nneighbour_cpus: applications\n"
        "dimension: latency\nduration: 1s\nrate: 500\n",
    )  # fmt: skip
    found = {record.trial.neighbour: record for record in records}
    assert found.keys() == {"none", "cpu"}
    assert found["none"].neighbour is None
    noise = found["cpu"].neighbour
    assert noise is not None and noise.command[:2] == ["stress-ng", "--quiet"]
    cores = sorted({c for own in found["cpu"].placement.application_cores.values() for c in own})  # type: ignore[union-attr]
    assert noise.cores == cores == found["cpu"].placement.neighbour_cores  # type: ignore[union-attr]
    assert noise.cpu_s > 0.1, "it had separate CPU time"
    assert 0.9 < noise.wall_s < 60


def test_a_web_server_is_a_neighbour(bench: Bench, tmp_path: Path) -> None:
    need(["linux-bridge"], ["netns"])
    if shutil.which("apache2") is None or shutil.which("ab") is None:
        pytest.skip("no apache2, ab on this machine: apt install apache2-bin apache2-utils")
    (record,) = measured(
        bench, tmp_path,
        "switch: linux-bridge\nneighbour: apache\nneighbour_cpus: applications\n"
        "dimension: latency\nduration: 1s\nrate: 500\n",
    )  # fmt: skip
    noise = record.neighbour
    assert noise is not None and noise.command[0] == "unshare"
    assert noise.cpu_s > 0.1, "server and clients are counted"
    left = subprocess.run(["pgrep", "-f", "httpd.conf"], check=False, stdout=subprocess.PIPE).stdout
    assert not left, "the server has ended with the trial"


def test_neighbour_that_cannot_run_is_refused_before(bench: Bench, tmp_path: Path) -> None:
    file = campaign_file(tmp_path, "switch: linux-bridge\nneighbour: /nowhere/my-load\n")
    code, _, err = bench.run("run", file, "--no-baseline", "--quiet")
    assert code == 2 and "job.yaml:2: neighbour: /nowhere/my-load does not exist; build" in err


def run(*args: str, env: dict[str, str] | None = None) -> str:
    return subprocess.run(
        args, capture_output=True, text=True, check=True, env={**os.environ, **(env or {})}
    ).stdout


@pytest.fixture
def decoys(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Programs of a user: a bridge with an address and a route, an Open vSwitch, an LXC container,
    a Docker daemon with a container. Yields the addresses of Docker and OVS."""
    folder = Path(f"/tmp/smdc{os.getpid()}")
    folder.mkdir()
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        run("ip", "link", "add", "decoybr0", "type", "bridge")
        stack.callback(run, "ip", "link", "del", "decoybr0")
        net = _free_network()
        run("ip", "addr", "add", f"{net}.1/24", "dev", "decoybr0")
        # Its IPv6 address would otherwise appear some time later.
        run("ip", "link", "set", "decoybr0", "addrgenmode", "none")
        run("ip", "link", "set", "decoybr0", "up")
        run("ip", "route", "add", f"{net}.128/25", "via", f"{net}.2", "dev", "decoybr0")
        where = {"OVS_RUNDIR": str(folder)}
        _user_ovs(stack, folder)
        _user_lxc(stack, folder)
        if shutil.which("dockerd"):
            where["DOCKER_HOST"] = _user_docker(stack, folder)
        yield where


def _free_network() -> str:
    """Return the first three numbers of a network that this machine does not use."""
    known = run("ip", "route") + run("ip", "addr")
    for net in ("203.0.113", "198.18.213", "172.31.213"):
        if f"{net}." not in known:
            return net
    pytest.skip("this machine uses every network that the decoys could")


def _background(stack: ExitStack, *args: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end() -> None:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(end)
    return process


def _said(args: Sequence[str]) -> str:
    return subprocess.run(args, capture_output=True, text=True, check=False).stdout


def _user_ovs(stack: ExitStack, folder: Path) -> None:
    schema = "/usr/share/openvswitch/vswitch.ovsschema"
    if not Path(schema).exists():
        return
    run("ovsdb-tool", "create", f"{folder}/conf.db", schema)
    socket = f"{folder}/db.sock"
    remote, control = f"--remote=punix:{socket}", f"--unixctl={folder}/ctl"
    _background(stack, "ovsdb-server", f"{folder}/conf.db", remote, control)
    _until(lambda: Path(socket).exists(), "OVS")
    run("ovs-vsctl", "--no-wait", f"--db=unix:{socket}", "add-br", "userbr0")


def _user_lxc(stack: ExitStack, folder: Path) -> None:
    if shutil.which("lxc-create") is None:
        return
    config = folder / "lxc.conf"
    config.write_text("lxc.net.0.type = empty\n")
    args = ["-P", str(folder / "lxc"), "-n", "userbox"]
    (folder / "lxc").mkdir()
    run("lxc-create", "-q", *args, "-t", "busybox", "-f", str(config))
    run("lxc-start", *args)
    stack.callback(run, "lxc-stop", "-k", *args)
    info = ("lxc-info", *args, "-s", "-H")
    _until(lambda: "RUNNING" in _said(info), "LXC")


def _user_docker(stack: ExitStack, folder: Path) -> str:
    host = f"unix://{folder}/docker.sock"
    stack.callback(cgroups.remove_named, folder.name)  # the daemon does not remove its parent group
    _background(
        stack, "dockerd", "--host", host, "--data-root", f"{folder}/data", "--exec-root",
        f"{folder}/exec", "--pidfile", f"{folder}/pid", "--bridge=none", "--iptables=false",
        "--ip-forward=false", "--storage-driver=vfs", "--cgroup-parent", f"/{folder.name}",
    )  # fmt: skip
    ask = ["docker", "-H", host, "ps"]
    _until(lambda: subprocess.run(ask, capture_output=True, check=False).returncode == 0, "Docker")
    busybox = folder / "root"
    busybox.mkdir()
    shutil.copy("/bin/busybox", busybox / "busybox")
    run("sh", "-c", f"tar -C {busybox} -c . | docker -H {host} import - user:box")
    name = ("run", "-d", "--name", "userbox", "--network", "none", "user:box")
    run("docker", "-H", host, *name, "/busybox", "sleep", "600")
    stack.callback(run, "docker", "-H", host, "rm", "-f", "userbox")
    return host


def _until(condition: Callable[[], bool], thing: str, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.skip(f"a decoy could not be started on this machine: the user's {thing}")
        time.sleep(0.05)


def look(where: dict[str, str]) -> dict[str, object]:
    """Return everything of the user that the bench could have changed."""
    kernel = ("net/ipv4/ip_forward", "kernel/numa_balancing", "vm/nr_hugepages")
    state: dict[str, object] = {
        key: Path("/proc/sys", key).read_text() for key in kernel if Path("/proc/sys", key).exists()
    }
    for kind in ("addr", "route", "neigh", "rule"):
        entries = json.loads(run("ip", "-j", kind) or "[]")
        for entry in entries:
            for info in entry.get("addr_info", []):
                info.pop("valid_life_time", None), info.pop("preferred_life_time", None)
        if kind == "neigh":  # the kernel adds and removes the others by itself
            entries = [entry for entry in entries if "PERMANENT" in entry.get("state", [])]
        state[kind] = entries
    known = run("ip", "netns").splitlines()  # those of another bench come and go
    state["namespaces"] = [line for line in known if not re.match(r"sm[0-9a-f]{6}", line)]
    folder = where["OVS_RUNDIR"]
    if shutil.which("lxc-info"):
        state["lxc"] = run("lxc-info", "-P", f"{folder}/lxc", "-n", "userbox", "-s", "-p", "-H")
    if Path(folder, "db.sock").exists():
        state["ovs"] = run("ovs-vsctl", "--no-wait", f"--db=unix:{folder}/db.sock", "show")
    if host := where.get("DOCKER_HOST"):
        for query in (("images", "-q"), ("ps", "-a", "--format", "{{.ID}} {{.Names}} {{.State}}"),
                      ("network", "ls", "-q"), ("volume", "ls", "-q")):  # fmt: skip
            state[f"docker {query[0]} {query[1]}"] = run("docker", "-H", host, *query)
    return state


@pytest.mark.alone
@pytest.mark.slow
def test_programs_of_a_user_are_not_changed(
    bench: Bench, tmp_path: Path, decoys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every environment; with Docker, also in the user's own daemon."""
    need(["linux-bridge", "ovs-dpdk"], ["bare", "netns", "lxc"])
    environments = ["bare", "netns", "lxc"]
    if "DOCKER_HOST" in decoys:
        monkeypatch.setenv("DOCKER_HOST", decoys["DOCKER_HOST"])
        monkeypatch.delenv("SWITCHMARK_DOCKER")
        environments.append("docker")
    before = look(decoys)
    records = measured(
        bench, tmp_path,
        f"switch: [linux-bridge, ovs-dpdk]\nenvironment: [{', '.join(environments)}]\n"
        "scenario: v2v\nduration: 800ms\nrate: 1k\n",
    )  # fmt: skip
    assert {record.trial.environment for record in records} == set(environments)
    after = look(decoys)
    for key, was in before.items():
        assert after[key] == was, key


THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.alone
def test_tuning_is_recorded_and_restored_after_a_kill(bench: Bench, tmp_path: Path) -> None:
    need(["linux-bridge"], ["netns"])
    if not THP.exists():
        pytest.skip("this kernel has no transparent hugepages to tune")
    before = THP.read_text()
    other = "never" if chosen_of(before) == "madvise" else "madvise"
    text = f"switch: linux-bridge\ntuning: thp:{other}\nrate: 1k\nduration: %s\n"
    (record,) = measured(bench, tmp_path, text % "800ms")
    assert record.provenance["tuning"]["changed"] == {str(THP): [chosen_of(before), other]}
    assert THP.read_text() == before
    file = campaign_file(tmp_path, text % "20s", name="long")
    job = bench.start("run", file, "--no-baseline", "--quiet")
    try:
        job.wait_session()
        job.until(lambda: chosen_of(THP.read_text()) == other, "the setting")
    finally:
        job.process.send_signal(signal.SIGKILL)
        job.process.communicate(timeout=30)
    assert chosen_of(THP.read_text()) == other, "no process was left to restore it"
    code, _, err = bench.run("clean")
    assert code == 0, err
    assert THP.read_text() == before


@pytest.mark.alone
@pytest.mark.slow
def test_64_pairs_are_made_and_removed(bench: Bench, tmp_path: Path) -> None:
    """bench/deploy.py measures the speed on an idle machine."""
    need(["linux-bridge"], ["netns"])
    file = campaign_file(
        tmp_path, "switch: linux-bridge\npairs: 64\nrate: 50\nburst: 1\nduration: 1s\n"
    )
    code, _, err = bench.run_to_the_end("run", file, "--no-baseline", *settings(*SHORT))
    assert code == 0, err
    (record,) = bench.records()
    assert len(record.engines) == 128 and record.timing is not None
    assert record.timing.deploy_s < 60 and record.timing.teardown_s < 60
