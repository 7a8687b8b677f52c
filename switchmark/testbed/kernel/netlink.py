"""Network namespaces, veth pairs and their settings, through netlink and ioctl.

No `ip` process is started for any of it: a namespace with its port takes some
milliseconds. What must happen inside a namespace runs in a thread that enters it; the
namespace of a thread is its own and changes nothing for the rest of the program.

Nor does the main thread ever speak netlink itself: pyroute2 makes an event loop for every
socket, and a Ctrl-C that arrives while one is destroyed is lost (Python ignores exceptions
there). Signals interrupt the main thread alone.
"""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pyroute2 import IPRoute, NetlinkError

from switchmark.testbed.kernel import mounts

NETNS_DIR = Path("/run/netns")
CLONE_NEWNET = 0x40000000
SIOCETHTOOL, SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8946, 0x8913, 0x8914
IFF_UP, IFF_PROMISC = 1, 0x100
NUD_PERMANENT = 0x80
TUNSETIFF, TUNSETPERSIST = 0x400454CA, 0x400454CB
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000

# Offloads switched off on every veth end, on both sides. With transmit checksums offloaded,
# frames cross a veth with half a checksum, which no receiver of raw frames could accept; and
# with segmentation or receive offload, one frame counted here would be several counted there.
OFFLOADS_OFF = {
    "tx-checksumming": 0x17,
    "tcp-segmentation-offload": 0x1F,
    "generic-segmentation-offload": 0x24,
    "generic-receive-offload": 0x2C,
}

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class VethEnd:
    """One end of a veth pair: its name, and its namespace (None: the root namespace)."""

    device: str
    mac: str | None = None  # None: the kernel's choice
    netns: str | None = None


def create_namespace(name: str) -> None:
    """A new named network namespace with only `lo` (up), IPv6 off."""
    NETNS_DIR.mkdir(mode=0o755, exist_ok=True)
    mounts.make_shared(NETNS_DIR)
    path = NETNS_DIR / name
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o444))

    def unshare_and_name() -> None:
        if mounts.libc().unshare(CLONE_NEWNET) != 0:
            mounts.raise_errno(f"network namespace {name}")
        mounts.bind(_own_namespace(), path)
        disable_ipv6("all")
        disable_ipv6("default")
        _set_up("lo")

    _in_thread(unshare_and_name)


def name_namespace(name: str, pid: int) -> None:
    """Give the network namespace of a process a name, as `ip netns` knows it. Raises OSError."""
    NETNS_DIR.mkdir(mode=0o755, exist_ok=True)
    path = NETNS_DIR / name
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o444))
    mounts.bind(f"/proc/{pid}/ns/net", path)


def inside(netns: str | None, action: Callable[[], Result]) -> Result:
    """Run an action in a named namespace (None: this one), in a thread of its own. Raises what
    the action raises."""
    if netns is None:
        return _in_thread(action)

    def enter_and_act() -> Result:
        fd = os.open(NETNS_DIR / netns, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if mounts.libc().setns(fd, CLONE_NEWNET) != 0:
                mounts.raise_errno(f"network namespace {netns}")
        finally:
            os.close(fd)
        return action()

    return _in_thread(enter_and_act)


def create_veth(a: VethEnd, b: VethEnd, mtu_bytes: int) -> None:
    """A veth pair, each end created where it belongs; both down, offloads not yet set."""
    fd = os.open(NETNS_DIR / b.netns if b.netns else _own_namespace(), os.O_RDONLY | os.O_CLOEXEC)
    peer = {"ifname": b.device, "net_ns_fd": fd, "mtu": mtu_bytes}
    if b.mac is not None:
        peer["address"] = b.mac
    own = {"ifname": a.device, "mtu": mtu_bytes}
    if a.mac is not None:
        own["address"] = a.mac

    def add() -> None:
        with IPRoute() as netlink:
            netlink.link("add", kind="veth", peer=peer, **own)

    try:
        inside(a.netns, add)
    finally:
        os.close(fd)


def create_tap(device: str, mtu_bytes: int) -> None:
    """A tap device of the root namespace that stays when whoever opened it has ended; up, with
    neither IPv6 nor offloads. Raises OSError."""
    request = struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI)
    with open("/dev/net/tun", "r+b", buffering=0) as tun:  # noqa: PTH123
        fcntl.ioctl(tun, TUNSETIFF, request)
        fcntl.ioctl(tun, TUNSETPERSIST, 1)
    _set_mtu(None, device, mtu_bytes)
    bring_up(VethEnd(device))


