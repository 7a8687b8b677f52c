"""`switch: existing` at networks that other programs manage: Open vSwitch and Docker.

Each runs in a host of the test's own, with its data in a folder of the test.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from switchmark.environment.support.rootfs import no_busybox
from tests.integration.machine import needs_root
from tests.integration.own_network import OVS, OVS_PAIR, OwnNetwork, own_network

pytestmark = [pytest.mark.integration, needs_root]
needs_ovs = pytest.mark.skipif(
    not all(map(shutil.which, ("ovs-vswitchd", "ovsdb-server", "ovs-vsctl"))),
    reason="no Open vSwitch (openvswitch-switch)",
)
needs_docker = pytest.mark.skipif(
    not all(map(shutil.which, ("dockerd", "docker"))) or no_busybox() is not None,
    reason="no dockerd (docker.io), or no static busybox",
)
SHORT = ("--rate", "200", "--burst", "1", "--duration", "2s", "--no-baseline", "--json")


def stop(pid_file: Path) -> None:
    """End the program of a pid file."""
    with suppress(OSError, ValueError):
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGTERM)
        for _ in range(200):
            os.kill(pid, 0)
            time.sleep(0.05)


# As `ethtool -K eth0 tx off` does, which may not be installed.
WITHOUT_CHECKSUMS = """
from switchmark.host.kernel.device_settings import disable_offloads
disable_offloads("eth0")
"""


def trial(host: OwnNetwork, *settings: str, check: bool = True) -> Any:
    arguments = [word for setting in settings for word in ("--set", setting)]
    return host.bench(
        "trial", "existing", *SHORT, *arguments, "--results", str(host.folder / "r"), check=check
    )


def record(host: OwnNetwork, *settings: str) -> dict[str, Any]:
    (found,) = json.loads(trial(host, *settings).stdout)
    assert found["status"] == "finished", found["message"]
    return dict(found)


@pytest.fixture(scope="module")
def ovs_host() -> Iterator[OwnNetwork]:
    folder = Path(f"/var/tmp/smeo{os.getpid()}")
    with own_network(folder) as host:
        host.environment |= {"OVS_RUNDIR": str(folder / "ovs"), "D": str(folder / "ovs")}
        try:
            host.sh(OVS + OVS_PAIR)
            yield host
        finally:
            stop(folder / "ovs" / "vs.pid")
            stop(folder / "ovs" / "db.pid")
    shutil.rmtree(folder, ignore_errors=True)


def vsctl(host: OwnNetwork, *args: str) -> str:
    database = f"--db=unix:{host.environment['D']}/db.sock"
    return host.run("ovs-vsctl", database, "--timeout=20", *args).stdout.strip()


def settings_of(host: OwnNetwork) -> str:
    """The database of Open vSwitch without statistics, and the device of the bridge."""
    columns = "name,ports,fail_mode,controller,external_ids,other_config,stp_enable"
    listed = vsctl(host, f"--columns={columns}", "list", "bridge")
    ports = vsctl(host, "--columns=name,tag,external_ids", "list", "port")
    return listed + ports + host.sh("ip -br link show br-int")


@needs_ovs
@pytest.mark.parametrize("more", ["", "+attach_vlan:7"])
def test_ends_are_attached_to_open_vswitch_and_removed(ovs_host: OwnNetwork, more: str) -> None:
    before = settings_of(ovs_host)
    found = record(
        ovs_host, f"switch_options=attach:ovs:br-int{more}",
        "addresses=10.79.0.201/24+10.79.0.202/24",
    )  # fmt: skip
    assert found["throughput"]["forwarded_pps"] > 0
    assert any("br-int switches" in line for line in found["crossing"]["path"])
    assert settings_of(ovs_host) == before


@needs_ovs
def test_applications_cross_a_bridge_in_user_space(ovs_host: OwnNetwork) -> None:
    """Open vSwitch reads frames without the checksums that a veth leaves to a network card. The
    message names the remedy, and with it the endpoints can be measured."""
    endpoints = "endpoints=netns:a+netns:b"
    done = trial(ovs_host, endpoints, check=False)
    assert done.returncode == 1
    (found,) = json.loads(done.stdout)
    assert "br-int is a bridge of Open vSwitch in user space" in found["message"]
    for name in ("a", "b"):
        assert f"`ethtool -K eth0 tx off` in netns:{name}" in found["message"]
        path = f"/run/netns/{name}"
        ovs_host.run("nsenter", f"--net={path}", sys.executable, "-c", WITHOUT_CHECKSUMS)
    for workload in ("tcp-rr", "udp-rr"):
        found = record(ovs_host, endpoints, f"workload={workload}", "dimension=latency")
        counted = [one["device"] for one in found["crossing"]["devices"]]
        assert counted == ["eth0", "va", "vb", "eth0"]


@needs_ovs
def test_an_address_in_use_behind_open_vswitch_is_refused(ovs_host: OwnNetwork) -> None:
    done = trial(
        ovs_host, "switch_options=attach:ovs:br-int", "addresses=10.79.0.3/24+10.79.0.202/24",
        check=False,
    )  # fmt: skip
    assert "10.79.0.3 is in use in br-int" in done.stdout + done.stderr
    assert "sm" not in vsctl(ovs_host, "list-ports", "br-int")


@needs_ovs
def test_a_bridge_that_passes_nothing_is_refused(ovs_host: OwnNetwork) -> None:
    vsctl(ovs_host, "set-fail-mode", "br-int", "secure")
    ovs_host.run("ovs-ofctl", "del-flows", f"unix:{ovs_host.environment['D']}/br-int.mgmt")
    try:
        done = trial(
            ovs_host, "switch_options=attach:ovs:br-int",
            "addresses=10.79.0.201/24+10.79.0.202/24", check=False,
        )  # fmt: skip
        assert done.returncode == 3 and "nothing would pass" in done.stderr
    finally:
        vsctl(ovs_host, "del-fail-mode", "br-int")
        ovs_host.run("ovs-ofctl", "add-flow", f"unix:{ovs_host.environment['D']}/br-int.mgmt",
                     "actions=NORMAL")  # fmt: skip


@needs_ovs
def test_a_killed_bench_leaves_no_port(ovs_host: OwnNetwork) -> None:
    before = settings_of(ovs_host)
    running = ovs_host.spawn(
        sys.executable, "-m", "switchmark", "trial", "existing", "--no-baseline", "--rate", "200",
        "--duration", "20s", "--set", "switch_options=attach:ovs:br-int",
        "--set", "addresses=10.79.0.201/24+10.79.0.202/24", "--results", str(ovs_host.folder / "r"),
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 30
        while "sm" not in vsctl(ovs_host, "list-ports", "br-int"):
            assert time.monotonic() < deadline and running.poll() is None
    finally:
        running.kill()
        running.wait()
    done = ovs_host.bench("clean")
    assert "could not" not in done.stdout + done.stderr
    assert settings_of(ovs_host) == before


@pytest.fixture(scope="module")
def docker_host() -> Iterator[OwnNetwork]:
    folder = Path(f"/var/tmp/smed{os.getpid()}")
    with own_network(folder) as host:
        socket = f"unix://{folder}/d.sock"
        host.environment |= {
            "DOCKER_HOST": socket,
            "SWITCHMARK_CACHE_DIR": str(folder / "cache"),
            "TMPDIR": str(folder),
        }
        (folder / "daemon.json").write_text("{}")
        daemon = host.spawn(
            "dockerd", "--host", socket, "--config-file", str(folder / "daemon.json"),
            "--data-root", str(folder / "data"), "--exec-root", str(folder / "x"),
            "--pidfile", str(folder / "pid"), "--storage-driver", "vfs",
            "--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", f"/smed{os.getpid()}",
        )  # fmt: skip
        try:
            deadline = time.monotonic() + 90
            while host.run("docker", "version", check=False).returncode != 0:
                if daemon.poll() is not None or time.monotonic() > deadline:
                    pytest.skip("dockerd does not start here")
                time.sleep(0.2)
            host.sh(IMAGE)
            yield host
        finally:
            host.run("bash", "-c", "docker rm -f $(docker ps -aq)", check=False)
            daemon.terminate()
            daemon.wait(60)
    for group in Path("/sys/fs/cgroup").glob(f"**/smed{os.getpid()}"):
        with suppress(OSError):
            group.rmdir()
    shutil.rmtree(folder, ignore_errors=True)


CLIENT = """
ip netns add client; ip link add vcl type veth peer name eth0 netns client; ip link set vcl up
ip addr add 10.82.0.1/24 dev vcl; ip -n client link set lo up; ip -n client link set eth0 up
ip -n client addr add 10.82.0.2/24 dev eth0; ip -n client route add default via 10.82.0.1
"""
IMAGE = """
mkdir -p $TMPDIR/image/bin; cp /bin/busybox $TMPDIR/image/bin/
tar -C $TMPDIR/image -c . | docker import - smtest:1 >/dev/null
docker network create --subnet 10.81.0.0/24 shop >/dev/null
for n in web db; do docker run -d --name $n --network shop smtest:1 /bin/busybox sleep 100000; done
docker run -d --name pub -p 8080:17321/udp --network shop smtest:1 /bin/busybox sleep 100000
"""


def containers(host: OwnNetwork) -> str:
    """The user's containers, with the time at which they started, and the networks."""
    shown = "{{.Id}} {{.State.StartedAt}} {{.State.Pid}} {{.RestartCount}}"
    listed = host.sh("docker ps -a --format '{{.Names}}' | sort").split()
    return (
        host.run("docker", "inspect", "-f", shown, *listed).stdout
        + host.sh("docker network ls -q | sort; docker images -q | sort")
        + host.sh("ip -br link | awk '{ print $1 }' | sort; iptables-save | grep -v '^[:#]'")
    )


