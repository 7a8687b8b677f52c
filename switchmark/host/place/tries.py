"""One function for each facility: it does what the bench would do, undoes it, and raises OSError if
the place refuses it. Nothing outside the process changes."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from switchmark.host.kernel.cgroups import roots
from switchmark.host.kernel.mounts import libc
from switchmark.host.place.facility import Facility
from switchmark.host.private import calls

MS_PRIVATE = 0x40000
MNT_DETACH = 2
RTM_NEWLINK, RTM_DELLINK = 16, 17
NLM_F_REQUEST, NLM_F_ACK, NLM_F_EXCL, NLM_F_CREATE = 0x1, 0x4, 0x200, 0x400
IFLA_IFNAME, IFLA_LINKINFO, IFLA_INFO_KIND = 3, 18, 1
NLMSG_ERROR = 2
NO_DEVICE = 0x7FFFFFFF  # an interface index that no device has
SO_RCVBUFFORCE = 33
AF_XDP = 44
BPF_PROG_LOAD, BPF_PROG_TYPE_XDP = 5, 6
RETURN_XDP_PASS = bytes.fromhex("b7000000020000009500000000000000")  # r0 = 2; exit
MLOCK_ONFAULT, LOCKED_BYTES = 1, 64 << 20
MADV_POPULATE_WRITE = 23  # Linux 5.14
PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK = 1, 1
MPOL_DEFAULT = 0
# System calls for which Python and the C library have no function, by machine.
CALLS = {
    "x86_64": {"bpf": 321, "get_mempolicy": 239, "set_mempolicy": 238, "io_uring_setup": 425,
               "perf_event_open": 298},
    "aarch64": {"bpf": 280, "get_mempolicy": 236, "set_mempolicy": 237, "io_uring_setup": 425,
                "perf_event_open": 241},
}  # fmt: skip
SETTING = "/proc/sys/net/core/rmem_max"
NETWORK_SETTING = "/proc/sys/net/ipv6/conf/all/disable_ipv6"
SYS_SETTING = "/sys/kernel/mm/transparent_hugepage/enabled"
CHILD_TIMEOUT_S = 10.0


def user_namespace() -> None:
    """Make a user namespace, and in it a veth pair and mounts of /proc and /sys, as
    `testbed/private` does. Places refuse it at different steps: AppArmor on Ubuntu lets the
    namespace be made, and then refuses every capability in it; a container that hides parts of
    /proc, or cannot write /sys, refuses the mounts.

    (Not by unshare(1), for which AppArmor may have a profile that is not this program's.)"""

    def make() -> None:
        calls.enter_user_namespace(calls.CLONE_NEWPID)
        child = os.fork()
        if child != 0:
            os.waitpid(child, 0)
            return
        calls.unshare(calls.CLONE_NEWNS | calls.CLONE_NEWNET, "namespaces in a user namespace")
        calls.mount("none", Path("/"), "", calls.MS_REC | MS_PRIVATE)
        calls.mount("none", Path("/sys"), "sysfs", 0)
        calls.mount("none", Path("/proc"), "proc", 0)
        _netlink(_new_veth())

    _in_child(make)


def _in_child(action: Callable[[], None]) -> None:
    """Run an action in a child process that ends with it, and with its own children. Raises the
    OSError that any of them raises."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            action()
        except BaseException as error:  # the child must only write a message and exit
            failed = error.errno if isinstance(error, OSError) else None
            text = getattr(error, "strerror", None) or str(error) or type(error).__name__
            os.write(write_end, f"{failed or errno.EPERM} {text}".encode())
        finally:
            os._exit(0)
    os.close(write_end)
    try:
        message = _read_within(read_end, CHILD_TIMEOUT_S)
    finally:
        os.close(read_end)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if message:
        number, _, reason = message.decode().partition(" ")
        raise OSError(int(number), reason)


def _read_within(fd: int, timeout_s: float) -> bytes:
    """Read a pipe until all its writers have closed it. Raises OSError after the timeout."""
    found, deadline = b"", time.monotonic() + timeout_s
    while True:
        if not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise OSError(errno.ETIMEDOUT, f"not done within {timeout_s:g} s")
        if not (part := os.read(fd, 4096)):
            return found
        found += part


def network_namespace() -> None:
    """Make a network namespace and a mount namespace, a veth pair in the one, and the mount of /sys
    in the other that `ip netns` makes, which the kernel refuses in a container of rootless Podman.
    Settings of the network must be writable: IPv6 is switched off in each namespace."""

    def make() -> None:
        _checked(libc().unshare(calls.CLONE_NEWNET))
        with suppress(FileNotFoundError):  # a kernel without IPv6
            os.close(os.open(NETWORK_SETTING, os.O_WRONLY | os.O_CLOEXEC))
        _netlink(_new_veth())
        _checked(libc().unshare(calls.CLONE_NEWNS))
        _checked(libc().mount(b"none", b"/", None, calls.MS_REC | MS_PRIVATE, None))
        _checked(libc().mount(b"none", b"/proc", b"tmpfs", 0, None))
        is_covered = libc().umount2(b"/sys", MNT_DETACH) != 0
        is_read_only = is_covered and os.statvfs("/sys").f_flag & os.ST_RDONLY
        flags = calls.MS_RDONLY if is_read_only else 0
        _checked(libc().mount(b"none", b"/sys", b"sysfs", flags, None))

    _in_thread(make)


def network_device() -> None:
    """Remove a device that does not exist: the kernel checks the privilege first."""
    message = struct.pack("=BxHiII", socket.AF_UNSPEC, 0, NO_DEVICE, 0, 0)
    try:
        _netlink(_request(RTM_DELLINK, 0, message))
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise


def packet_socket() -> None:
    """Open a packet socket that receives nothing."""
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()


def bpf() -> None:
    """Load an XDP program of two instructions."""
    code, licence = (
        ctypes.create_string_buffer(RETURN_XDP_PASS),
        ctypes.create_string_buffer(b"GPL"),
    )
    count = len(RETURN_XDP_PASS) // 8
    attributes = ctypes.create_string_buffer(
        struct.pack("=IIQQ", BPF_PROG_TYPE_XDP, count, ctypes.addressof(code),
                    ctypes.addressof(licence)).ljust(72, b"\0")
    )  # fmt: skip
    os.close(_call("bpf", BPF_PROG_LOAD, ctypes.addressof(attributes), 72))


def xdp_socket() -> None:
    """Open an AF_XDP socket, and load a program for it."""
    socket.socket(AF_XDP, socket.SOCK_RAW, 0).close()
    bpf()


def hugepages() -> None:
    """Map one hugepage of the default size and write to it. MADV_POPULATE_WRITE fails where a store
    would raise SIGBUS, as it does at the limit of a control group; on kernels without it the
    store happens in a child process."""
    fd = os.memfd_create("switchmark", os.MFD_HUGETLB)
    try:
        size = _hugepage_bytes()
        os.ftruncate(fd, size)
        with mmap.mmap(fd, size) as page:
            try:
                page.madvise(MADV_POPULATE_WRITE)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                _write_in_child(page)
    finally:
        os.close(fd)


def _write_in_child(page: mmap.mmap) -> None:
    child = os.fork()
    if child == 0:
        page[0] = 1
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise OSError(errno.ENOMEM, "a hugepage was promised but could not be written to")


def _hugepage_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("Hugepagesize:"):
            return int(line.split()[1]) << 10
    raise OSError(errno.ENOSYS, "the kernel has no hugepages")


def memory_policy() -> None:
    """Read the policy of this thread, and set that of a new thread to the default. A kernel without
    NUMA has no policy that a program could miss."""

    def try_it() -> None:
        mode = ctypes.c_int()
        _call("get_mempolicy", ctypes.addressof(mode), 0, 0, 0, 0)
        _call("set_mempolicy", MPOL_DEFAULT, 0, 0)

    try:
        _in_thread(try_it)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise


def hugetlbfs() -> None:
    """Mount a file system of hugepages in a new mount namespace."""

    def mount_it() -> None:
        _checked(libc().unshare(calls.CLONE_NEWNS))
        _checked(libc().mount(b"none", b"/", None, calls.MS_REC | MS_PRIVATE, None))
        _checked(libc().mount(b"none", b"/proc", b"hugetlbfs", 0, None))

    _in_thread(mount_it)


def locked_memory() -> None:
    """Lock a region that has no page yet: the kernel compares its size with the limit."""
    with mmap.mmap(-1, LOCKED_BYTES) as region:
        buffer = ctypes.c_char.from_buffer(region)
        address = ctypes.c_void_p(ctypes.addressof(buffer))
        try:
            _checked(libc().mlock2(address, ctypes.c_size_t(LOCKED_BYTES), MLOCK_ONFAULT))
            libc().munlock(address, ctypes.c_size_t(LOCKED_BYTES))
        finally:
            del buffer


def io_uring() -> None:
    """Make an instance of one entry."""
    parameters = ctypes.create_string_buffer(120)
    os.close(_call("io_uring_setup", 1, ctypes.addressof(parameters)))


def perf() -> None:
    """Open the kernel's clock of this task as a counter, user space only."""
    exclude_kernel = 1 << 5
    attributes = ctypes.create_string_buffer(
        struct.pack("=IIQQQQQ", PERF_TYPE_SOFTWARE, 64, PERF_COUNT_SW_TASK_CLOCK, 0, 0, 0,
                    exclude_kernel).ljust(64, b"\0")
    )  # fmt: skip
    os.close(_call("perf_event_open", ctypes.addressof(attributes), 0, -1, -1, 0))


def control_groups() -> None:
    """Ask whether a group could be made: access(2) knows the rights and read-only mounts. (A group
    that is made only to try could stay behind a process that is killed.)"""
    found = roots()
    if not found:
        raise OSError(errno.ENOENT, "no control group hierarchy is mounted")
    if not any(os.access(root, os.W_OK, effective_ids=True) for root in found):
        raise OSError(errno.EACCES, "no control group hierarchy can be written")


def real_time() -> None:
    """Give a thread the lowest real-time priority; it then ends."""
    _in_thread(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))