def take_in(device: str, end: VethEnd, mtu_bytes: int) -> None:
    """Move a device of this namespace into another, under the name it is to have there.

    Raises OSError when there is no such device, or it cannot be moved or set up."""
    assert end.netns is not None
    fd = os.open(NETNS_DIR / end.netns, os.O_RDONLY | os.O_CLOEXEC)

    def move() -> None:
        with IPRoute() as netlink:
            found = netlink.link_lookup(ifname=device)
            if not found:
                raise OSError(f"network device {device} is not there")
            netlink.link("set", index=found[0], state="down")
            netlink.link("set", index=found[0], ifname=end.device, net_ns_fd=fd)

    try:
        _in_thread(move)
    except NetlinkError as error:
        raise OSError(f"network device {device}: cannot be moved ({error})") from None
    finally:
        os.close(fd)
    _set_mtu(end.netns, end.device, mtu_bytes)


def lend(device: str, netns: str) -> None:
    """Move a device of the host's own into a namespace as it is, and set it up there; `fetch_back`
    undoes it. Raises OSError."""
    fd = os.open(NETNS_DIR / netns, os.O_RDONLY | os.O_CLOEXEC)

    def move() -> None:
        with IPRoute() as netlink:
            found = netlink.link_lookup(ifname=device)
            if not found:
                raise OSError(f"network device {device} is not there")
            netlink.link("set", index=found[0], net_ns_fd=fd)

    def rise() -> None:
        disable_ipv6(device)
        _set_up(device)

    try:
        _in_thread(move)
    except NetlinkError as error:
        raise OSError(f"network device {device}: cannot be lent ({error})") from None
    finally:
        os.close(fd)
    inside(netns, rise)


def _set_mtu(netns: str | None, device: str, mtu_bytes: int) -> None:
    def set_it() -> None:
        with IPRoute() as netlink:
            index = netlink.link_lookup(ifname=device)[0]
            netlink.link("set", index=index, mtu=mtu_bytes)

    inside(netns, set_it)


def is_promiscuous(device: str) -> bool:
    """Whether a device of this namespace was told to take every frame; False for none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as any_socket:
        try:
            return bool(_flags(any_socket, device) & IFF_PROMISC)
        except OSError:
            return False


def fetch_back(device: str, netns: str, *, promiscuous: bool = True) -> None:
    """Move a device that was lent to a namespace back into this one, and set it up; one that is
    not lent is left alone. Who borrowed it may have made it promiscuous, which it need not stay.
    Raises OSError."""
    if not (NETNS_DIR / netns).exists():
        return
    fd = os.open(_own_namespace(), os.O_RDONLY | os.O_CLOEXEC)

    def send_home() -> bool:
        with IPRoute() as netlink:
            found = netlink.link_lookup(ifname=device)
            if found:
                netlink.link("set", index=found[0], net_ns_fd=fd)
            return bool(found)

    def welcome() -> None:
        _set_up(device, without=0 if promiscuous else IFF_PROMISC)

    try:
        if inside(netns, send_home):
            inside(None, welcome)
    except NetlinkError as error:
        raise OSError(f"network device {device}: cannot be fetched back ({error})") from None
    finally:
        os.close(fd)


def bring_up(
    end: VethEnd, *, address: str | None = None, neighbour: tuple[str, str] | None = None
) -> None:
    """Set IPv6 and offloads off, the IPv4 address and a permanent neighbour, and the link up.

    `address` has a prefix length; `neighbour` is the IP and MAC address of the peer."""

    def configure() -> None:
        disable_ipv6(end.device)
        disable_offloads(end.device)
        with IPRoute() as netlink:
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
    """Wait until a veth end passes frames: the one that came up before its peer did.

    The kernel notices the carrier in a work queue, and until it has, drops what is sent.
    Raises OSError."""

    def poll() -> bool:
        deadline = time.monotonic() + timeout_s
        with IPRoute() as netlink:
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


def _set_up(device: str, *, without: int = 0) -> None:
    """Set a device up, and these flags off, by ioctl: opening a netlink socket takes longer than
    all the rest."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as any_socket:
        flags = (_flags(any_socket, device) | IFF_UP) & ~without
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", device.encode(), flags))


