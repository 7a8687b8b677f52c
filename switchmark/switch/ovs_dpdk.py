"""`ovs-dpdk`: Open vSwitch's userspace datapath with DPDK, vhost-user ports as client.

There is one polling thread (PMD) on each core of the switch, and the other threads of the daemon do
not use these cores. DPDK's memory has no files (`--in-memory`), so nothing stays in hugetlbfs, also
after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from switchmark.errors import UsageError
from switchmark.host import place
from switchmark.host.host import Session
from switchmark.model.capabilities import (
    Availability,
    SwitchOption,
    WrittenMemory,
    available,
    unavailable,
)
from switchmark.model.choices import STANDARD_MTU_BYTES
from switchmark.model.options import cores_refusal
from switchmark.model.page_size import EITHER
from switchmark.model.ports import (
    ConnectMode,
    PortCounters,
    PortKind,
    SwitchCounters,
    SwitchPort,
)
from switchmark.model.rights import Rights
from switchmark.switch.support.cable import CABLE_DRIVER, DPDK_ENDS, AtInterface, devargs
from switchmark.switch.support.ovs_caches import CACHE_OPTIONS, WithCaches
from switchmark.switch.support.ovs_instance import option
from switchmark.switch.support.ovs_memory import PoolPlan, plan_pools
from switchmark.switch.support.ovs_switch import COMMON, OvsSwitch
from switchmark.switch.support.pages import WithPages
from switchmark.switch.support.ports import lent_of, socket_of
from switchmark.switch.support.private import check_socket_path
from switchmark.switch.support.rights import MAPPED
from switchmark.switch.support.tools import memory_nodes, other_cores
from switchmark.switch.support.work import SwitchWork, parse_pmd_stats

EAL_OPTIONS = "--in-memory --no-telemetry"
SMALL_PAGES = "--no-huge --legacy-mem --no-shconf"
# `netdev` and `dummy` are the same datapath (dpif-netdev). They differ in the ports of type
# `internal`, to which no frame of a measurement goes: those of `netdev` are taps, and need
# CAP_NET_ADMIN and a network namespace; those of `dummy` are objects of the daemon.
NETDEV, DUMMY = "netdev", "dummy"

PROFILES: dict[str, dict[str, str]] = {
    "none": {},
    "balanced": {"rxq_affinity": "ingress"},
    "low-latency": {"rxq_affinity": "all", "pmd_maxsleep_us": "0"},
}
OPTIONS = (
    *CACHE_OPTIONS,
    SwitchOption(
        "pmd_maxsleep_us", "longest sleep of an idle PMD thread in us; 0: it only polls", "0",
        range=(0, 10_000),
    ),
    SwitchOption(
        "rxq_affinity",
        "`ingress`: only the queue of port 0 is on the first PMD core, the other queues share the "
        "other cores; `all`: every queue is pinned, in turn; `pairs`: pairs of ports are pinned in "
        "turn, so that each sender has a separate core if there are enough; `auto`: Open vSwitch "
        "assigns them",
        "auto",
        ("auto", "ingress", "all", "pairs"),
        least_cores={"ingress": 2},  # a core with a pinned queue polls no other queue
    ),
    CABLE_DRIVER,
    SwitchOption(
        "datapath",
        "type of the datapath: `dummy` is `netdev` with internal ports that are not network "
        "devices, and needs no network namespace; `auto`: `netdev` if both can be made",
        "auto",
        ("auto", NETDEV, DUMMY),
    ),
    SwitchOption(
        "profile",
        "sets several options: `balanced` (rxq_affinity ingress), "
        "`low-latency` (rxq_affinity all, pmd_maxsleep_us 0, tx-flush-interval 0)",
        "none",
        tuple(PROFILES),
        sets=PROFILES,
    ),
)  # fmt: skip


class OvsDpdk(WithPages, WithCaches, OvsSwitch):
    """Open vSwitch with DPDK."""

    name = "ovs-dpdk"
    main_core: int | None = None
    setting = "SWITCHMARK_OVS_DPDK_VSWITCHD"
    programs = ("/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk", "ovs-vswitchd")
    package = "openvswitch-switch-dpdk"
    needs = ()  # its `dummy` datapath needs nothing
    capabilities = replace(
        COMMON,
        port_kinds=(PortKind.VHOST_USER,),
        application_ports=(PortKind.VETH,),
        linux_capabilities={PortKind.VHOST_USER: ("net_admin",), PortKind.VETH: MAPPED},
        polling=True,
        overhead_s=0.35,
        multi_core=True,
        main_thread=True,
        cable_ends=DPDK_ENDS,
        page_sizes=EITHER,
        # The daemon writes to all its buffers.
        written_memory=WrittenMemory(switch_share=0.7, own_mb=28),
        description="Open vSwitch, userspace datapath with DPDK, vhost-user",
        options=OPTIONS,
    )

    def check_datapath(self, version: str) -> Availability:
        """Check that the daemon is built with DPDK."""
        if "DPDK" not in version:
            return unavailable(
                f"{self.program()} is built without DPDK ({version})",
                remedy=f"apt install {self.package}, or set {self.setting}",
            )
        if self.option("datapath") == NETDEV and (problem := place.missing(*OvsSwitch.needs)):
            return problem
        return available(version)

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """See `OvsSwitch`."""
        self.datapath = self._datapath_for(ports)
        super().start(session, ports, mode, cores)

    def _datapath_for(self, ports: Sequence[SwitchPort]) -> str:
        """Return the type of the datapath. Raises UsageError if it cannot have these ports."""
        chosen, cables = self.option("datapath"), [port.device for port in ports if port.device]
        if chosen == DUMMY and cables:
            raise UsageError(
                f"{self.name}: datapath {DUMMY} cannot have the device {cables[0]}",
                remedy=f"use datapath {NETDEV}",
            )
        if chosen != "auto":
            return chosen
        return NETDEV if cables or place.missing(*OvsSwitch.needs) is None else DUMMY

    def makes_devices(self) -> bool:
        """See `OvsSwitch`."""
        return self.datapath == NETDEV

    def daemon_arguments(self) -> Sequence[str]:
        """Return the argument that enables the datapath type `dummy`. Without a level it does not
        replace other types."""
        return () if self.datapath == NETDEV else ("--enable-dummy",)

    def daemon_rights(self) -> Rights | None:
        """See `OvsSwitch`; without devices the daemon needs no capability."""
        found = super().daemon_rights()
        return found if found is None or self.makes_devices() else replace(found, capabilities=())

    def set_witness_up(self, device: str) -> None:
        """See `OvsSwitch`."""
        if self.makes_devices():
            super().set_witness_up(device)
        else:
            self.instance.appctl("netdev-dummy/set-admin-state", device, "up")

    def witness_frames(self, device: str, counted: Mapping[str, PortCounters]) -> int:
        """See `OvsSwitch`; only the datapath counts the frames of a port that is not a device."""
        if self.makes_devices():
            return super().witness_frames(device, counted)
        return counted[device].tx_frames

    def daemon_cores(self, cores: Sequence[int]) -> Sequence[int]:
        """Return the core that was chosen for it; otherwise every allowed core without a PMD
        thread, or all allowed cores if there is none."""
        return other_cores(cores) if self.main_core is None else [self.main_core]

    def hugepages_mb(self, ports: Sequence[SwitchPort], mode: ConnectMode) -> list[int]:  # noqa: ARG002
        """See `TakesHugepages`."""
        return [self._plan_pools(ports).memory_mb * memory_nodes()]

    def _plan_pools(self, ports: Sequence[SwitchPort]) -> PoolPlan:
        mtu_bytes = max(port.mtu_bytes for port in ports)
        return plan_pools(len(ports), mtu_bytes, small_pages=self.small_pages)

    def before_launch(self) -> None:
        """Check that there is memory for the buffers, and adopt the interfaces of cables."""
        self.require_memory(self._pools.memory_mb * memory_nodes())
        namespace = self.instance.namespace if self.makes_devices() else None
        devices = [port.device for port in self._ports if port.device is not None]
        if namespace and devices:
            namespace.adopt(devices, lent_of(self._ports))
        self._at_interface = AtInterface(namespace, self._ports)

    def counters(self) -> SwitchCounters:
        """Return the datapath's counters, and the kernel's at the end of a cable."""
        return self._at_interface.added(super().counters())

    def settings(self) -> dict[str, str]:
        """Return the daemon's settings, also defaults that influence the figures."""
        self._pools = self._plan_pools(self._ports)
        return {
            "dpdk-init": "true",
            **self._memory_settings(),
            "per-port-memory": "true" if self._pools.per_port else "false",
            "pmd-cpu-mask": hex(sum(1 << core for core in self._cores)),
            "pmd-maxsleep": self.option("pmd_maxsleep_us"),
            **self.cache_settings(),
            "tx-flush-interval": "0",
            "pmd-auto-lb": "false",
        }

    def _memory_settings(self) -> dict[str, str]:
        """Return the settings of the daemon's memory. The daemon adds `--in-memory` itself. On
        small pages one memory serves all NUMA nodes, and its size is another option."""
        whole_mb = self._pools.memory_mb * memory_nodes()
        memory = ",".join([str(self._pools.memory_mb)] * memory_nodes())
        eal = f"{SMALL_PAGES} -m {whole_mb} --no-telemetry" if self.small_pages else EAL_OPTIONS
        extra = f"{self._pci} {eal} --file-prefix={self.instance.bridge}"
        if self.small_pages:
            return {"dpdk-extra": extra}
        return {
            "dpdk-extra": extra,
            "dpdk-socket-mem": memory,
            "dpdk-socket-limit": memory,
        }

    @property
    def _pci(self) -> str:
        """Return EAL's allow-list, so that DPDK opens only the ports of the switch."""
        devices = [f"-a {port.pci}" for port in self._ports if port.pci is not None]
        return " ".join(devices) or "--no-pci"

    def interface(self, port: SwitchPort) -> tuple[str, list[str]]:
        """Return the name and columns of an interface: a vhost-user client at the application's
        socket. For a device, a DPDK driver for PCI, or one that leaves the kernel's driver in
        place."""
        if port.cable or port.device is not None:
            where = devargs(self.name, port, self.option("cable_driver"))
            columns = ["type=dpdk", option("options:dpdk-devargs", where)]
        else:
            path = check_socket_path(socket_of(port))
            columns = ["type=dpdkvhostuserclient", option("options:vhost-server-path", path)]
        if port.mtu_bytes != STANDARD_MTU_BYTES:
            columns.append(f"mtu_request={port.mtu_bytes}")
        if (core := self._pinned_to(port)) is not None:
            columns.append(option("other_config:pmd-rxq-affinity", f"0:{core}"))
        return f"p{port.index}", columns

    def spare_interface(self, number: int) -> tuple[str, list[str]]:
        """Return a vhost-user client whose socket does not exist."""
        path = check_socket_path(self.instance.folder / f"n{number}")
        return f"n{number}", ["type=dpdkvhostuserclient", option("options:vhost-server-path", path)]

    def work(self) -> SwitchWork | None:
        """Return the cycles of the PMD threads."""
        return parse_pmd_stats(self.instance.appctl("dpif-netdev/pmd-stats-show"))

    def _pinned_to(self, port: SwitchPort) -> int | None:
        """Return the core of the port's queue, if it is pinned. Raises UsageError for too few
        cores."""
        affinity = self.option("rxq_affinity")
        if affinity == "auto":
            return None
        chosen = self._chosen or {}
        if refusal := cores_refusal(self.name, self.capabilities, chosen, len(self._cores)):
            raise UsageError(refusal)
        if affinity == "ingress" and port.index > 0:
            return None
        number = port.index // 2 if affinity == "pairs" else port.index
        return self._cores[number % len(self._cores)]

    def details(self) -> dict[str, str]:
        """See `OvsSwitch`; also the cores of threads, the ports that each polls, and the memory."""
        queues = [
            " ".join(line.split("pmd usage")[0].split())
            for line in self.instance.appctl("dpif-netdev/pmd-rxq-show").splitlines()
            if line.startswith(("pmd thread", "  port:", "  isolated : true"))
        ]
        return super().details() | {
            "pmd_cores": ",".join(map(str, self._cores)),
            "other_threads_cores": ",".join(map(str, self._daemon_cores)),
            "rxq_assignment": "; ".join(queues),
            "n_rxq": "1",
            **self.option_details(),
            **self.memory_details(self._pools.memory_mb * memory_nodes()),
            "buffer_pools": "one a port" if self._pools.per_port else "one shared",
        }