def tun() -> None:
    """Open the device."""
    os.close(os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC))


def kernel_settings() -> None:
    """Open a setting of /proc/sys and another of /sys for writing, and write nothing."""
    for path in (SETTING, SYS_SETTING):
        with suppress(FileNotFoundError):
            os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))


def forced_buffers() -> None:
    """Force a receive buffer of 64 KiB."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as opened:
        opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 16)


def physical_addresses() -> None:
    """Read the address of a page that is in use: without the privilege the kernel answers 0."""
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        page[0] = 1
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:  # noqa: PTH123
            pagemap.seek(address // mmap.PAGESIZE * 8)
            (entry,) = struct.unpack("=Q", pagemap.read(8))
    if not entry & ((1 << 55) - 1):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def _in_thread(action: Callable[[], None]) -> None:
    """Run an action in a thread that ends with it, so that namespaces, scheduling class and memory
    policy of all other threads stay as they are. Raises what the action raises."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="switchmark-place")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _call(name: str, *words: int) -> int:
    numbers = CALLS.get(platform.machine())
    if numbers is None:
        raise OSError(errno.ENOSYS, f"unknown number of {name} on {platform.machine()}")
    return _checked(libc().syscall(numbers[name], *map(ctypes.c_long, words)))


def _new_veth() -> bytes:
    kind = _attribute(IFLA_INFO_KIND, b"veth\0")
    header = struct.pack("=BxHiII", socket.AF_UNSPEC, 0, 0, 0, 0)
    body = header + _attribute(IFLA_IFNAME, b"sm0\0") + _attribute(IFLA_LINKINFO, kind)
    return _request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body)


