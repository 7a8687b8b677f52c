"""`xdp-redirect`: a small BPF program at each port, before the kernel makes a packet of a frame.

It uses native XDP on veth. Each port has its copy of the program, which contains the numbers of the
port and of its peer. It counts the frame and redirects it through a map of devices. With
`static-mac` it first looks up the destination in a hash table of MAC addresses, and drops frames to
other addresses. The module assembles the program, so no compiler is needed.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from switchmark.errors import Refusal, UnavailableError, UsageError
from switchmark.function.support.table import FunctionTable
from switchmark.host import place
from switchmark.host.kernel import namespaces, netlink
from switchmark.host.kernel.netlink import VethEnd
from switchmark.host.kernel.procfs import map_kib
from switchmark.host.place import Facility
from switchmark.host.programs import not_installed
from switchmark.model.capabilities import Availability, Capabilities, available, unavailable
from switchmark.model.changes import Change, TableChange
from switchmark.model.functions import FunctionEntries, FunctionSupport, TableMemory
from switchmark.model.ports import ConnectMode, PortKind, SwitchCounters
from switchmark.model.taxonomy import MODULAR, RTC, STRUCTURED, Taxonomy
from switchmark.switch.support import bpf, bpf_calls, kernel_routes, xdp_acl
from switchmark.switch.support.base import refuse_impossible
from switchmark.switch.support.bpf import Instruction
from switchmark.switch.support.changes import PORTS, RULES, rule_mac
from switchmark.switch.support.in_kernel import InKernelSwitch, veth_lines
from switchmark.switch.support.ports import device_of, peer_index
from switchmark.switch.support.table_memory import MemoryBefore
from switchmark.switch.support.tools import kernel_has, kernel_release
from switchmark.switch.support.xdp_router import Router

ETHERNET_HEADER_BYTES = 14
CONTEXT_DATA, CONTEXT_DATA_END = 0, 4  # struct xdp_md
R0, R1, R2, R3, R4, _, R6, R7, _, _, FRAME = range(11)
MAC_ENTRY_BYTES = 8  # bytes of a key: 6 of the address, 2 of padding
FIRST_KERNEL = (5, 18)  # programs for frames in several buffers


def program(
    index: int,
    counts_fd: int,
    devices_fd: int,
    table_fd: int | None,
    acl: xdp_acl.Filter | None = None,
) -> bytes:
    """Yield the program at port `index`. Without a table every frame goes to the peer. Slot `index`
    of the per-core array has two numbers: received frames, and frames dropped because the access
    list denied them or the table did not send them to another port."""
    return bpf.assemble(_program(index, counts_fd, devices_fd, table_fd, acl))


def _program(
    index: int,
    counts_fd: int,
    devices_fd: int,
    table_fd: int | None,
    acl: xdp_acl.Filter | None,
) -> Iterator[Instruction]:
    yield bpf.move(R6, R1)  # the context
    yield bpf.set_to(R1, index)
    yield bpf.store(32, FRAME, -4, R1)
    yield from bpf.find_value(counts_fd, -4, "drop")  # impossible, but the verifier requires it
    yield bpf.move(R7, R0)  # the two counters
    yield from bpf.increment(R7, 0)
    if acl is not None:
        yield from acl.instructions()
    if table_fd is None:
        yield bpf.set_to(R2, peer_index(index))
    else:
        yield from _look_up_destination(table_fd)
        yield bpf.jump_if_equal(R2, index, "drop-counted")  # never back to the same port
    yield from bpf.load_map(R1, devices_fd)
    yield bpf.set_to(R3, bpf.XDP_DROP)  # for a port that is not in the map
    yield bpf.call(bpf.HELPER_REDIRECT_MAP)
    yield bpf.leave()
    if table_fd is not None or acl is not None:
        first, *rest = bpf.increment(R7, 8)
        yield first.at("drop-counted")
        yield from rest
    yield bpf.set_to(R0, bpf.XDP_DROP).at("drop")
    yield bpf.leave()


def _look_up_destination(table_fd: int) -> Iterator[Instruction]:
    """Set r2 to the port of the destination address in the table, or jump to `drop-counted`."""
    yield bpf.load(32, R2, R6, CONTEXT_DATA)
    yield bpf.load(32, R3, R6, CONTEXT_DATA_END)
    yield bpf.move(R4, R2)
    yield bpf.add(R4, ETHERNET_HEADER_BYTES)
    yield bpf.jump_if_greater(R4, R3, "drop-counted")
    yield bpf.set_to(R1, 0)
    yield bpf.store(64, FRAME, -16, R1)
    yield bpf.load(32, R1, R2, 0)
    yield bpf.store(32, FRAME, -16, R1)
    yield bpf.load(16, R1, R2, 4)
    yield bpf.store(16, FRAME, -12, R1)
    yield from bpf.find_value(table_fd, -16, "drop-counted")
    yield bpf.load(32, R2, R0, 0)


class XdpRedirect(InKernelSwitch):
    """A BPF program and a map of devices in a private network namespace."""

    name = "xdp-redirect"
    capabilities = Capabilities(
        port_kinds=(PortKind.VETH,),
        connect_modes=(ConnectMode.CROSS_CONNECT, ConnectMode.STATIC_MAC),
        polling=False,
        in_kernel=True,
        reconfigures=True,
        changes_tables=("route",),
        cannot_change_tables={"acl": "changes of the map of its rules are not built"},
        taxonomy=Taxonomy(MODULAR, STRUCTURED, RTC, "high", "BPF", "programmable driver hook"),
        description="a small BPF program that redirects frames between devices, native XDP",
        functions={
            "route": FunctionSupport(
                1_000_000, "more were not tried", bases=("route",), version="6.18"
            ),
            "acl": FunctionSupport(xdp_acl.RULES_MOST, "more were not tried", version="6.18"),
        },
        functions_not_built={
            "vxlan": "tunnels by BPF are not built",
            "vlan": "tags by BPF are not built",
            "policer": "a token bucket by BPF is not built",
        },
    )

    def __init__(self) -> None:
        self._descriptors: list[int] = []
        self.function_table: FunctionTable | None = None
        self._load_time_s = 0.0
        self._memory: TableMemory | None = None
        self._acl: xdp_acl.Filter | None = None
        self._woken: list[VethEnd] = []

    def availability(self) -> Availability:
        """Available if the kernel has XDP for frames of every size."""
        if (
            problem := place.missing(Facility.NETWORK_NAMESPACE, Facility.BPF)
            or not_installed("ip", "iproute2")
        ) is not None:
            return problem
        release = kernel_release()
        if _numbers(release) < FIRST_KERNEL or not kernel_has("bpf", "bpf_prog_load"):
            needed = ".".join(map(str, FIRST_KERNEL))
            return unavailable(
                f"Linux {release} has no BPF system call, or is older than {needed}",
                remedy=f"use Linux {needed} or later with CONFIG_BPF_SYSCALL",
            )
        return available(f"Linux {release}")

    def connect(self) -> None:
        """Load and attach the programs, and make the nodes' ends poll."""
        has_table = self.mode is ConnectMode.STATIC_MAC
        self._inner = self._wake_witness() if has_table else None
        for port in self.ports:
            if port.cable:  # the remote host prepares its other end (docs/testbed.md)
                continue
            self._wake(VethEnd(port.far_device or "", netns=port.far_netns))
        self._load_time_s = 0.0
        self._memory, before = None, MemoryBefore()
        if self.mode is ConnectMode.ROUTE:
            self._load_routes()
        self._acl = self._load_list()
        if self.mode is ConnectMode.ROUTE:
            self._memory = before.after()
        elif self._acl is not None and (size_kib := map_kib(self._acl.map_fd)) is not None:
            self._memory = TableMemory(0, size_kib, is_kernel=False)
        namespaces.inside(self.namespace.name, self._attach)

    def _load_routes(self) -> None:
        """Load the kernel's routing table, which the programs look up."""
        table = self._routing_table()
        devices = {port.index: device_of(port) for port in self.ports}
        settings = kernel_routes.settings_of(list(devices.values()), table.ip_version)
        kernel_routes.write_settings(self.namespace, settings)
        self.namespace.batch("ip", list(kernel_routes.address_lines(table, devices)))
        routes = kernel_routes.RouteLoad.of(self.namespace, table, devices)
        begun = time.monotonic()
        routes.load()
        self._load_time_s = time.monotonic() - begun

    def _load_list(self) -> xdp_acl.Filter | None:
        """Load the access control list into a map, which all programs share."""
        table = self.function_table
        if table is None or not table.rules:
            return None
        refuse_impossible(self, table)
        begun = time.monotonic()
        acl = xdp_acl.Filter.load(table)
        self._keep(acl.map_fd)
        self._load_time_s += time.monotonic() - begun
        return acl

    def _routing_table(self) -> FunctionTable:
        if self.function_table is None:
            raise UsageError(
                f"{self.name}: connect mode route needs function route",
                remedy="use function: route",
            )
        return self.function_table

    def table_refusal(self, table: FunctionTable) -> Refusal | None:
        """See `RefusesTables`."""
        return xdp_acl.refusal(table)

    def function_entries(self) -> FunctionEntries:
        """Count the routes of the kernel, and the entries of the map of the access list."""
        assert self.function_table is not None
        announced, observed = {}, {}
        if self.mode is ConnectMode.ROUTE:
            table = self._routing_table()
            announced[kernel_routes.MAIN] = kernel_routes.announced_routes(table)
            read_back = kernel_routes.routes_read_back(self.namespace, table.ip_version)
            observed[kernel_routes.MAIN] = read_back
        if self._acl is not None:
            announced["map entries"] = self._acl.entries
            observed["map entries"] = self._acl.count()
        return FunctionEntries(announced, observed, self._load_time_s, self._memory)

    def _wake_witness(self) -> str:
        """Prepare the monitor port, which exists only with a table, and to which no entry leads."""
        inner = self.make_witness()
        self._wake(VethEnd(self.witness or "", netns=self.namespace.name))
        return inner

    def _wake(self, end: VethEnd) -> None:
        """Make the node's end of a veth poll, by receive offload or a separate program. It accepts
        redirected frames only while it polls; otherwise they are lost without a count."""
        if not end.device:
            raise UnavailableError(
                f"{self.name}: the environment does not report the other end of a port",
                remedy="use an environment whose nodes are namespaces",
            )
        netlink.set_receive_offload(end, True)
        self._woken.append(end)

    def _attach(self) -> None:
        """Attach the programs inside the namespace, where the interface numbers are valid."""
        devices = [device_of(port) for port in self.ports]
        devices += [self._inner] if self._inner else []
        slots = len(devices) + PORTS  # maps do not grow
        self._counts = self._keep(bpf_calls.create_map(bpf_calls.MAP_PERCPU_ARRAY, 4, 16, slots))
        routed = self.mode is ConnectMode.ROUTE
        kind = bpf_calls.MAP_DEVMAP_HASH if routed else bpf_calls.MAP_DEVMAP
        self._out = self._keep(bpf_calls.create_map(kind, 4, 4, slots))
        self._table: int | None = None
        if self.mode is ConnectMode.STATIC_MAC:
            most = len(self.ports) + RULES
            self._table = self._keep(
                bpf_calls.create_map(bpf_calls.MAP_HASH, MAC_ENTRY_BYTES, 4, most)
            )
            for port in self.ports:
                bpf_calls.update(self._table, _key(port.mac), struct.pack("=I", port.index))
        for slot, device in enumerate(devices):
            self._enter(slot, device)
        for port in self.ports:
            for descriptor in self._load(port.index, device_of(port)):
                self._keep(descriptor)

    def _enter(self, slot: int, device: str) -> None:
        """Enter the device into the map, so that frames can be redirected to it."""
        number = socket.if_nametoindex(device)
        key = number if self.mode is ConnectMode.ROUTE else slot
        bpf_calls.update(self._out, struct.pack("=I", key), struct.pack("=I", number))

    def _load(self, index: int, device: str) -> tuple[int, int]:
        """Load a separate program for this device; return descriptors of the program and of its
        link."""
        if self.mode is ConnectMode.ROUTE:
            table = self._routing_table()
            mac, version = table.ports[index].mac, table.ip_version
            router = Router(
                index, mac, version, self._counts, self._out, table.decrements_ttl, self._acl
            )
            code = router.load()
        else:
            code = bpf_calls.load_xdp(
                program(index, self._counts, self._out, self._table, self._acl)
            )
        return code, bpf_calls.attach_xdp(code, socket.if_nametoindex(device))

    def _keep(self, descriptor: int) -> int:
        self._descriptors.append(descriptor)
        return descriptor

    def table_changes(self) -> Sequence[TableChange]:
        """Return the changes of routes."""
        ports = {port.index: device_of(port) for port in self.ports}
        return [kernel_routes.route_changes(self.namespace, self._routing_table(), ports)]

    def changes(self) -> Sequence[Change]:
        """Return changes that add and remove devices with a program and a slot in the map, and
        entries of the table."""
        inside, first = self.namespace.name, len(self.ports) + (1 if self._inner else 0)
        ends = self.spare_veths()
        names = [near for near, _ in ends]
        descriptors: list[int] = []

        def join() -> None:
            self.namespace.batch("ip", veth_lines(ends))
            namespaces.inside(inside, enter)

        def enter() -> None:
            for slot, name in enumerate(names, first):
                self._enter(slot, name)
                descriptors.extend(map(self._keep, self._load(slot, name)))

        def part() -> None:
            for slot in range(first, first + PORTS):
                bpf_calls.delete(self._out, struct.pack("=I", slot))
            bpf_calls.close_all(descriptors)
            self._descriptors = [one for one in self._descriptors if one not in descriptors]
            descriptors.clear()
            self.namespace.batch("ip", [f"link del {name}" for name in names])

        changes = [Change(f"{PORTS} ports added", join), Change(f"{PORTS} ports removed", part)]
        return changes if self._table is None else [*changes, *_table_changes(self._table)]

    def counters(self) -> SwitchCounters:
        """Return received frames by the count of the program, and sent frames and send losses by
        the counts of the devices."""
        devices = super().counters()
        ports = {}
        for index, device in devices.ports.items():
            per_core = bpf_calls.look_up_per_core(self._counts, index)
            received, refused = (sum(numbers) for numbers in zip(*per_core, strict=True))
            lost = device.rx_dropped + refused  # before the program, and by it
            ports[index] = replace(device, rx_frames=received, rx_dropped=lost)
        return SwitchCounters(ports, devices.witness_rx_frames)

    def fault(self) -> str | None:
        """Return why it no longer forwards, if a port has lost its program; None otherwise."""
        links = self.namespace.query("ip", "link", "show")
        native = {link["ifname"] for link in links if link.get("xdp", {}).get("mode") == 1}
        lost = [device for device in map(device_of, self.ports) if device not in native]
        return f"{', '.join(lost)} lost its XDP program" if lost else None

    def details(self) -> dict[str, str]:
        """Return the details for the record."""
        return {
            "version": f"Linux {kernel_release()}",
            "datapath": "kernel, native XDP: redirect through a device map",
            "connect_mode": self.mode.value,
            "far_ends": "generic-receive-offload on, so that they accept redirected frames",
            "programs": "one for each port, attached by a BPF link of the bench",
        }

    def stop(self) -> None:
        """Detach the programs, and restore the other ends and the devices."""
        bpf_calls.close_all(self._descriptors)
        self._descriptors.clear()
        try:
            while self._woken:
                netlink.set_receive_offload(self._woken.pop(), False)
        finally:
            super().stop()


def _key(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", "")).ljust(MAC_ENTRY_BYTES, b"\0")


def _table_changes(table: int) -> list[Change]:
    keys = [_key(rule_mac(number)) for number in range(RULES)]

    def learn() -> None:
        for key in keys:
            bpf_calls.update(table, key, struct.pack("=I", 0))

    def forget() -> None:
        for key in keys:
            bpf_calls.delete(table, key)

    return [
        Change(f"{RULES} table entries added", learn),
        Change(f"{RULES} table entries removed", forget),
    ]


def _numbers(release: str) -> tuple[int, ...]:
    """Return the numbers of a release: `6.1.0-18-amd64` as (6, 1)."""
    return tuple(int(part) for part in release.replace("-", ".").split(".")[:2] if part.isdigit())
