"""Nodes in real namespaces and LXC containers: ports, streams, cores and teardown."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from switchmark.environment.registry import ENVIRONMENTS
from switchmark.environment.support.base import Environment
from switchmark.environment.support.closing import close_nodes
from switchmark.environment.support.rootfs import build_root, shared_libraries
from switchmark.errors import UnavailableError, UsageError
from switchmark.host import local
from switchmark.host.containers import docker_daemon
from switchmark.host.host import Session, Spawned
from switchmark.host.kernel import device_settings, namespaces, netlink, procfs
from switchmark.host.session import open_session
from switchmark.host.undo.entries import LxcPivot, NetworkDevice, NetworkNamespace
from switchmark.model.ports import PortKind
from switchmark.switch.support.private import prepare_namespace
from tests.integration.machine import every_environment, needs_root, node_spec, own_state, remains
from tests.integration.waiting import DEADLINE_S, until

pytestmark = [pytest.mark.integration, needs_root]
BUSYBOX = "/bin/busybox"


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    yield from own_state(monkeypatch, tmp_path)


@pytest.fixture(params=[name for name in every_environment() if name != "bare"])
def environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Environment:
    monkeypatch.setenv("SWITCHMARK_DOCKER", "private")
    environment = ENVIRONMENTS[request.param]()
    availability = environment.availability()
    if not availability.available:
        pytest.skip(f"{request.param}: {availability.reason}; {availability.remedy}")
    assert availability.version
    return environment


def output_of(process: Spawned) -> str:
    """Return the output of a process that ends successfully."""
    lines = []
    while (line := process.read_line(DEADLINE_S)) is not None:
        lines.append(line)
    assert process.wait(DEADLINE_S) == 0, process.stderr_tail()
    return "\n".join(lines)


def bridge(session: Session, *devices: str | None) -> None:
    """Join devices in the root namespace, as a switch under test would."""
    name = f"sm{session.id}br"
    session.ledger.record(NetworkDevice(name))
    session.host.run(["ip", "link", "add", name, "type", "bridge", "mcast_snooping", "0"])
    device_settings.disable_ipv6(name)  # otherwise it sends frames by itself
    session.host.run(["ip", "link", "set", name, "up"])
    for device in devices:
        assert device is not None
        session.host.run(["ip", "link", "set", device, "master", name])


def test_veth_port_is_as_asked(state: Path, environment: Environment) -> None:
    with open_session() as session:
        node = environment.create(session, node_spec("tx0", 0, mtu_bytes=9000))
        port = node.spec.port
        assert (port.device_inside, port.device_switch_side) == ("eth0", f"sm{session.id}tx0")
        inside = json.loads(
            session.host.run(["ip", "-n", node.netns, "-j", "addr", "show", "eth0"]).stdout
        )[0]
        assert inside["address"] == port.mac and inside["mtu"] == 9000
        assert "LOWER_UP" in inside["flags"]
        addresses = [(one["family"], one["local"], one["prefixlen"]) for one in inside["addr_info"]]
        assert addresses == [("inet", "10.64.0.1", 24)], "no IPv6 address"
        neighbours = session.host.run(["ip", "-n", node.netns, "neigh"]).stdout
        assert "10.64.0.2 dev eth0 lladdr 02:53:4d:00:00:02 PERMANENT" in neighbours
        outside = json.loads(
            session.host.run(["ip", "-j", "addr", "show", str(port.device_switch_side)]).stdout
        )[0]
        assert "LOWER_UP" in outside["flags"] and outside["mtu"] == 9000
        assert outside["addr_info"] == []
        assert node.device_frames() == (0, 0), "the kernel sent no frame"
        node.close()
        node.close()
        assert [path for path in remains(state, session.id) if "netns" in path] == []


def test_streams_exit_code_and_cores(state: Path, environment: Environment) -> None:
    with open_session() as session:
        node = environment.create(session, node_spec("tx0", 0))
        core = node.spec.cores[0]
        echo = node.spawn_engine([BUSYBOX, "cat"])
        echo.write_line("hello")
        assert echo.read_line(DEADLINE_S) == "hello"
        echo.close_input()
        assert echo.read_line(DEADLINE_S) is None, "the end of input reached the engine"
        assert echo.wait(DEADLINE_S) == 0
        status = output_of(node.spawn_engine([BUSYBOX, "cat", "/proc/self/status"]))
        assert f"Cpus_allowed_list:\t{core}\n" in status
        failing = node.spawn_engine([BUSYBOX, "sh", "-c", "echo why >&2; exit 7"])
        assert failing.wait(DEADLINE_S) == 7 and "why" in failing.stderr_tail()


def test_terminate_lets_the_engine_finish(state: Path, environment: Environment) -> None:
    script = "trap 'echo result; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
    with open_session() as session:
        node = environment.create(session, node_spec("tx0", 0))
        engine = node.spawn_engine([BUSYBOX, "sh", "-c", script])
        assert engine.read_line(DEADLINE_S) == "ready"
        assert engine.terminate() == 0
        assert engine.read_line(DEADLINE_S) == "result", "the last line is not lost"


def test_stubborn_engine_is_killed(state: Path, environment: Environment) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.02; done"
    with open_session() as session:
        node = environment.create(session, node_spec("tx0", 0))
        engine = node.spawn_engine([BUSYBOX, "sh", "-c", script])
        assert engine.read_line(DEADLINE_S) == "ready"
        assert engine.terminate(grace_s=0.2) != 0
        node.close()
        if environment.name == "docker":  # its daemon runs until the end of the session
            daemon = docker_daemon.daemon_for(session, state)
            assert docker_daemon.run_docker(session, daemon, "ps", "-aq") == ""
            return
        until(
            lambda: not any("process" in text for text in remains(state, session.id)),
            "no process is left",
        )


def test_stack_dump_of_containerd_is_in_the_session_folder(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Docker daemon makes containerd dump its stacks if it does not answer, and starts another
    one. The daemon does not remove the dump."""
    monkeypatch.setenv("SWITCHMARK_DOCKER", "private")
    if not (availability := ENVIRONMENTS["docker"]().availability()).available:
        pytest.skip(f"docker: {availability.reason}")
    with open_session() as session:
        root = build_root(Path(os.environ["SWITCHMARK_TRAFFIC"]))
        docker_daemon.daemon_for(session, root)
        named = {
            one.pid: Path(f"/proc/{one.pid}/comm") for one in procfs.session_processes(session.id)
        }
        (pid,) = [pid for pid, path in named.items() if path.read_text() == "containerd\n"]
        os.kill(pid, signal.SIGUSR1)
        folders = [session.run_dir / "docker", Path("/tmp")]
        dumps = [folder / f"containerd.{pid}.stacks.log" for folder in folders]
        until(lambda: any(path.exists() for path in dumps), "the stack dump of containerd")
        where = [path for path in dumps if path.exists()]
        dumps[1].unlink(missing_ok=True)
    assert where == dumps[:1]
    assert not dumps[0].exists()


