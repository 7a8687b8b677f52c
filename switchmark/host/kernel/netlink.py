"""Network devices: made, moved, set up and deleted through netlink.

No `ip` process is started for any of it: a namespace with its port takes some milliseconds.

The main thread never speaks netlink itself (`inside` starts another): pyroute2 makes an event loop
for every socket, and a Ctrl-C that arrives while one is destroyed is lost (Python ignores
exceptions there). Signals interrupt the main thread alone.
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
    from pyroute2 import IPRoute  # takes as long to load as all of ours, and plans touch no device

NUD_PERMANENT = 0x80
NETLINK_DESCRIPTORS = EVENT_LOOP + 2  # with the socket, and one that pyroute2 opens beside it
TUNSETIFF, TUNSETPERSIST = 0x400454CA, 0x400454CB
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000


@dataclass(frozen=True, slots=True)
class VethEnd:
    """One end of a veth pair: its name, and its namespace (None: the root namespace)."""

    device: str
    mac: str | None = None  # None: the kernel's choice
    netns: str | None = None

    def wanted(self, mtu_bytes: int) -> dict[str, str | int]:
        """What netlink is asked for."""
        address = {} if self.mac is None else {"address": self.mac}
        return {"ifname": self.device, "mtu": mtu_bytes, **address}


def route_socket() -> IPRoute:
    """A netlink socket, to be used in a `with`. Raises OSError where descriptors lack."""
    from pyroute2 import IPRoute

    require_free(NETLINK_DESCRIPTORS)
    return IPRoute()


def refused() -> type[Exception]:
    """The error by which the kernel refuses something that netlink asked for."""
    from pyroute2 import NetlinkError

    error: type[Exception] = NetlinkError
    return error


def create_veth(a: VethEnd, b: VethEnd, mtu_bytes: int) -> None:
    """Make a veth pair, each end where it belongs; both are down, offloads not yet set."""

    def add(fd: int) -> None:
        peer = {**b.wanted(mtu_bytes), "net_ns_fd": fd}
        with route_socket() as netlink:
            netlink.link("add", kind="veth", peer=peer, **a.wanted(mtu_bytes))

    with opened(b.netns) as fd:
        inside(a.netns, partial(add, fd))


def create_macvlan(parent: MacvlanParent, end: VethEnd, mtu_bytes: int) -> None:
    """Make a macvlan device in bridge mode in the namespace where it belongs; it is down.

    Raises OSError when its parent is not there, or it cannot be made."""

    def add(fd: int) -> None:
        own = {**end.wanted(mtu_bytes), "net_ns_fd": fd, "macvlan_mode": "bridge"}
        with route_socket() as netlink:
            found = netlink.link_lookup(ifname=parent.device)
            if not found:
                raise OSError(f"network device {parent.device} is not in {parent.netns}")
            netlink.link("add", kind="macvlan", link=found[0], **own)

    try:
        with opened(end.netns) as fd:
            inside(parent.netns, partial(add, fd))
    except refused() as error:
        raise OSError(f"macvlan device {end.device} on {parent.device}: {error}") from None


def create_tap(device: str, mtu_bytes: int) -> None:
    """Make a tap device of the root namespace that outlives whoever opens it; it is up, with
    neither IPv6 nor offloads. Raises OSError."""
    request = struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI)
    with open("/dev/net/tun", "r+b", buffering=0) as tun:  # noqa: PTH123
        fcntl.ioctl(tun, TUNSETIFF, request)
        fcntl.ioctl(tun, TUNSETPERSIST, 1)
    _set_mtu(None, device, mtu_bytes)
    bring_up(VethEnd(device))


def take_in(device: str, end: VethEnd, mtu_bytes: int) -> None:
    """Move a device of this namespace into another, under a new name. Raises OSError when there is
    no such device, or when it cannot be moved or set up."""
    assert end.netns is not None
    _move(device, end.netns, end.device)
    _set_mtu(end.netns, end.device, mtu_bytes)


def lend(device: str, netns: str) -> None:
    """Move a device of the host's own into a namespace unchanged, and set it up there; `fetch_back`
    undoes it. Raises OSError."""

    def rise() -> None:
        disable_ipv6(device)
        set_up(device)

    _move(device, netns)
    inside(netns, rise)


def _move(device: str, netns: str, name: str | None = None) -> None:
    """Move a device of this namespace into another; with `name` it is set down and renamed."""

    def move(fd: int) -> None:
        with route_socket() as netlink:
            found = netlink.link_lookup(ifname=device)
            if not found:
                raise OSError(f"network device {device} is not there")
            if name is not None:
                netlink.link("set", index=found[0], state="down")
            netlink.link("set", index=found[0], ifname=name or device, net_ns_fd=fd)

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
    """Move a device that was lent to a namespace back into this one, and set it up; one that is
    not lent is left alone. The borrower may have made it promiscuous; that is undone. Raises
    OSError."""
    if not (NETNS_DIR / netns).exists():
        return

    def send_home(fd: int) -> bool:
        with route_socket() as netlink:
            found = netlink.link_lookup(ifname=device)
            if found:
                netlink.link("set", index=found[0], net_ns_fd=fd)
            return bool(found)

    try:
        with opened(None) as fd:
            lent = inside(netns, partial(send_home, fd))
        if lent:
            inside(None, partial(set_up, device, without=0 if promiscuous else IFF_PROMISC))
    except refused() as error:
        raise OSError(f"network device {device}: cannot be fetched back ({error})") from None


def bring_up(
    end: VethEnd, *, address: str | None = None, neighbour: tuple[str, str] | None = None
) -> None:
    """Switch IPv6 and offloads off, set the IPv4 address and a permanent neighbour, and set the
    link up.

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


def wait_passing(end: VethEnd, timeout_s: float = 10.0) -> None:
    """Wait until a veth end that came up before its peer passes frames.

    The kernel notices the carrier in a work queue, and until then drops what is sent. Raises
    OSError."""

    def poll() -> bool:
        deadline = time.monotonic() + timeout_s
        with route_socket() as netlink:
            while True:
                late = time.monotonic() > deadline  # known before the look: the last one counts
                # One device, not a list of all: with many there are as many lists.
                (link,) = netlink.link("get", ifname=end.device)
                if link.get("operstate") == "UP":
                    return True
                if late:
                    return False
                time.sleep(0.0005)

    if not inside(end.netns, poll):
        raise OSError(f"network device {end.device}: no carrier within {timeout_s:g} s")


def set_receive_offload(end: VethEnd, on: bool) -> None:
    """Switch generic receive offload of a veth end, which makes it poll for frames.

    Raises OSError, but not where a device has gone, or refuses, that is to be switched off."""
    command = OFFLOADS_OFF["generic-receive-offload"]
    try:
        inside(end.netns, partial(set_by_ethtool, end.device, command, int(on)))
    except (RequestRefused, FileNotFoundError):  # (its namespace may have gone, too)
        if on:
            raise


def delete_link(device: str) -> None:
    """Delete a device of the root namespace; one that is gone already is fine. Raises OSError."""
    if not Path("/sys/class/net", device).exists():
        return

    def delete() -> None:
        with route_socket() as netlink, suppress(refused()):
            netlink.link("del", ifname=device)

    inside(None, delete)
    if Path("/sys/class/net", device).exists():
        raise OSError(f"network device {device} cannot be deleted")
