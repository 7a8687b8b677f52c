"""Creates, moves, sets up and deletes network devices through netlink.

No `ip` process is started, so a namespace with its port takes some milliseconds.

The main thread does not use netlink itself; `inside` starts another thread. pyroute2 creates an
event loop for every socket, and a Ctrl-C that arrives while a loop is destroyed is lost, since
Python ignores exceptions there. Signals interrupt only the main thread.
"""

from __future__ import annotations

import fcntl
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from switchmark.host.kernel.descriptors import EVENT_LOOP, require_free
from switchmark.host.kernel.device_settings import (
    IFF_PROMISC,
    OFFLOADS_OFF,
    RequestRefused,
    disable_ipv6,
    disable_offloads,
    set_by_ethtool,
    set_up,
)
from switchmark.host.kernel.namespaces import NETNS_DIR, inside, opened
from switchmark.model.ports import MacvlanParent

if TYPE_CHECKING:
    from pyroute2 import IPRoute  # loads as slowly as the whole bench; plans need no device

NUD_PERMANENT = 0x80
NETLINK_DESCRIPTORS = EVENT_LOOP + 2  # with the socket, and another that pyroute2 opens
TUNSETIFF, TUNSETPERSIST = 0x400454CA, 0x400454CB
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
CARRIER_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class VethEnd:
    """One end of a veth pair: its name, and its namespace (None: the root namespace)."""

    device: str
    mac: str | None = None  # None: the kernel's choice
    netns: str | None = None

    def attributes(self, mtu_bytes: int) -> dict[str, str | int]:
        """Return the attributes of the netlink request."""
        address = {} if self.mac is None else {"address": self.mac}
        return {"ifname": self.device, "mtu": mtu_bytes, **address}


def route_socket() -> IPRoute:
    """Return a netlink socket, for a `with` statement. Raises OSError without free descriptors."""
    from pyroute2 import IPRoute

    require_free(NETLINK_DESCRIPTORS)
    return IPRoute()


def refused() -> type[Exception]:
    """Return the type of the error that a refused netlink request raises."""
    from pyroute2 import NetlinkError

    error: type[Exception] = NetlinkError
    return error


def create_veth(a: VethEnd, b: VethEnd, mtu_bytes: int) -> None:
    """Create a veth pair, each end in its namespace; both are down, with the default offloads."""

    def add(fd: int) -> None:
        peer = {**b.attributes(mtu_bytes), "net_ns_fd": fd}
        with route_socket() as netlink:
            netlink.link("add", kind="veth", peer=peer, **a.attributes(mtu_bytes))

    with opened(b.netns) as fd:
        inside(a.netns, partial(add, fd))


def create_macvlan(parent: MacvlanParent, end: VethEnd, mtu_bytes: int) -> None:
    """Create a macvlan device in bridge mode in its namespace; it is down.

    Raises OSError if its parent does not exist, or the device cannot be created."""

    def add(fd: int) -> None:
        attributes = {**end.attributes(mtu_bytes), "net_ns_fd": fd, "macvlan_mode": "bridge"}
        with route_socket() as netlink:
            indices = netlink.link_lookup(ifname=parent.device)
            if not indices:
                raise OSError(f"network device {parent.device} is not in {parent.netns}")
            netlink.link("add", kind="macvlan", link=indices[0], **attributes)

    try:
        with opened(end.netns) as fd:
            inside(parent.netns, partial(add, fd))
    except refused() as error:
        raise OSError(f"macvlan device {end.device} on {parent.device}: {error}") from None


def create_tap(device: str, mtu_bytes: int) -> None:
    """Create a persistent tap device in the root namespace; it is up, without IPv6 and offloads.

    Raises OSError."""
    request = struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI)
    with open("/dev/net/tun", "r+b", buffering=0) as tun:  # noqa: PTH123
        fcntl.ioctl(tun, TUNSETIFF, request)
        fcntl.ioctl(tun, TUNSETPERSIST, 1)
    _set_mtu(None, device, mtu_bytes)
    bring_up(VethEnd(device))


def move_renamed(device: str, end: VethEnd, mtu_bytes: int) -> None:
    """Move a device of this namespace into another, with a new name.

    Raises OSError if there is no such device, or it cannot be moved or set up."""
    assert end.netns is not None
    _move(device, end.netns, end.device)
    _set_mtu(end.netns, end.device, mtu_bytes)


def lend(device: str, netns: str) -> None:
    """Move a device of the host into a namespace, and set it up there; `fetch_back` undoes it.

    Raises OSError."""

    def configure() -> None:
        disable_ipv6(device)
        set_up(device)

    _move(device, netns)
    inside(netns, configure)