@needs_docker
def test_two_containers_are_measured_and_not_touched(docker_host: OwnNetwork) -> None:
    before = containers(docker_host)
    found = record(docker_host, "endpoints=docker:web+docker:db")
    assert found["throughput"]["forwarded_pps"] > 0
    assert any("bridges" in line for line in found["crossing"]["path"])
    assert containers(docker_host) == before


# Processes, files, control groups, devices, addresses, routes, sockets, rules and settings of a
# container, read from outside.
OF_A_CONTAINER = r"""
pid=$(docker inspect -f '{{.State.Pid}}' $NAME)
cd /proc/$pid/root; find . -xdev -printf '%P %y %m %U %G %s %T@ %i\n' | sort
cut -d' ' -f1-2,22 /proc/$pid/stat; cat /proc/$pid/cgroup /proc/$pid/limits
for p in /proc/[0-9]*; do
  [ "$(readlink $p/ns/pid)" != "$(readlink /proc/$pid/ns/pid)" ] || echo process ${p#/proc/}
done
in="nsenter -t $pid --net"
$in ip -d link; $in ip addr; $in ip route show table all; $in ip rule; $in tc qdisc
$in ss -H -lntu; $in nft -s list ruleset
$in sysctl -a 2>/dev/null | grep '^net' | grep -v -e _count -e random | sort
"""


