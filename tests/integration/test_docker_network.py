"""`switch: docker-network` with a real daemon: its networks, and nothing left on the machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.errors import SwitchmarkError, UnavailableError, UsageError
from switchmark.host.container_networks.probe import Listener, wait_for_answer
from switchmark.host.containers.docker_daemon import run_docker
from switchmark.host.host import Session
from switchmark.host.kernel import namespaces, procfs
from switchmark.host.network.counted import Relay, read_counts, read_relay
from switchmark.host.process_output import run_command
from switchmark.host.session import open_session
from switchmark.host.undo.clean import clean_stale
from switchmark.model.ports import ConnectMode, PortKind, SwitchPort
from switchmark.switch.docker_network import DockerNetwork
from switchmark.switch.support.docker_host import docker_host, end_docker_host
from tests.integration.machine import needs_root
from tests.integration.switch_rig import available, mac_of, traces
from tests.integration.waiting import until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
]
PORTS = [SwitchPort(k, PortKind.ATTACHMENT, mac_of(k)) for k in (0, 1)]


@pytest.fixture
def machine() -> Iterator[str]:
    """A network namespace in which a bench runs as on a separate machine."""
    name = f"smt{os.getpid()}d"
    subprocess.run(["ip", "netns", "add", name], check=True)
    yield name
    subprocess.run(["ip", "netns", "del", name], check=True)


def state_of(machine: str) -> list[str]:
    """Everything that a daemon could change on the machine's network."""
    commands = ("iptables-save", "ip -o link", "ip route", "sysctl net.ipv4.ip_forward")
    entered = ["nsenter", f"--net=/run/netns/{machine}"]
    texts = [run_command([*entered, *each.split()]).stdout for each in commands]
    return [line for text in texts for line in text.splitlines() if not line.startswith("#")]


def network_with(**options: str) -> DockerNetwork:
    switch = available("docker-network")
    assert isinstance(switch, DockerNetwork)
    switch.configure(options)
    return switch


@pytest.mark.parametrize(
    ("options", "devices", "routers"),
    [
        ({"driver": "bridge"}, 4, 0),
        ({"driver": "user-bridge", "iptables": "off"}, 4, 0),
        ({"driver": "macvlan"}, 2, 0),
        ({"driver": "host"}, 3, 0),
        ({"driver": "bridge", "publish": "nat"}, 4, 1),
        ({"driver": "bridge", "overlay": "vxlan"}, 8, 0),
        ({"driver": "user-bridge", "overlay": "vxlan-1550", "iptables": "off"}, 8, 0),
    ],
)
def test_networks_carry_datagrams_and_prove_it(
    options: dict[str, str], devices: int, routers: int, session: Session
) -> None:
    switch = network_with(**options)
    try:
        switch.make_ports(session, PORTS)
        switch.start(session, PORTS, ConnectMode.NETWORK, [])
        assert switch.alive() is None
        network = switch.network()
        assert len(network.devices) == devices
        assert network.facts.ttl_forth == 64 - routers
        assert network.facts.translated is False
        assert read_counts(network.devices)
        assert switch.details()["option:driver"] == options["driver"]
        hosts = [host.namespace.name for host in switch.hosts]
        if "overlay" in options:
            assert len(set(hosts)) == 2
            assert "vxlan-a - underlay-a - underlay-b - vxlan-b" in network.path[0]
            assert switch.details()["mtu"] == {"vxlan": "1450"}.get(options["overlay"], "1500")
    finally:
        switch.stop()
    for host, daemon in zip(hosts, switch.daemons, strict=True):
        assert_only_docker0_stays(host)
        end_docker_host(session, daemon)
    assert traces(session.id) <= {str(session.run_dir)}


def test_a_proxy_carries_the_bytes(session: Session) -> None:
    switch = network_with(publish="proxy", iptables="off")
    try:
        ends = [one.end for one in switch.make_ports(session, PORTS)]
        switch.start(session, PORTS, ConnectMode.NETWORK, [])
        assert ends[0] is not None and ends[1] is not None
        network = switch.network()
        assert network.facts.translated and network.facts.source_seen == ends[0].reached_at
        assert ends[0].reached_port, "the port of the proxy at which it takes answers"
        assert network.relay is not None and network.relay.pids == switch.process_ids()
        assert "docker-proxy" in network.path[0]
        before = read_relay(network.relay)
        listener = Listener(ends[1].netns, ends[1].ip.partition("/")[0], 18000)
        wait_for_answer(ends[0].netns, listener, "192.0.2.2", 5.0)
        listener.close()
        after = read_relay(network.relay)
        assert after.bytes - before.bytes >= 2 * (28 + 16), "both ways, with IP and UDP headers"
        assert after.forwarded_packets == before.forwarded_packets
        assert before.threads.ran_s(after.threads) > 0
    finally:
        switch.stop()
    assert switch.process_ids() == ()
    end_docker_host(session, switch.daemon)
    assert traces(session.id) <= {str(session.run_dir)}


def test_address_translation_does_not_pass_for_the_proxy(session: Session) -> None:
    """The counters that prove a proxy tell the kernel's translation apart."""
    switch = network_with(publish="nat")
    try:
        ends = [one.end for one in switch.make_ports(session, PORTS)]
        assert ends[0] is not None and ends[1] is not None
        relay = Relay("docker-proxy", (), switch.namespace.name)
        before = read_relay(relay)
        listener = Listener(ends[1].netns, ends[1].ip.partition("/")[0], 18000)
        wait_for_answer(ends[0].netns, listener, "192.0.2.2", 5.0)
        listener.close()
        assert read_relay(relay).forwarded_packets > before.forwarded_packets
    finally:
        switch.stop()
    end_docker_host(session, switch.daemon)