def test_frames_pass_through_a_bridge(state: Path, environment: Environment) -> None:
    with open_session() as session:
        a = environment.create(session, node_spec("tx0", 0))
        b = environment.create(session, node_spec("rx0", 1))
        bridge(session, a.spec.port.device_switch_side, b.spec.port.device_switch_side)
        assert datagram(a.netns, b.netns) == b"x" * 1000
        assert a.device_frames() == (0, 1) and b.device_frames() == (1, 0)


def test_wire_needs_no_switch(state: Path, environment: Environment) -> None:
    with open_session() as session:
        a, b = environment.create_wire(
            session, node_spec("tx0", 0, mtu_bytes=9000), node_spec("rx0", 1)
        )
        assert a.spec.port.mtu_bytes == b.spec.port.mtu_bytes == 9000
        assert a.spec.port.device_switch_side is None
        assert datagram(a.netns, b.netns) == b"x" * 1000
        assert a.device_frames() == (0, 1) and b.device_frames() == (1, 0)
        for node in (a, b):
            node.close()


def datagram(source: str, target: str) -> bytes:
    """Send one UDP datagram between namespaces, by the kernel's stack."""
    receiver = namespaces.inside(target, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sender = namespaces.inside(source, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    with receiver, sender:
        receiver.bind(("10.64.0.2", 5000))
        receiver.settimeout(DEADLINE_S)
        sender.sendto(b"x" * 1000, ("10.64.0.2", 5000))
        return receiver.recv(2000)


def test_checksums_are_on_the_wire(state: Path, environment: Environment) -> None:
    """With transmit checksums offloaded a packet socket would receive a partial one."""
    with open_session() as session:
        a, b = environment.create_wire(session, node_spec("tx0", 0), node_spec("rx0", 1))
        packet = namespaces.inside(
            b.netns, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        )
        with packet:
            packet.settimeout(DEADLINE_S)
            datagram(a.netns, b.netns)
            frame = packet.recv(2000)
    ip, udp = frame[14:34], frame[34:]
    pseudo = ip[12:20] + bytes([0, 17]) + len(udp).to_bytes(2, "big")
    data = pseudo + udp
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    assert total == 0xFFFF, "the UDP checksum in the frame is right"


def test_vhost_user_folder_is_visible_on_both_sides(state: Path, environment: Environment) -> None:
    with open_session() as session:
        node = environment.create(session, node_spec("tx0", 0, PortKind.VHOST_USER))
        port = node.spec.port
        assert port.socket_host is not None and port.socket_inside is not None
        assert len(str(port.socket_host)) <= 107 and node.device_frames() is None
        output_of(node.spawn_engine([BUSYBOX, "touch", port.socket_inside]))
        assert port.socket_host.exists()
        node.close()
        assert not port.socket_host.parent.exists()


@pytest.mark.parametrize("kind", [PortKind.VHOST_USER, PortKind.MEMIF])
def test_wire_that_is_a_socket_shares_a_folder(
    state: Path, environment: Environment, kind: PortKind
) -> None:
    with open_session() as session:
        a, b = environment.create_wire(
            session, node_spec("tx0", 0, kind), node_spec("rx0", 1, kind)
        )
        assert a.spec.port.socket_host == b.spec.port.socket_host
        assert not a.spec.port.back_end and b.spec.port.back_end
        inside = str(a.spec.port.socket_inside)
        output_of(a.spawn_engine([BUSYBOX, "touch", inside]))
        output_of(b.spawn_engine([BUSYBOX, "ls", str(b.spec.port.socket_inside)]))


def test_names_must_fit(state: Path, environment: Environment) -> None:
    with open_session() as session:
        with pytest.raises(UsageError, match="1 to 7 characters"):
            environment.create(session, node_spec("sender00", 0))
        with pytest.raises(UsageError, match="kind tap"):
            environment.create(session, node_spec("tx0", 0, PortKind.TAP))
        mixed = node_spec("rx0", 1, PortKind.VHOST_USER)
        with pytest.raises(UsageError, match="its ends are"):
            environment.create_wire(session, node_spec("tx1", 0), mixed)


SPAWNED_S = 0.01  # for an empty program; 2 ms on an idle machine


def slowness() -> float:
    """Return the factor by which a program starts slower now; at least 1."""
    begin = time.monotonic()
    for _ in range(10):
        subprocess.run([BUSYBOX, "true"], check=True)
    return max(1.0, (time.monotonic() - begin) / (10 * SPAWNED_S))


def test_deploys_fast(state: Path, environment: Environment) -> None:
    """The best of some rounds, as other programs only make it slower. A Docker node is two
    containers of some 0.3 s each."""
    most_s = 5.0 if environment.name == "docker" else 0.3
    times_s = []
    with open_session() as session:
        for _ in range(8):
            slower = slowness()
            begin = time.monotonic()
            nodes = [
                environment.create(session, node_spec(name, end))
                for end, name in enumerate(("tx0", "rx0"))
            ]
            engines = [node.spawn_engine([BUSYBOX, "cat"]) for node in nodes]
            for engine in engines:
                engine.write_line("x")
                assert engine.read_line(DEADLINE_S) == "x"
            took_s = time.monotonic() - begin
            times_s.append(took_s / max(slower, slowness()))
            for node in nodes:
                node.close()
    assert min(times_s) < most_s, f"two nodes took {times_s} s"


def test_many_nodes_close_together(state: Path, environment: Environment) -> None:
    with open_session() as session:
        nodes = [environment.create(session, node_spec(f"tx{k}", k % 2)) for k in range(8)]
        before = session.ledger.outstanding()
        devices = [str(node.spec.port.device_switch_side) for node in nodes]
        engine = nodes[0].spawn_engine([BUSYBOX, "cat"])
        close_nodes(nodes)
        assert engine.poll() is not None
        assert not any(Path("/sys/class/net", device).exists() for device in devices)
        assert len(before) - len(session.ledger.outstanding()) >= 16, "removed from the ledger"
        close_nodes(nodes)


class Stuck:
    """A process that no signal ends."""

    def poll(self) -> None:
        return None

    def terminate(self, grace_s: float = 2.0) -> int:
        raise TimeoutError("still running")


def test_node_that_cannot_be_closed_does_not_keep_others(
    state: Path, environment: Environment
) -> None:
    with open_session() as session:
        nodes = [environment.create(session, node_spec(f"tx{k}", k % 2)) for k in range(3)]
        devices = [str(node.spec.port.device_switch_side) for node in nodes]
        nodes[0]._spawned.append(Stuck())  # type: ignore[attr-defined]
        with pytest.raises(TimeoutError, match="still running"):
            close_nodes(nodes)
        left = [device for device in devices if Path("/sys/class/net", device).exists()]
        assert left == devices[:1]
        nodes[0]._spawned.clear()  # type: ignore[attr-defined]
        close_nodes(nodes)
        assert networks(session) == []


def fail_once(monkeypatch: pytest.MonkeyPatch, where: ModuleType, name: str) -> None:
    """Make the function work, but raise an error after its first call."""
    sound = getattr(where, name)

    def failing(*args: object) -> None:
        monkeypatch.setattr(where, name, sound)
        sound(*args)
        raise OSError("half-way")

    monkeypatch.setattr(where, name, failing)


def networks(session: Session) -> list[str]:
    """Return the entries of nodes and of a switch in the session."""
    kinds = (NetworkNamespace, NetworkDevice)
    entries = [one.entry for one in session.ledger.outstanding()]
    return [str(one) for one in entries if isinstance(one, kinds)]


@pytest.mark.parametrize("failing", ["name_namespace", "wait_passing"])
def test_node_that_failed_half_way_can_be_made_again(
    state: Path, environment: Environment, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later trial of the session uses the same names."""
    where = namespaces if failing == "name_namespace" else netlink
    ends = node_spec("tx0", 0), node_spec("rx0", 1)
    with open_session() as session:
        fail_once(monkeypatch, where, failing)
        with pytest.raises(OSError, match="half-way"):
            environment.create(session, ends[0])
        assert networks(session) == []
        environment.create(session, ends[0]).close()
        fail_once(monkeypatch, where, failing)
        with pytest.raises(OSError, match="half-way"):
            environment.create_wire(session, *ends)
        assert networks(session) == []
        close_nodes(environment.create_wire(session, *ends))
        assert networks(session) == []


def test_bare_node_that_failed_half_way_can_be_made_again(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = ENVIRONMENTS["bare"]()
    with open_session() as session:
        fail_once(monkeypatch, netlink, "wait_passing")
        with pytest.raises(OSError, match="half-way"):
            environment.create(session, node_spec("tx0", 0))
        assert networks(session) == []
        environment.create(session, node_spec("tx0", 0)).close()
        assert networks(session) == []


def test_switch_namespace_failed_half_way_can_be_made_again(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_session() as session:
        fail_once(monkeypatch, namespaces, "name_namespace")
        with pytest.raises(OSError, match="half-way"):
            prepare_namespace(session)
        assert networks(session) == []
        name, entry = prepare_namespace(session)
        assert (namespaces.NETNS_DIR / name).exists()
        session.ledger.undo(entry)


def test_bare_devices_have_names_of_the_session_and_no_address(state: Path) -> None:
    environment = ENVIRONMENTS["bare"]()
    with open_session() as session:
        before = session.host.run(["ip", "route"]).stdout
        ends = [
            environment.create(session, node_spec(name, end))
            for end, name in enumerate(("tx0", "rx0"))
        ]
        devices = [str(node.spec.port.device_inside) for node in ends]
        assert all(device.startswith(f"sm{session.id}") for device in devices)
        assert all(node.netns is None for node in ends)
        for device in devices:
            (found,) = json.loads(session.host.run(["ip", "-j", "addr", "show", device]).stdout)
            assert found["addr_info"] == [] and found["operstate"] == "UP"
        assert session.host.run(["ip", "route"]).stdout == before
        status = output_of(ends[0].spawn_engine([BUSYBOX, "cat", "/proc/self/status"]))
        assert f"Cpus_allowed_list:\t{ends[0].spec.cores[0]}\n" in status
        close_nodes(ends)
        assert not any(Path("/sys/class/net", device).exists() for device in devices)
        wire = environment.create_wire(session, node_spec("tx1", 0), node_spec("rx1", 1))
        assert len({node.spec.port.device_inside for node in wire}) == 2
        session_id = session.id
    assert [text for text in remains(state, session_id) if "net" in text] == []


def test_node_with_two_ports(state: Path, environment: Environment) -> None:
    """A VNF has two devices or sockets with different names and without addresses."""
    with open_session() as session:
        spec = node_spec("v0-1", 0)
        port = replace(spec.port, ip="")
        both = replace(port, mac="02:53:4d:00:01:01")
        node = environment.create(session, replace(spec, ports=(port, both)))
        names = [part.device_inside for part in node.spec.ports]
        assert names == ["eth0", "eth1"]
        outside = [str(part.device_switch_side) for part in node.spec.ports]
        assert outside == [f"sm{session.id}v0-1a", f"sm{session.id}v0-1b"]
        listed = session.host.run(["ip", "-n", str(node.netns), "-j", "addr"]).stdout
        inside = {entry["ifname"]: entry for entry in json.loads(listed)}
        assert [inside[str(name)]["address"] for name in names] == [port.mac, both.mac]
        assert all(inside[str(name)]["addr_info"] == [] for name in names)
        assert node.device_drops() == (0, 0)
        node.close()
        assert not any(Path("/sys/class/net", device).exists() for device in outside)
        sockets = tuple(replace(part, kind=PortKind.VHOST_USER) for part in (port, both))
        node = environment.create(session, replace(spec, name="v0-2", ports=sockets))
        paths = [part.socket_host for part in node.spec.ports]
        assert len(set(paths)) == 2 and len({path.parent for path in paths if path}) == 1
        node.close()


def test_container_has_little_in_it(state: Path) -> None:
    environment = ENVIRONMENTS["lxc"]()
    if not (availability := environment.availability()).available:
        pytest.skip(f"lxc: {availability.reason}")
    pivots = LxcPivot.existing()
    with open_session() as session:
        node = environment.create(session, node_spec("tx0", 0, PortKind.VHOST_USER))

        def run(*args: str) -> str:
            return output_of(node.spawn_engine([BUSYBOX, *args]))

        capabilities = int(run("grep", "CapBnd", "/proc/self/status").split()[1], 16)
        assert capabilities == 0, "none was requested"
        root = run("sh", "-c", "touch /usr/new 2>&1 || echo refused")
        assert "refused" in root and "Read-only" in root
        status = run("grep", "-E", "^(NoNewPrivs|Seccomp):", "/proc/self/status").split()
        assert status == ["NoNewPrivs:", "1", "Seccomp:", "2"]
        for folder in ("/proc/bus", "/proc/fs", "/proc/irq"):
            assert run("ls", folder) == "", "the host's devices are out of reach"
        refused = "echo 1 2>/dev/null > /proc/irq/default_smp_affinity || echo refused"
        assert run("sh", "-c", refused) == "refused"
        assert run("hostname").startswith(f"sm{session.id}-tx0-"), "each start has a container"
        assert "/home" not in run("ls", "-d", "/bin", "/run/vhost")
        processes = run("ps").splitlines()
        assert len(processes) <= 4, "header, init, the engine"
        assert run("ls", "/sys/class/net") == "lo"
        assert set(run("ls", "/run").split()) == {"vhost", "batons"}
        busy = node.spawn_engine([BUSYBOX, "cat"])
        with pytest.raises(UnavailableError, match="runs in it already"):
            node.spawn_engine([BUSYBOX, "true"])
        busy.terminate()
        assert LxcPivot.existing(), "LXC has made its groups"
    assert LxcPivot.existing() == pivots


def test_interrupted_start_of_a_container_leaves_no_lock(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal arrives when lxc-execute has been started. It was still starting when the container
    was removed, and then made the folder of its lock again. Here it waits for that removal."""
    environment = ENVIRONMENTS["lxc"]()
    if not (availability := environment.availability()).available:
        pytest.skip(f"lxc: {availability.reason}")
    popen, removed = local._popen, tmp_path / "removed"
    slow = tmp_path / "bin/lxc-execute"
    slow.parent.mkdir()
    slow.write_text(
        f"#!/bin/sh\nuntil [ -e {removed} ]; do sleep 0.01; done\n"
        f'exec {shutil.which(slow.name)} "$@"\n'
    )
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")

    def interrupted(args: list[str], *more: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = popen(args, *more, **options)
        if slow.name in args:
            signal.raise_signal(signal.SIGTERM)
        return process

    with open_session() as session:
        node = environment.create(session, node_spec("tx0", 0, PortKind.VHOST_USER))
        monkeypatch.setattr(local, "_popen", interrupted)
        with pytest.raises(SystemExit):
            node.spawn_engine([BUSYBOX, "true"])
            time.sleep(DEADLINE_S)
        node.close()
        removed.touch()
        until(lambda: not procfs.session_processes(session.id), "the end of lxc-execute")
    assert remains(state, session.id) == []


@pytest.mark.parametrize(
    ("environment", "expected"),
    [("lxc", 1 << 13), pytest.param("docker", 1 << 13 | 1 << 23, marks=pytest.mark.slow)],
)
def test_container_has_the_requested_capabilities(
    state: Path, environment: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packet sockets; placing memory by NUMA node only if a seccomp filter requires it."""
    monkeypatch.setenv("SWITCHMARK_DOCKER", "private")
    selected = ENVIRONMENTS[environment]()
    if not (availability := selected.availability()).available:
        pytest.skip(f"{environment}: {availability.reason}")
    with open_session() as session:
        spec = replace(
            node_spec("tx0", 0, PortKind.VHOST_USER), linux_capabilities=("net_raw", "sys_nice")
        )
        node = selected.create(session, spec)
        command = [BUSYBOX, "grep", "CapBnd", "/proc/self/status"]
        assert int(output_of(node.spawn_engine(command)).split()[1], 16) == expected


def test_root_is_shared_and_rebuilt_for_another_engine(state: Path, tmp_path: Path) -> None:
    engine = Path(os.environ["SWITCHMARK_TRAFFIC"])
    root = build_root(engine)
    built = root.stat()
    assert build_root(engine) == root
    assert (root.stat().st_ino, root.stat().st_ctime_ns) == (built.st_ino, built.st_ctime_ns)
    elsewhere = tmp_path / "session" / "engine"
    elsewhere.parent.mkdir()
    shutil.copy(engine, elsewhere)
    assert build_root(elsewhere) == root, "each session on another host has a separate root"
    elsewhere.write_text(engine.read_text() + "# another\n")
    other = build_root(elsewhere)
    assert other != root and other.is_dir()
    assert list(other.parent.glob(".building*")) == []


def test_partial_root_of_killed_bench_is_removed_by_the_next(state: Path, tmp_path: Path) -> None:
    engine = tmp_path / "mine"
    shutil.copy(os.environ["SWITCHMARK_TRAFFIC"], engine)
    parent = build_root(engine).parent
    abandoned, locked, young = (
        parent / f".building-{name}" for name in ("abandoned", "held", "new")
    )
    for folder in (abandoned, locked, young):
        (folder / "usr").mkdir(parents=True)
    hours_ago = time.time() - 7200
    for folder in (abandoned, locked):
        os.utime(folder, (hours_ago, hours_ago))
    fd = os.open(locked, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    engine.write_text(f"{engine.read_text()}# another\n")
    build_root(engine)
    os.close(fd)
    assert sorted(parent.glob(".building*")) == [locked, young]


def test_root_holds_the_libraries_of_a_dynamic_program(state: Path, tmp_path: Path) -> None:
    program = shutil.which("ip")
    assert program is not None
    engine = tmp_path / "engine-ip"
    shutil.copy2(program, engine)
    libraries = shared_libraries(engine)
    assert any(path.name.startswith("libc.so") for path in libraries)
    root = build_root(engine)
    done = subprocess.run(
        ["chroot", str(root), "/usr/bin/switchmark-traffic", "-V"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "iproute2" in done.stdout, done.stderr


def test_root_holds_the_drivers_of_a_dynamic_dpdk_program(state: Path) -> None:
    """EAL loads every driver in its folder; each must be there once, with all its libraries."""
    program = shutil.which("dpdk-testpmd")
    if program is None:
        pytest.skip("no dpdk-testpmd on this machine: apt install dpdk-dev")
    root = build_root(Path(program).resolve())
    drivers = [path for path in root.rglob("librte_net_*.so.*") if not path.is_symlink()]
    assert len([path for path in drivers if "pmds" in str(path)]) >= 4
    eal = ["--no-huge", "--no-shconf", "--no-telemetry", "--no-pci", "-m", "128"]
    ports = ["--vdev", "net_null0", "--lcores", "0@0,1@0"]
    script = (
        f'mount -t proc proc {root}/proc && mount -t sysfs sysfs {root}/sys && exec chroot "$@"'
    )
    inside = [
        str(root),
        "/usr/bin/switchmark-traffic",
        *eal,
        *ports,
        "--",
        "--total-num-mbufs=2048",
    ]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *inside],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 and "Port 0" in done.stdout, done.stderr
