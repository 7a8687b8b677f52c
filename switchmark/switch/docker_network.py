"""`docker-network`: the networks of a Docker daemon of the bench, in a private host.

Containers of the bench's image hold the network namespaces; applications run in these. With a
published port, or in the host's network, the first application is outside the host, at the other
end of its uplink, as a client on another machine would be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial

from switchmark.environment.docker import HOLD
from switchmark.environment.support.rootfs import no_busybox
from switchmark.errors import SwitchmarkError, UnavailableError, UsageError
from switchmark.host import place
from switchmark.host.container_networks.private_host import PrivateHost
from switchmark.host.containers import docker_daemon
from switchmark.host.containers.docker_daemon import Daemon, run_docker
from switchmark.host.kernel import namespaces
from switchmark.host.place import Facility
from switchmark.host.process_output import parsing, stdout_of
from switchmark.host.programs import not_installed
from switchmark.host.undo.entries import DockerObject, NetworkNamespace
from switchmark.model.capabilities import (
    Availability,
    SwitchOption,
    available,
    unavailable,
)
from switchmark.model.ports import NetworkEnd, SwitchPort
from switchmark.switch.support.docker_host import docker_host, end_docker_host, open_host
from switchmark.switch.support.in_kernel import veth_lines
from switchmark.switch.support.network import NETWORK, PROBED_PORT, NetworkSwitch, read_address
from switchmark.switch.support.private import Namespace

UPLINK, OUTSIDE = "uplink", "outside"
HOST_ADDRESS, OUTSIDE_ADDRESS = "192.0.2.2", "192.0.2.1"
DRIVERS = ("bridge", "user-bridge", "macvlan", "ipvlan", "host")
BRIDGES = ("bridge", "user-bridge")
# The ports that the applications of the bench and the generators listen on.
PUBLISHED_PORTS = (PROBED_PORT, 17001, 18000, 18001)
NEEDS = (Facility.NETWORK_NAMESPACE, Facility.CONTROL_GROUPS)
SUBNET = "10.78.0.0/16"
AT_ONCE = 4  # containers that start at the same time
KERNEL_OPTIONS = {"ipvlan": "CONFIG_IPVLAN", "macvlan": "CONFIG_MACVLAN"}


class DockerNetwork(NetworkSwitch):
    """A network of a private Docker daemon; each end is a container."""

    daemon: Daemon

    name = "docker-network"
    capabilities = replace(
        NETWORK,
        overhead_s=2.0,
        cannot_reconfigure="its daemon attaches and detaches containers",
        description="network of a private Docker daemon",
        options=(
            SwitchOption(
                "driver",
                "`bridge` (docker0), `user-bridge` (a bridge of `docker network create`), "
                "`macvlan`, `ipvlan`, or `host`, which a client outside the host reaches",
                "bridge",
                DRIVERS,
            ),
            SwitchOption(
                "publish",
                "`nat`: a client outside the host reaches the container at a published port, by "
                "address translation",
                "off",
                ("off", "nat"),
            ),
            SwitchOption(
                "iptables",
                "the daemon makes firewall rules and address translation",
                "on",
                ("on", "off"),
            ),
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
        if publish == "nat" and self.option("iptables") == "off":
            raise UsageError(
                "docker-network: switch option publish is nat, which is made by iptables",
                remedy="use iptables: on, or publish: off",
            )

    def availability(self) -> Availability:
        """Available with the programs of Docker, and the means of a private host."""
        problem = (
            place.missing(*NEEDS)
            or not_installed("docker", "docker.io")
            or not_installed("dockerd", "docker.io")
            or not_installed("ip", "iproute2")
            or not_installed("nsenter", "util-linux")
            or not_installed("iptables", "iptables")
            or no_busybox()
        )
        if problem is not None:
            return problem
        found = re.search(r"\d+(\.\d+)+", stdout_of(["dockerd", "--version"]) or "")
        if found is None:
            return unavailable("dockerd does not print its version", remedy="reinstall docker.io")
        return available(f"Docker {found[0]}")

    def open_host(self) -> tuple[Namespace, PrivateHost]:
        """Take the host of the session whose daemon has the chosen options. The daemon has its
        files in many places, so the machine's files are not read-only there."""
        host = docker_host(self.session, self.daemon_options())
        self.daemon = host.daemon
        return open_host(self.session, host)

    def daemon_options(self) -> tuple[str, ...]:
        """Return the options of the daemon's command line that the chosen options ask for."""
        iptables = "true" if self.option("iptables") == "on" else "false"
        return (
            f"--iptables={iptables}",
            f"--ip-masq={iptables}",
            "--ip6tables=false",
            "--userland-proxy=false",
        )

    def prepare_host(self, host: Namespace) -> None:
        """Make the uplink of this trial."""
        self.resources.at_end(partial(host.batch, "ip", [f"link del dev {UPLINK}"], force=True))
        host.batch(
            "ip",
            [
                *veth_lines([(UPLINK, OUTSIDE)]),
                f"address add {HOST_ADDRESS}/24 dev {UPLINK}",
                f"route add default via {OUTSIDE_ADDRESS} dev {UPLINK}",
            ],
        )
        self._containers: dict[str, int] = {}  # with their entries in the ledger

    def make_ends(self, requested: Sequence[SwitchPort]) -> list[NetworkEnd]:
        """Start a container for each port, or a client outside and a container."""
        driver, publish = self.option("driver"), self.option("publish")
        network = self._make_network(driver)
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
        return [client, server]

    def _make_network(self, driver: str) -> str:
        """Make the network of the containers; return its name."""
        if driver in ("bridge", "host"):
            return driver
        name = f"sm{self.session.id}"
        kind = "bridge" if driver == "user-bridge" else driver
        options = ["-o", f"parent={UPLINK}"] if driver in KERNEL_OPTIONS else []
        command = ["network", "create", "-d", kind, "--subnet", SUBNET, *options, name]
        self.resources.at_end(partial(self._remove_network, name))
        try:
            run_docker(self.session, self.daemon, *command)
        except SwitchmarkError as error:
            raise self._cannot(driver, error) from None
        return name

    def _remove_network(self, name: str) -> None:
        """Remove a network; a daemon that cannot do it gives way to a new one."""
        try:
            run_docker(self.session, self.daemon, "network", "rm", name)
        except SwitchmarkError as error:
            if "No such network" not in str(error):
                end_docker_host(self.session, self.daemon)

    def _container(self, number: int, options: Sequence[str]) -> NetworkEnd:
        """Start a container that holds a network namespace, and name the namespace."""
        session, name = self.session, f"sm{self.session.id}e{number}"
        driver = self.option("driver")
        container = DockerObject("container", name, self.daemon.host)
        self._containers[name] = self.resources.note(container)
        try:
            pid = docker_daemon.hold_network(session, self.daemon, name, HOLD, options)
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
        self.namespace.batch("ip", [f"link set dev {OUTSIDE} netns {name} name eth0"])
        lines = [f"address add {OUTSIDE_ADDRESS}/24 dev eth0", "link set dev eth0 up"]
        self.session.host.run(["ip", "-n", name, "-batch", "-"], input_text="\n".join(lines) + "\n")
        mac, address = read_address(self.session, name, "eth0")
        return NetworkEnd(name, "eth0", mac, address)

    def _cannot(self, driver: str, error: SwitchmarkError) -> UnavailableError:
        text = str(error).rpartition("Error response from daemon: ")[2]
        remedy = "see `docker network create`"
        if driver in KERNEL_OPTIONS and ("failed to create the" in text or "not supported" in text):
            remedy = f"use a kernel with {KERNEL_OPTIONS[driver]}, or another driver"
        return UnavailableError(f"docker-network: driver {driver}: {text}", remedy=remedy)

    def _remove_containers(self) -> None:
        """Remove all containers by one command, which is faster than one by one."""
        with suppress(SwitchmarkError):  # the entries in the ledger remove them
            if self._containers:
                run_docker(self.session, self.daemon, "rm", "-f", *self._containers)
                for entry in self._containers.values():
                    self.session.ledger.strike(entry)

    def details(self) -> dict[str, str]:
        """The daemon, the options, and the state of the host."""
        driver = self.option("driver")
        inspected = run_docker(
            self.session, self.daemon, "network", "inspect",
            driver if driver in ("bridge", "host") else f"sm{self.session.id}",
        )  # fmt: skip
        with parsing("docker network inspect"):
            (network,) = json.loads(inspected)
            mtu = network["Options"].get("com.docker.network.driver.mtu", "of the driver")
        return {
            "version": self.availability().version or "",
            "datapath": "kernel, senders' softirq: as the daemon set it up",
            "connect_mode": self.mode.value,
            **self.option_details(),
            "mtu": str(mtu)[:20],
            "client": "outside the host" if self.ends[1].is_host or self.ends[1].reached_at
                      else "in a container",
            **self.network_state(),
        }  # fmt: skip