def assert_only_docker0_stays(host: str) -> None:
    """The next trial of the session uses this host, in which nothing of this trial may be."""
    links = run_command(["ip", "-n", host, "-o", "link"]).stdout
    names = {line.split(":")[1].strip() for line in links.splitlines()}
    assert names <= {"lo", "docker0"}
    rules = run_command(["nsenter", f"--net=/run/netns/{host}", "iptables-save"]).stdout
    assert "DNAT" not in rules and "br-" not in rules and "10.78." not in rules


def daemon_pids(session: Session) -> list[int]:
    processes = procfs.session_processes(session.id)
    return [one.pid for one in processes if (Path(f"/proc/{one.pid}/comm").read_text()) ==
            "dockerd\n"]  # fmt: skip


def one_trial(session: Session) -> DockerNetwork:
    """Make the network of a trial, let its ends reach each other, and remove it."""
    switch = network_with(driver="bridge")
    try:
        switch.make_ports(session, PORTS)
        switch.start(session, PORTS, ConnectMode.NETWORK, [])
    finally:
        switch.stop()
    return switch


def test_trials_of_a_session_share_a_daemon_and_no_connections(session: Session) -> None:
    switch = one_trial(session)
    (first,) = daemon_pids(session)
    host = switch.namespace.name
    namespaces.inside(host, send_to_itself)
    assert namespaces.inside(host, tracked) > 0
    docker_host(session, switch.daemon_options())
    assert namespaces.inside(host, tracked) == 0
    assert "lladdr" not in run_command(["ip", "-n", host, "neigh"]).stdout
    one_trial(session)
    assert daemon_pids(session) == [first]
    os.kill(first, signal.SIGKILL)
    again = one_trial(session)
    (second,) = daemon_pids(session)
    assert second != first
    end_docker_host(session, again.daemon)
    assert traces(session.id) <= {str(session.run_dir)}


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"driver": "bridge"}, None),
        ({"publish": "proxy", "iptables": "off"}, "docker-proxy has ended"),
    ],
)
def test_death_of_the_daemon_is_reported_if_it_carries_traffic(
    options: dict[str, str], fault: str | None, session: Session
) -> None:
    """The kernel forwards without the daemon, so that a trial is measured to its end."""
    switch = network_with(**options)
    try:
        switch.make_ports(session, PORTS)
        switch.start(session, PORTS, ConnectMode.NETWORK, [])
        for pid in daemon_pids(session):
            os.kill(pid, signal.SIGKILL)
        until(lambda: switch.alive() == fault, "the state of the proxy")
        assert switch.details()["mtu"] == "1500"
        with pytest.raises(UnavailableError, match=r"docker ps: the daemon at .* has ended"):
            run_docker(session, switch.daemon, "ps")
    finally:
        switch.stop()
    end_docker_host(session, switch.daemon)
    assert traces(session.id) <= {str(session.run_dir)}


def send_to_itself() -> None:
    """Make an entry of connection tracking in the namespace of this thread."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        sending.sendto(b"x", ("127.0.0.1", 9))


def tracked() -> int:
    """The entries of connection tracking in the namespace of this thread."""
    return int(Path("/proc/sys/net/netfilter/nf_conntrack_count").read_text())


def test_a_driver_that_the_kernel_lacks_is_named(session: Session) -> None:
    switch = network_with(driver="ipvlan")
    try:
        switch.make_ports(session, PORTS)
    except SwitchmarkError as error:
        assert "docker-network: driver ipvlan: failed to create the ipvlan port" in str(error)
        assert "CONFIG_IPVLAN" in str(error)
    finally:
        switch.stop()
    end_docker_host(session, switch.daemon)
    assert traces(session.id) <= {str(session.run_dir)}


def test_contradictory_options_are_refused() -> None:
    for options, message in (
        ({"engine": "podman", "iptables": "off"}, "Podman always makes firewall rules"),
        ({"driver": "macvlan", "publish": "nat"}, "driver macvlan cannot publish ports"),
        ({"publish": "nat", "iptables": "off"}, "made by iptables"),
    ):
        with pytest.raises(UsageError, match=message):
            DockerNetwork().configure(options)


def test_one_server_has_one_pair(session: Session) -> None:
    ports = [SwitchPort(k, PortKind.ATTACHMENT, mac_of(k)) for k in range(4)]
    switch = network_with(publish="nat")
    with pytest.raises(UsageError, match="publish has one server, and there are 2 pairs"):
        switch.make_ports(session, ports)
    end_docker_host(session, switch.daemon)
    assert traces(session.id) <= {str(session.run_dir)}


@pytest.mark.parametrize("options", ["publish=nat", "overlay=vxlan"])
def test_a_killed_bench_leaves_nothing(options: str, machine: str) -> None:
    available("docker-network")
    before = state_of(machine)
    entered = ["nsenter", f"--net=/run/netns/{machine}"]
    command = [*entered, sys.executable, "-m", __name__, options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as bench:
        assert bench.stdout is not None
        session_id = bench.stdout.readline().strip()
        assert bench.stdout.readline().strip() == "attached"
        assert state_of(machine) == before, "all of it is in the private host"
        bench.send_signal(signal.SIGKILL)
    (cleaned,) = clean_stale()
    assert (cleaned.session, cleaned.problems) == (session_id, [])
    assert traces(session_id) == set()
    assert state_of(machine) == before


if __name__ == "__main__":
    with open_session(measuring=False) as opened:
        print(opened.id, flush=True)
        name, _, value = sys.argv[1].partition("=")
        network = network_with(driver="bridge", **{name: value})
        network.make_ports(opened, PORTS)
        print("attached", flush=True)
        time.sleep(600)