def inside(host: OwnNetwork, name: str) -> str:
    return host.sh(f"NAME={name}; {OF_A_CONTAINER}")


@needs_docker
@pytest.mark.parametrize("workload", ["frames", "tcp-rr"])
def test_nothing_new_remains_in_a_container(docker_host: OwnNetwork, workload: str) -> None:
    before = [inside(docker_host, name) for name in ("web", "db")]
    assert all("bin/busybox" in one and "eth0" in one for one in before)
    settings = ["endpoints=docker:web+docker:db", f"workload={workload}"]
    options = [word for setting in settings for word in ("--set", setting)]
    done = docker_host.bench(
        "trial", "existing", "--rate", "200", "--duration", "3s", "--no-baseline", "--json",
        *options, "--results", str(docker_host.folder / "r"),
    )  # fmt: skip
    (found,) = json.loads(done.stdout)
    assert found["status"] == "finished", found["message"]
    assert [inside(docker_host, name) for name in ("web", "db")] == before


@needs_docker
def test_the_path_between_containers_is_shown(docker_host: OwnNetwork) -> None:
    found = json.loads(docker_host.bench("path", "docker:web", "docker:db", "--json").stdout)
    assert found["forth"]["arrives"] and found["refused"] == []
    host = next(one for one in found["namespaces"] if one["label"] == "this host")
    assert host["firewall"]["rules"] > 0
    done = docker_host.bench("path", "docker:web", "docker:nobody", check=False)
    assert done.returncode == 3 and "has no such container" in done.stderr


@needs_docker
def test_ends_are_attached_to_a_docker_network_and_removed(docker_host: OwnNetwork) -> None:
    before = containers(docker_host)
    found = record(docker_host, "switch_options=attach:docker:shop")
    assert found["crossing"]["source_address"].startswith("10.81.0.")
    assert containers(docker_host) == before


@needs_docker
def test_a_published_port_is_a_contender(docker_host: OwnNetwork) -> None:
    """The client is beside the host, as another machine would be."""
    docker_host.sh(CLIENT)
    found = record(docker_host, "endpoints=netns:client+address:10.82.0.1:8080+docker:pub")
    receiver = next(one for one in found["engines"] if one["role"] == "receiver")
    assert receiver["args"][receiver["args"].index("--src-port") + 1] == "17321"
    assert found["crossing"]["translated"]


@needs_docker
def test_a_container_that_restarts_fails_the_trial(docker_host: OwnNetwork) -> None:
    running = docker_host.spawn(
        sys.executable, "-m", "switchmark", "trial", "existing", "--no-baseline", "--rate", "200",
        "--duration", "6s", "--set", "endpoints=docker:web+docker:db",
        "--results", str(docker_host.folder / "r"),
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 30
        while not docker_host.engines("10.81.0."):
            assert time.monotonic() < deadline
        time.sleep(2)
        docker_host.run("docker", "restart", "-t", "0", "db")
        output, _ = running.communicate(timeout=90)
        assert running.returncode == 1, output
        assert "docker:db has ended or was restarted" in " ".join(output.split())
    finally:
        running.kill()
        running.wait()