def _attribute(kind: int, value: bytes) -> bytes:
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + b"\0" * (-length % 4)


def _request(kind: int, flags: int, body: bytes) -> bytes:
    return (
        struct.pack("=IHHII", 16 + len(body), kind, NLM_F_REQUEST | NLM_F_ACK | flags, 1, 0) + body
    )


def _netlink(request: bytes) -> None:
    """Send a request of rtnetlink. Raises the OSError with which the kernel answers."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as opened:
        opened.bind((0, 0))
        opened.send(request)
        answer = opened.recv(1 << 16)
    kind, (error,) = struct.unpack_from("=H", answer, 4)[0], struct.unpack_from("=i", answer, 16)
    if kind == NLMSG_ERROR and error != 0:
        raise OSError(-error, os.strerror(-error))


TRIES: dict[Facility, Callable[[], None]] = {
    Facility.USER_NAMESPACE: user_namespace,
    Facility.NETWORK_NAMESPACE: network_namespace,
    Facility.NETWORK_DEVICE: network_device,
    Facility.PACKET_SOCKET: packet_socket,
    Facility.BPF: bpf,
    Facility.XDP_SOCKET: xdp_socket,
    Facility.HUGEPAGES: hugepages,
    Facility.MEMORY_POLICY: memory_policy,
    Facility.HUGETLBFS: hugetlbfs,
    Facility.LOCKED_MEMORY: locked_memory,
    Facility.IO_URING: io_uring,
    Facility.PERF: perf,
    Facility.CONTROL_GROUPS: control_groups,
    Facility.REAL_TIME: real_time,
    Facility.TUN: tun,
    Facility.KERNEL_SETTINGS: kernel_settings,
    Facility.FORCED_BUFFERS: forced_buffers,
    Facility.PHYSICAL_ADDRESSES: physical_addresses,
}