def _flags(any_socket: socket.socket, device: str) -> int:
    asked = struct.pack("16sH14x", device.encode(), 0)
    return int(struct.unpack("16sH14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, asked))[1])


def disable_ipv6(device: str) -> None:
    """No router solicitations and no multicast reports among the frames that we count."""
    with suppress(FileNotFoundError):  # a kernel without IPv6
        Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6").write_text("1\n")


def disable_offloads(device: str) -> None:
    """Switch `OFFLOADS_OFF` off; what the kernel or device does not have is off already."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as any_socket:
        for command in OFFLOADS_OFF.values():
            with suppress(OSError):
                _ethtool(any_socket, device, command, 0)


def _ethtool(any_socket: socket.socket, device: str, command: int, value: int) -> None:
    held = array.array("B", struct.pack("II", command, value))
    request = struct.pack("16sP", device.encode(), held.buffer_info()[0])
    fcntl.ioctl(any_socket, SIOCETHTOOL, request)


def set_receive_offload(end: VethEnd, on: bool) -> None:
    """Switch generic receive offload of a veth end, by which it polls for what it receives.

    Raises OSError, but not for a device that has gone when it is to be switched off."""
    command = OFFLOADS_OFF["generic-receive-offload"]

    def set_it() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as any_socket:
            _ethtool(any_socket, end.device, command, int(on))

    try:
        inside(end.netns, set_it)
    except OSError:
        if on:
            raise


def delete_link(device: str) -> None:
    """Delete a device of the root namespace; gone already is fine. Raises OSError."""
    if not Path("/sys/class/net", device).exists():
        return

    def delete() -> None:
        with IPRoute() as netlink, suppress(NetlinkError):
            netlink.link("del", ifname=device)

    _in_thread(delete)
    if Path("/sys/class/net", device).exists():
        raise OSError(f"network device {device} cannot be deleted")


def all_device_counters(netns: str | None) -> dict[str, list[int]]:
    """The 16 columns of /proc/net/dev (bytes, packets, errors, drops, ... each way) of every device
    in a namespace."""

    def read() -> str:
        return Path(f"/proc/self/task/{threading.get_native_id()}/net/dev").read_text()

    rows = (line.partition(":") for line in inside(netns, read).splitlines()[2:])
    return {name.strip(): [int(field) for field in fields.split()] for name, _, fields in rows}


def device_frames(netns: str | None, device: str) -> tuple[int, int]:
    """Frames (received, transmitted) that the kernel counted on a device."""
    fields = _device_counters(netns, device)
    return fields[0 + 1], fields[8 + 1]


def device_drops(netns: str | None, device: str) -> tuple[int, int]:
    """Frames (on receiving, on transmitting) that the kernel dropped at a device."""
    fields = _device_counters(netns, device)
    return fields[0 + 3], fields[8 + 3]


def udp_socket_drops(netns: str | None) -> int:
    """Datagrams that the kernel has dropped in a namespace because a socket's buffer was full."""

    def read() -> str:
        return Path(f"/proc/self/task/{threading.get_native_id()}/net/snmp").read_text()

    names, values = (
        line.split() for line in inside(netns, read).splitlines() if line.startswith("Udp:")
    )
    return int(dict(zip(names, values, strict=True)).get("RcvbufErrors", "0"))


def _device_counters(netns: str | None, device: str) -> list[int]:
    counters = all_device_counters(netns).get(device)
    if counters is None:
        raise OSError(f"network device {device} is not in namespace {netns or 'root'}")
    return counters


def _own_namespace() -> str:
    """The file of the calling thread's network namespace."""
    return f"/proc/self/task/{threading.get_native_id()}/ns/net"


def _in_thread(action: Callable[[], Result]) -> Result:
    results: list[Result] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(action())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="switchmark-netns").start()
    try:
        done.wait()  # (a `join` that was interrupted calls the thread ended)
    except BaseException:
        done.wait()  # what it is making must be there before it can be undone
        raise
    if errors:
        raise errors[0]
    return results[0]
