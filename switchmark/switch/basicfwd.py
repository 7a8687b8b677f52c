"""`basicfwd`: DPDK port-to-port forwarding, the simplest polling switch.

The engine in its `forwarder` role, with one process for each pair, moves every frame of a
vhost-user port to the other port of the pair. Pairs are assigned to the cores in turn. If pairs
share a core, each process yields it when it finds no frame.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from switchmark.engine.binary import WITHOUT_DPDK, engine_version, find_engine, has_dpdk
from switchmark.errors import TrialFailed, UnavailableError
from switchmark.host.host import Session
from switchmark.model.capabilities import (
    Availability,
    Capabilities,
    available,
    unavailable,
    unavailable_for,
)
from switchmark.model.choices import ETHERNET_OVERHEAD_BYTES
from switchmark.model.page_size import EITHER
from switchmark.model.ports import ConnectMode, PortKind, SwitchCounters, SwitchPort
from switchmark.model.taxonomy import RTC, SELF, STRUCTURED, Taxonomy
from switchmark.switch.support.cable import CABLE_DRIVER, DPDK_ENDS, AtInterface, adopt_ports
from switchmark.switch.support.forwarder import Pair, ask, report_soon
from switchmark.switch.support.options import WithOptions, WithProgram
from switchmark.switch.support.pages import WithPages
from switchmark.switch.support.ports import check_request, device_of, require, socket_of
from switchmark.switch.support.private import Resources, WithResources, check_socket_path
from switchmark.switch.support.rights import MAPPED, rights_of

MEMORY_MB = 128  # for each process
INTERVAL_S = 1.0  # between reports without a request
REPORT_DEADLINE_S = 15.0  # long, because a report may be late; an ended process is noticed at once


def only_pci(ports: Iterable[SwitchPort]) -> list[str]:
    """Return the EAL arguments by which DPDK opens these PCI functions and no others."""
    return [
        word for port in ports if port.pci is not None for word in ("--eal", f"--allow={port.pci}")
    ]


class BasicForwarder(WithProgram, WithOptions, WithPages, WithResources):
    """The engine as a port-to-port forwarder."""

    name = "basicfwd"
    capabilities = Capabilities(
        port_kinds=(PortKind.VHOST_USER,),
        application_ports=(PortKind.VETH,),
        linux_capabilities={PortKind.VHOST_USER: (), PortKind.VETH: MAPPED},
        connect_modes=(ConnectMode.CROSS_CONNECT,),
        polling=True,
        multi_core=True,
        runs_in=("host", "netns", "lxc", "docker"),
        page_sizes=EITHER,
        takes_program=True,
        cable_ends=DPDK_ENDS,
        options=(CABLE_DRIVER,),
        cannot_reconfigure="its ports are fixed at its start, and it has no table",
        taxonomy=Taxonomy(SELF, STRUCTURED, RTC, "low", "C", "port-to-port forwarding"),
        description="DPDK port-to-port forwarding by the traffic engine, vhost-user",
    )

    def __init__(self) -> None:
        self._pairs: list[Pair] = []

    def availability(self) -> Availability:
        """Available if the engine is built, with DPDK."""
        found = self._check_engine()
        if found.available and not has_dpdk(self._engine()):
            return unavailable(f"{self._engine()} is built without DPDK", remedy=WITHOUT_DPDK)
        return found

    def _engine(self) -> Path:
        """Return the build of the engine that forwards: the chosen program, otherwise that of the
        bench. Raises `UnavailableError`."""
        return self.chosen_program or find_engine()

    def _check_engine(self) -> Availability:
        try:
            engine = self._engine()
        except UnavailableError as error:
            return unavailable_for(error)
        version = engine_version(engine)
        if version is None:
            remedy = "choose another `program`" if self.chosen_program else "build the engine again"
            return unavailable(f"{engine} does not run", remedy=remedy)
        return available(version)

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Start a forwarder for each pair; each waits for its peers."""
        require(self.name, self.availability())
        check_request(self.name, self.capabilities, ports, mode)
        pairs = [(ports[k], ports[k + 1]) for k in range(0, len(ports), 2)]
        self._check_means(len(pairs))
        self._idle = "poll" if len(pairs) <= len(cores) else "yield"
        self._cores = tuple(cores)
        self._resources = Resources(session)
        try:
            env, netns = self._move_in(self._resources, ports)
            for k, pair in enumerate(pairs):
                core = cores[k % len(cores)]
                more = [*self._more_arguments(f"{session.id}f{k}"), *only_pci(pair)]
                process = self._resources.spawn(
                    [*self._arguments(pair, core), *more],
                    cores=[core],
                    env=env,
                    netns=netns,
                    rights=rights_of(self, ports),
                )
                self._pairs.append(Pair(process, (self._end_of(pair[0]), self._end_of(pair[1]))))
        except BaseException:
            self.stop()
            raise

    def hugepages_mb(self, ports: Sequence[SwitchPort], mode: ConnectMode) -> list[int]:  # noqa: ARG002
        """See `TakesHugepages`."""
        return [MEMORY_MB] * (len(ports) // 2) if self.capabilities.page_sizes else []

    # Forwarders over other ports override these:

    role = "forwarder"  # role of the engine

    def _check_means(self, pairs: int) -> None:
        """Raise `UnavailableError` if the machine has too little memory for so many pairs."""
        self.require_memory(pairs * MEMORY_MB)

    def _move_in(
        self, resources: Resources, ports: Sequence[SwitchPort]
    ) -> tuple[dict[str, str], str | None]:
        """Make the common resources; return the processes' environment variables and namespace."""
        namespace = adopt_ports(resources, ports)
        self._at_interface = AtInterface(namespace, ports)
        folder = resources.folder("basicfwd")
        return {"RUNTIME_DIRECTORY": str(folder)}, namespace.name if namespace else None

    def _end_of(self, port: SwitchPort) -> str:
        """Return the name of the port for messages."""
        return port.pci or (port.device or socket_of(port))

    def _port_of(self, port: SwitchPort) -> str:
        """Return the port as an argument of the engine's `--port`."""
        if port.pci is not None:
            return f"dpdk:pci={port.pci}"
        if port.device is not None:
            return f"dpdk:{self.option('cable_driver')}={device_of(port)}"
        return f"dpdk:vhost={check_socket_path(socket_of(port))},client"

    def _more_arguments(self, tag: str) -> list[str]:
        memory = ["--dpdk-memory-mb", str(MEMORY_MB)]
        memory += ["--dpdk-pages", "4KiB"] if self.small_pages else []
        return [*memory, "--eal", f"--file-prefix=sm{tag}"]

    def _arguments(self, pair: tuple[SwitchPort, SwitchPort], core: int) -> list[str]:
        frame_bytes = max(port.mtu_bytes for port in pair) + ETHERNET_OVERHEAD_BYTES
        ports = [word for port in pair for word in ("--port", self._port_of(port))]
        return [
            *(str(self._engine()), self.role, *ports),
            *("--start", "now", "--core", str(core), "--idle", self._idle),
            *("--interval", str(INTERVAL_S), "--frame-size", str(frame_bytes)),
        ]

    def wait_ports_up(self, timeout_s: float) -> None:
        """Wait until every forwarder has reported that both its ports have their peers."""

        def waiting() -> list[Pair]:
            return [pair for pair in self._pairs if not pair.up]

        def named() -> list[str]:
            sockets = [socket for pair in waiting() for socket in pair.sockets]
            return [f"one of {', '.join(sockets)}"] if sockets else []

        self.wait_for_peers(named, timeout_s, lambda: report_soon(some := waiting(), ask(some)))

    def wait_converged(self) -> None:
        """Return at once, since it learns nothing."""

    def counters(self) -> SwitchCounters:
        """Count all frames up to this call, by a report of each process.

        Raises `TrialFailed` if a process no longer reports."""
        deadline = time.monotonic() + REPORT_DEADLINE_S
        ready_pairs = [pair for pair in self._pairs if pair.ready]
        now_ns = ask(ready_pairs)
        while (problem := self.alive()) is not None or not report_soon(ready_pairs, now_ns):
            if problem is not None or time.monotonic() > deadline:
                raise TrialFailed(f"{self.name}: {problem or 'a forwarder no longer reports'}")
        ports = {}
        for k, pair in enumerate(self._pairs):
            ports[2 * k], ports[2 * k + 1] = pair.counters()
        return self._at_interface.added(SwitchCounters(ports))

    def alive(self) -> str | None:
        """Return why a forwarder has ended; None while all run."""
        if self._resources is None:
            return "not started"
        ended = [pair.death() for pair in self._pairs if pair.process.poll() is not None]
        return ended[0] if ended else None

    def process_ids(self) -> Sequence[int]:
        """The processes of all forwarders."""
        return tuple(pair.process.pid for pair in self._pairs)

    def details(self) -> dict[str, str]:
        """Versions and placement."""
        ready = self._pairs[0].ready if self._pairs else None
        return {
            "version": str(self.availability().version),
            "dpdk_version": (ready and ready.dpdk_version) or "unknown",
            "datapath": "DPDK vhost-user, one process for each pair",
            "connect_mode": ConnectMode.CROSS_CONNECT.value,
            "cores": ",".join(map(str, self._cores)),
            "idle": self._idle,
            **self.memory_details(MEMORY_MB * len(self._pairs)),
            **self.option_details(),
        }

    def stop(self) -> None:
        """End every forwarder."""
        super().stop()
        self._pairs.clear()
