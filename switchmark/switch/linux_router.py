"""`linux-router`: the kernel as an IP router in a private network namespace.

Ports have the addresses of the neutral table, neighbours are static, and routes lie in the main
table. An access control list is nftables in the forward hook, without connection tracking.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from switchmark.errors import Refusal, UsageError
from switchmark.function.support.table import FunctionTable
from switchmark.host import place
from switchmark.host.place import Facility
from switchmark.host.programs import not_installed
from switchmark.model.capabilities import Availability, Capabilities, available
from switchmark.model.changes import TableChange
from switchmark.model.functions import FunctionEntries, FunctionSupport, TableMemory
from switchmark.model.ports import ConnectMode, PortKind, SwitchCounters
from switchmark.model.taxonomy import RTC, SELF, STRUCTURED, Taxonomy
from switchmark.switch.support import kernel_routes, nft
from switchmark.switch.support.in_kernel import InKernelSwitch
from switchmark.switch.support.options import WithOptions
from switchmark.switch.support.ports import device_of
from switchmark.switch.support.table_memory import MemoryBefore
from switchmark.switch.support.tools import kernel_release


class LinuxRouter(WithOptions, InKernelSwitch):
    """The kernel's routing table in a private network namespace."""

    name = "linux-router"
    capabilities = Capabilities(
        port_kinds=(PortKind.VETH, PortKind.TAP),
        connect_modes=(ConnectMode.ROUTE,),
        polling=False,
        in_kernel=True,
        keeps_offloads=True,
        hides_tags=True,
        runs_in=("host", "netns"),
        changes_tables=("route", "acl"),
        cable_ends=(),
        uncabled="functions are tested on one host only",
        taxonomy=Taxonomy(SELF, STRUCTURED, RTC, "low", "C", "IP router of the kernel"),
        description="IP router of the kernel; forwards in the softirq of the senders",
        options=(nft.ACL_ENGINE,),
        functions={
            "route": FunctionSupport(
                1_000_000, "more were not tried",
                version=nft.TRIED,
            ),
            **nft.SUPPORT,
        },
        functions_not_built={
            "vlan": "vlan is defined on base forward, for pairs of ports",
            "mirror": "mirror is defined on base forward, see linux-bridge",
            "vxlan": "VXLAN is built on base forward, in linux-bridge",
        },
    )  # fmt: skip
    function_table: FunctionTable | None = None
    _filters: nft.Filters
    _load_time_s = 0.0
    _memory: TableMemory | None = None

    def availability(self) -> Availability:
        """Available where network namespaces can be made; the version is the kernel's."""
        return (
            place.missing(Facility.NETWORK_NAMESPACE)
            or not_installed("ip", "iproute2")
            or not_installed("nft", "nftables")
            or available(f"Linux {kernel_release()}")
        )

    def connect(self) -> None:
        """Give the ports their addresses, and load routes and rules."""
        table = self._table()
        devices = self._devices()
        kernel_routes.write_settings(
            self.namespace, kernel_routes.settings_of(list(devices.values()), table.ip_version)
        )
        self.namespace.batch("ip", list(kernel_routes.address_lines(table, devices)))
        self._filters = nft.Filters.of(
            self.namespace, table, self.option("acl_engine"), list(devices.values()), bridged=False
        )
        routes = kernel_routes.RouteLoad.of(self.namespace, table, devices)
        memory = MemoryBefore()
        begun = time.monotonic()
        routes.load()
        self._filters.load()
        self._load_time_s = time.monotonic() - begun
        self._memory = memory.after()

    def _table(self) -> FunctionTable:
        if self.function_table is None:
            raise UsageError(
                f"{self.name} only routes, and cannot forward frames unchanged",
                remedy="use function: route",
            )
        return self.function_table

    def _devices(self) -> Mapping[int, str]:
        return {port.index: device_of(port) for port in self.ports}

    def table_refusal(self, table: FunctionTable) -> Refusal | None:
        """See `RefusesTables`."""
        return nft.refusal(table, self.option("acl_engine"), bridged=False)

    def function_entries(self) -> FunctionEntries:
        """Count routes, rules, elements of sets and policers in the kernel."""
        table = self._table()
        filters = self._filters.entries(self._load_time_s)
        written = kernel_routes.announced_routes(table)
        routes = kernel_routes.routes_read_back(self.namespace, table.ip_version)
        return FunctionEntries(
            {kernel_routes.MAIN: written, **filters.announced},
            {kernel_routes.MAIN: routes, **filters.read_back},
            self._load_time_s,
            self._memory,
        )

    def table_changes(self) -> Sequence[TableChange]:
        """Return the changes of routes, and of rules if there are some."""
        table = self._table()
        routes = kernel_routes.route_changes(self.namespace, table, self._devices())
        return [routes, *self._filters.table_changes(table)]

    def counters(self) -> SwitchCounters:
        """Return the devices' counters, with the frames that policers dropped."""
        counters = super().counters()
        return self._filters.with_policed(counters, [port.index for port in self.ports])

    def fault(self) -> str | None:
        """Return why it no longer forwards: a port has gone. None while all are there."""
        links = self.namespace.query("ip", "link", "show")
        up = {link["ifname"] for link in links if "UP" in link["flags"]}
        lost = [device for device in map(device_of, self.ports) if device not in up]
        return f"{', '.join(lost)} is gone or down" if lost else None

    def details(self) -> dict[str, str]:
        """The settings as the kernel reports them."""
        version = self._table().ip_version
        forwarding = "net.ipv4.ip_forward" if version == 4 else "net.ipv6.conf.all.forwarding"
        return {
            "version": f"Linux {kernel_release()}",
            "datapath": "kernel, IP forwarding in the senders' softirq",
            "connect_mode": self.mode.value,
            "neighbours": "static",
            "connection_tracking": "off",
            forwarding: self.namespace.sysctl(forwarding),
            **self.option_details(),
        }