def _move(device: str, netns: str, name: str | None = None) -> None:
    """Move a device of this namespace into another; with `name`, set it down and rename it."""

    def move(fd: int) -> None:
        with route_socket() as netlink:
            indices = netlink.link_lookup(ifname=device)
            if not indices:
                raise OSError(f"network device {device} does not exist")
            if name is not None:
                netlink.link("set", index=indices[0], state="down")
            netlink.link("set", index=indices[0], ifname=name or device, net_ns_fd=fd)

    try:
        with opened(netns) as fd:
            inside(None, partial(move, fd))
    except refused() as error:
        raise OSError(f"network device {device}: cannot be moved to {netns} ({error})") from None


def _set_mtu(netns: str | None, device: str, mtu_bytes: int) -> None:
    def set_it() -> None:
        with route_socket() as netlink:
            index = netlink.link_lookup(ifname=device)[0]
            netlink.link("set", index=index, mtu=mtu_bytes)

    inside(netns, set_it)


def fetch_back(device: str, netns: str, *, promiscuous: bool = True) -> None:
    """Move a device that `lend` moved to a namespace back into this one, and set it up.

    A device that is not there is left alone. Programs in the namespace may have made the device
    promiscuous: unless `promiscuous`, that is undone. Raises OSError."""
    if not (NETNS_DIR / netns).exists():
        return

    def move_back(fd: int) -> bool:
        with route_socket() as netlink:
            indices = netlink.link_lookup(ifname=device)
            if indices:
                netlink.link("set", index=indices[0], net_ns_fd=fd)
            return bool(indices)

    try:
        with opened(None) as fd:
            moved = inside(netns, partial(move_back, fd))
        if moved:
            inside(None, partial(set_up, device, without=0 if promiscuous else IFF_PROMISC))
    except refused() as error:
        raise OSError(f"network device {device}: cannot be fetched back ({error})") from None


def bring_up(
    end: VethEnd, *, address: str | None = None, neighbour: tuple[str, str] | None = None
) -> None:
    """Switch IPv6 and offloads off, set an IPv4 address and a permanent neighbour, set the link up.

    `address` has a prefix length; `neighbour` is the IP and MAC address of the peer."""

    def configure() -> None:
        disable_ipv6(end.device)
        disable_offloads(end.device)
        with route_socket() as netlink:
            index = netlink.link_lookup(ifname=end.device)[0]
            if address is not None:
                ip, _, prefix = address.partition("/")
                netlink.addr("add", index=index, address=ip, prefixlen=int(prefix))
            netlink.link("set", index=index, state="up")
            if neighbour is not None:
                ip, mac = neighbour
                netlink.neigh("replace", dst=ip, lladdr=mac, ifindex=index, state=NUD_PERMANENT)

    inside(end.netns, configure)


def wait_passing(end: VethEnd) -> None:
    """Wait until a veth end that came up before its peer passes frames.

    The kernel notices the carrier in a work queue, and until then drops what is sent. Raises
    OSError."""

    def poll() -> bool:
        deadline = time.monotonic() + CARRIER_TIMEOUT_S
        with route_socket() as netlink:
            while True:
                # The time is read before the request, so that the last request counts.
                late = time.monotonic() > deadline
                # A list of all devices for each device would take quadratic time.
                (link,) = netlink.link("get", ifname=end.device)
                if link.get("operstate") == "UP":
                    return True
                if late:
                    return False
                time.sleep(0.0005)

    if not inside(end.netns, poll):
        raise OSError(f"network device {end.device}: no carrier within {CARRIER_TIMEOUT_S:g} s")


def set_receive_offload(end: VethEnd, on: bool) -> None:
    """Switch generic receive offload of a veth end, which makes it poll for frames.

    Raises OSError, except if the offload is to be off and the device is gone or refuses."""
    command = OFFLOADS_OFF["generic-receive-offload"]
    try:
        inside(end.netns, partial(set_by_ethtool, end.device, command, int(on)))
    except (RequestRefused, FileNotFoundError):  # The namespace may also be gone.
        if on:
            raise


def delete_link(device: str) -> None:
    """Delete a device of the root namespace; a missing device is not an error. Raises OSError."""
    if not Path("/sys/class/net", device).exists():
        return

    def delete() -> None:
        with route_socket() as netlink, suppress(refused()):
            netlink.link("del", ifname=device)

    inside(None, delete)
    if Path("/sys/class/net", device).exists():
        raise OSError(f"network device {device} cannot be deleted")
