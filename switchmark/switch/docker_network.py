"""`docker-network`: the networks of a Docker daemon of the bench, or of Podman, in a private host.

Containers of the bench's image hold the network namespaces; applications run in these. With a
published port, or in the host's network, the first application is outside the host, at the other
end of its uplink, as a client on another machine would be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import IPv4Network
from pathlib import Path

from switchmark.environment.docker import HOLD, NEEDS
from switchmark.environment.support.rootfs import no_busybox
from switchmark.errors import SwitchmarkError, UnavailableError, UsageError
from switchmark.host import place
from switchmark.host.container_networks.probe import Arrival
from switchmark.host.containers import docker_daemon, podman
from switchmark.host.containers.docker_daemon import Daemon, run_docker
from switchmark.host.kernel import namespaces, procfs
from switchmark.host.kernel.procfs import ProcessIdentity
from switchmark.host.network.counted import KnownNetwork, Relay
from switchmark.host.network.handle import NamespaceHandle, namespace_inode_of
from switchmark.host.network.probe import Probed, probe
from switchmark.host.process_output import stdout_of
from switchmark.host.programs import not_installed
from switchmark.host.undo.entries import DockerObject, NetworkNamespace
from switchmark.model.capabilities import (
    Availability,
    SwitchOption,
    available,
    unavailable,
)
from switchmark.model.ports import NetworkEnd, SwitchPort
from switchmark.switch.support import overlay
from switchmark.switch.support.docker_host import (
    PODMAN,
    docker_host,
    end_docker_host,
    open_host,
)
from switchmark.switch.support.in_kernel import veth_lines
from switchmark.switch.support.network import (
    NETWORK,
    PROBED_PORT,
    Host,
    NetworkSwitch,
    read_address,
)

UPLINK, OUTSIDE = "uplink", "outside"
HOST_ADDRESS, OUTSIDE_ADDRESS = "192.0.2.2", "192.0.2.1"
PROXY = "proxy"
PROXY_PROGRAM = "docker-proxy"
PROXY_FORGETS_S = 90  # a client of UDP, after the last answer (UDPConnTrackTimeout of moby)
LONGEST_PROXIED_S = 60
CLIENT_PORT, SERVER_PORT = 17000, 17001  # UDP ports of the engine
DRIVERS = ("bridge", "user-bridge", "macvlan", "ipvlan", "host")
BRIDGES = ("bridge", "user-bridge")
# The ports that the applications of the bench and the generators listen on.
PUBLISHED_PORTS = (PROBED_PORT, SERVER_PORT, 18000, 18001)
DOCKER_PROGRAMS = (("docker", "docker.io"), ("dockerd", "docker.io"))
PODMAN_PROGRAMS = (("podman", "podman"), ("conmon", "conmon"))
SUBNET = "10.78.0.0/16"
DEFAULT_SUBNET = "10.79.0.0/16"  # for docker0 in two hosts
DOCKER0, BRIDGE_NAME = "docker0", "smbridge"
AT_ONCE = 4  # containers that start at the same time
KERNEL_OPTIONS = {"ipvlan": "CONFIG_IPVLAN", "macvlan": "CONFIG_MACVLAN"}


@dataclass(frozen=True, slots=True)
class Part:
    """The addresses that the daemon of one of two hosts gives out of a common subnet."""

    subnet: IPv4Network
    range: IPv4Network
    gateway: str


def _part(subnet: str, side: int) -> Part:
    """Return the half of a subnet that the daemon of a host uses."""
    whole = IPv4Network(subnet)
    half = list(whole.subnets())[side]
    return Part(whole, half, str(half.network_address + 1))


class DockerNetwork(NetworkSwitch):
    """A network of a private Docker daemon; each end is a container."""

    daemons: list[Daemon]  # one for each host

    name = "docker-network"
    capabilities = replace(
        NETWORK,
        overhead_s=2.0,
        cannot_reconfigure="its daemon attaches and detaches containers",
        description="network of a private Docker daemon",
        options=(
            SwitchOption(
                "engine",
                "the container engine: `docker` or `podman`",
                "docker",
                ("docker", "podman"),
            ),
            SwitchOption(
                "driver",
                "`bridge` (docker0), `user-bridge` (a bridge of `docker network create`), "
                "`macvlan`, `ipvlan`, or `host`, which a client outside the host reaches",
                "bridge",
                DRIVERS,
            ),
            SwitchOption(
                "publish",
                "a client outside the host reaches the container at a published port: `nat` by "
                "address translation, `proxy` by the program docker-proxy, which needs `iptables: "
                "off`",
                "off",
                ("off", "nat", PROXY),
            ),
            SwitchOption(
                "iptables",
                "the daemon makes firewall rules and address translation",
                "on",
                ("on", "off"),
            ),
            overlay.OPTION,
        ),
    )

    def configure(self, options: dict[str, str]) -> None:  # type: ignore[override]
        """See `WithOptions`. Raises UsageError for options that contradict each other."""
        super().configure(options)
        publish, driver = self.option("publish"), self.option("driver")
        if publish != "off" and driver not in BRIDGES:
            raise UsageError(
                f"docker-network: switch option publish is {publish}, and driver {driver} cannot "
                "publish ports",
                remedy="use driver: bridge or user-bridge, or leave publish out",
            )
        if self._is_podman:
            self._check_podman(publish)
        if publish == "nat" and self.option("iptables") == "off":
            raise UsageError(
                "docker-network: switch option publish is nat, which is made by iptables",
                remedy="use iptables: on, or publish: off",
            )
        if publish == PROXY and self.option("iptables") == "on":
            raise UsageError(
                "docker-network: switch option publish is proxy, and with iptables: on the kernel "
                "translates the addresses past the proxy",
                remedy="use iptables: off, or publish: nat",
            )
        if self.option(overlay.OPTION.name) != overlay.OFF:
            self._check_overlay(driver, publish)

    def _check_podman(self, publish: str) -> None:
        if self.option("iptables") == "off":
            raise UsageError(
                "docker-network: switch option iptables is off, and Podman always makes firewall "
                "rules",
                remedy="use iptables: on, or engine: docker",
            )
        for name, value in (("publish", publish), ("overlay", self.option(overlay.OPTION.name))):
            if value not in ("off", "nat"):
                raise UsageError(
                    f"docker-network: switch option {name} is {value}, which the bench makes with "
                    "Docker only",
                    remedy=f"use engine: docker, or another value of {name}",
                )

    def _check_overlay(self, driver: str, publish: str) -> None:
        if driver not in BRIDGES:
            raise UsageError(
                f"docker-network: switch option overlay joins bridges, and driver is {driver}",
                remedy="use driver: bridge or user-bridge, or overlay: off",
            )
        if publish != "off":
            raise UsageError(
                "docker-network: switch option overlay joins two containers, and with publish the "
                "client is outside the hosts",
                remedy="use publish: off, or overlay: off",
            )

    @property
    def _is_podman(self) -> bool:
        return self.option("engine") == "podman"

    def availability(self) -> Availability:
        """Available with the programs of the engine, and the means of a private host."""
        programs = PODMAN_PROGRAMS if self._is_podman else DOCKER_PROGRAMS
        problem = (
            place.missing(*NEEDS)
            or next(filter(None, (not_installed(*program) for program in programs)), None)
            or not_installed("ip", "iproute2")
            or not_installed("nsenter", "util-linux")
            or not_installed("iptables", "iptables")
            or no_busybox()
            or (not_installed(PROXY_PROGRAM, "docker.io") if self._has_proxy else None)
        )
        if problem is not None:
            return problem
        if self._is_podman:
            version = podman.version()
            if version is None:
                return unavailable("podman does not print its version", remedy="reinstall podman")
            return available(f"Podman {version}")
        found = re.search(r"\d+(\.\d+)+", stdout_of(["dockerd", "--version"]) or "")
        if found is None:
            return unavailable("dockerd does not print its version", remedy="reinstall docker.io")
        return available(f"Docker {found[0]}")

    @property
    def _has_proxy(self) -> bool:
        return self.option("publish") == PROXY

    @property
    def daemon(self) -> Daemon:
        """The daemon of the first host."""
        return self.daemons[0]

    def open_host(self, number: int) -> Host:
        """Take a host of the session whose daemon has the chosen options. The daemon has its
        files in many places, so the machine's files are not read-only there."""
        host = docker_host(self.session, self.daemon_options(number), number)
        self.daemons = [*(self.daemons if number else []), host.daemon]
        return open_host(self.session, host)

    def daemon_options(self, number: int = 0) -> tuple[str, ...]:
        """Return the options of the daemon's command line that the chosen options ask for."""
        if self._is_podman:
            return PODMAN
        iptables = "true" if self.option("iptables") == "on" else "false"
        chosen = self.option(overlay.OPTION.name)
        of_bridge: tuple[str, ...] = ()
        if chosen != overlay.OFF and self.option("driver") == "bridge":
            part = _part(DEFAULT_SUBNET, number)
            of_bridge = (
                f"--bip={part.gateway}/{part.subnet.prefixlen}",
                f"--fixed-cidr={part.range}",
                f"--mtu={overlay.inner_mtu_bytes(chosen)}",
            )
        return (
            f"--iptables={iptables}",
            f"--ip-masq={iptables}",
            "--ip6tables=false",
            f"--userland-proxy={'true' if self._has_proxy else 'false'}",
            *of_bridge,
        )

    def prepare_host(self, host: Host) -> None:
        """Make the uplink of this trial."""
        devices = (UPLINK, *overlay.OVERLAYS, *overlay.UNDERLAYS)
        lines = [f"link del dev {device}" for device in devices]
        self.resources.at_end(partial(host.namespace.batch, "ip", lines, force=True))
        host.namespace.batch(
            "ip",
            [
                *veth_lines([(UPLINK, OUTSIDE)]),
                f"address add {HOST_ADDRESS}/24 dev {UPLINK}",
                f"route add default via {OUTSIDE_ADDRESS} dev {UPLINK}",
            ],
        )
        # The entry of each in the ledger; None for a container of Podman.
        self._containers: dict[str, tuple[Daemon, int | None]] = {}

    def make_ends(self, requested: Sequence[SwitchPort]) -> list[NetworkEnd]:
        """Start a container for each port, or a client outside and a container."""
        driver, publish = self.option("driver"), self.option("publish")
        networks = [self._make_network(driver, number) for number in range(len(self.hosts))]
        network = networks[0]
        if self.overlay is not None:
            docker0 = driver == "bridge"
            self.overlay.join_bridges([DOCKER0 if docker0 else BRIDGE_NAME] * len(self.hosts))
        if publish == "off" and driver != "host":
            numbers = [port.index for port in requested]
            with ThreadPoolExecutor(AT_ONCE) as starting:  # a start takes some 0.4 s
                begun = starting.map(
                    lambda number: self._container(number, ["--network", network]), numbers
                )
            self.resources.at_end(self._remove_containers)
            return list(begun)
        if len(requested) > 2:
            option = "publish" if publish != "off" else "driver: host"
            raise UsageError(
                f"docker-network: {option} has one server, and there are "
                f"{len(requested) // 2} pairs",
                remedy="use pairs: 1",
            )
        client = self._client_outside()
        options = ["--network", network]
        if driver != "host":
            for port in PUBLISHED_PORTS:
                options += ["-p", f"{port}:{port}/tcp", "-p", f"{port}:{port}/udp"]
        server = self._container(1, options)
        self.resources.at_end(self._remove_containers)
        if self._has_proxy:
            self._relay, self._probed = self._find_proxy(), probe_between(client, server)
            client = replace(
                client, reached_at=self._probed.source, reached_port=self._probed.source_port
            )
        return [client, server]

    def _find_proxy(self) -> Relay:
        """Return the processes of the proxy in the host. Raises UnavailableError."""
        netns = self.hosts[0].namespace.name
        inode = (namespaces.NETNS_DIR / netns).stat().st_ino
        pids = [
            one.pid
            for one in procfs.session_processes(self.session.id)
            if Path(f"/proc/{one.pid}/comm").read_text().strip() == PROXY_PROGRAM
            and namespace_inode_of(one.pid) == inode
        ]
        if not pids:
            raise UnavailableError(f"docker-network: the daemon has started no {PROXY_PROGRAM}")
        return Relay(PROXY_PROGRAM, tuple(pids), netns)

    def probe_way(self, near: NetworkEnd, far: NetworkEnd) -> tuple[Arrival | None, Arrival | None]:
        """See `NetworkSwitch`. A proxy answers only who began, so it was probed when the ends were
        made."""
        if not self._has_proxy:
            return super().probe_way(near, far)
        facts = self._probed
        return Arrival(facts.source, facts.ttl_forth), Arrival(HOST_ADDRESS, facts.ttl_back)

    def between(self) -> tuple[str, ...]:
        """See `NetworkSwitch`."""
        return (PROXY_PROGRAM,) if self._has_proxy else super().between()

    def network(self) -> KnownNetwork:
        """See `HasNetwork`; with a proxy, the traffic must cross it."""
        network = super().network()
        return replace(network, relay=self._relay) if self._has_proxy else network

    def fault(self) -> str | None:
        """See `NetworkSwitch`; also the end of the proxy, which ends with its daemon."""
        if self._has_proxy and not all(map(ProcessIdentity.of, self._relay.pids)):
            return f"{PROXY_PROGRAM} has ended"
        return super().fault()

    def process_ids(self) -> Sequence[int]:
        """The processes of the proxy, if it forwards."""
        running = self._resources is not None and self._has_proxy
        return self._relay.pids if running else ()

    def _make_network(self, driver: str, host: int) -> str:
        """Make the network of the containers in a host; return its name."""
        if driver in ("bridge", "host"):
            return self._default_network(driver)
        name, daemon = f"sm{self.session.id}", self.daemons[host]
        kind = "bridge" if driver == "user-bridge" else driver
        options = ["-o", f"parent={UPLINK}"] if driver in KERNEL_OPTIONS else []
        if self.overlay is not None:
            part = _part(SUBNET, host)
            options += [
                *("--ip-range", str(part.range), "--gateway", part.gateway),
                *("-o", f"com.docker.network.driver.mtu={self.overlay.mtu_bytes}"),
                *("-o", f"com.docker.network.bridge.name={BRIDGE_NAME}"),
            ]
        command = ["network", "create", "-d", kind, "--subnet", SUBNET, *options, name]
        self.resources.at_end(partial(self._remove_network, daemon, name))
        try:
            run_docker(self.session, daemon, *command)
        except SwitchmarkError as error:
            raise self._cannot(
                driver, error, f"see `{self.option('engine')} network create`"
            ) from None
        return name

    def _default_network(self, driver: str) -> str:
        return "podman" if self._is_podman and driver == "bridge" else driver

    def _remove_network(self, daemon: Daemon, name: str) -> None:
        """Remove a network; a daemon that cannot do it gives way to a new one."""
        try:
            run_docker(self.session, daemon, "network", "rm", name)
        except SwitchmarkError as error:
            if "No such network" not in str(error) and "network not found" not in str(error):
                end_docker_host(self.session, daemon)

    def _container(self, number: int, options: Sequence[str]) -> NetworkEnd:
        """Start a container that holds a network namespace, and name the namespace."""
        session, name = self.session, f"sm{self.session.id}e{number}"
        driver, daemon = self.option("driver"), self.daemons[number % len(self.daemons)]
        # Containers of Podman are processes of the session; its storage is a folder of the session.
        entry = None
        if not self._is_podman:
            entry = self.resources.note(DockerObject("container", name, daemon.host))
        self._containers[name] = (daemon, entry)
        try:
            pid = docker_daemon.hold_network(session, daemon, name, HOLD, options)
        except SwitchmarkError as error:
            raise self._cannot(driver, error) from None
        self.resources.note(NetworkNamespace(name))
        namespaces.name_namespace(name, pid)
        is_host = driver == "host"
        device = UPLINK if is_host else "eth0"
        mac, address = read_address(session, name, device)
        reached_at = "" if self.option("publish") == "off" else HOST_ADDRESS
        return NetworkEnd(name, device, mac, address, reached_at=reached_at, is_host=is_host)

    def _client_outside(self) -> NetworkEnd:
        """Make the namespace at the other end of the host's uplink."""
        name = self.make_end_namespace(f"sm{self.session.id}e0")
        host = self.hosts[0].namespace
        host.batch("ip", [f"link set dev {OUTSIDE} netns {name} name eth0"])
        lines = [f"address add {OUTSIDE_ADDRESS}/24 dev eth0", "link set dev eth0 up"]
        self.session.host.run(["ip", "-n", name, "-batch", "-"], input_text="\n".join(lines) + "\n")
        mac, address = read_address(self.session, name, "eth0")
        return NetworkEnd(name, "eth0", mac, address)

    def _cannot(
        self, driver: str, error: SwitchmarkError, remedy: str = "correct the cause that it names"
    ) -> UnavailableError:
        begin = "Error: " if self._is_podman else "Error response from daemon: "
        _, is_daemons, text = str(error).rpartition(begin)
        if not is_daemons:
            return UnavailableError(error.refusal.about(f"docker-network: driver {driver}: "))
        if driver in KERNEL_OPTIONS and ("failed to create the" in text or "not supported" in text):
            remedy = f"use a kernel with {KERNEL_OPTIONS[driver]}, or another driver"
        return UnavailableError(f"docker-network: driver {driver}: {text}", remedy=remedy)

    def _remove_containers(self) -> None:
        """Remove all containers of a daemon by one command, which is faster than one by one."""
        for daemon in self.daemons:
            entries = {
                name: entry for name, (of, entry) in self._containers.items() if of is daemon
            }
            with suppress(SwitchmarkError):  # the entries in the ledger remove them
                if entries:
                    run_docker(self.session, daemon, "rm", "-f", *entries)
                    for entry in entries.values():
                        if entry is not None:
                            self.session.ledger.strike(entry)

    def details(self) -> dict[str, str]:
        """The daemon, the options, and the state of the host."""
        return {
            "version": self.availability().version or "",
            "datapath": "kernel, senders' softirq: as the daemon set it up",
            "connect_mode": self.mode.value,
            **self.option_details(),
            "mtu": self.mtu,
            "client": "outside the host" if self.ends[1].is_host or self.ends[1].reached_at
                      else "in a container",
            **self.overlay_details(),
            **self.network_state(),
        }  # fmt: skip


def probe_between(client: NetworkEnd, server: NetworkEnd) -> Probed:
    """Send datagrams between the ports of the engine, by which a proxy knows the client for as long
    as it answers. Raises TrialFailed."""
    ends = [
        (NamespaceHandle.open(namespaces.NETNS_DIR / end.netns, end.netns),
         end.ip.partition("/")[0], port)
        for end, port in ((client, CLIENT_PORT), (server, SERVER_PORT))
    ]  # fmt: skip
    try:
        return probe(ends[0], ends[1], (HOST_ADDRESS, SERVER_PORT))
    finally:
        for handle, _, _ in ends:
            handle.close()
