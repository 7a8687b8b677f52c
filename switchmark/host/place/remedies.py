"""The texts that a user reads if a facility is missing: the reason, and the shortest remedy in this
kind of place."""

from __future__ import annotations

import errno
import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from switchmark.host.kernel.mounts import is_root_mounted
from switchmark.host.place.facility import Facility
from switchmark.host.place.kinds import Kind, is_pod
from switchmark.model.capabilities import Availability, unavailable


def program_path(called: str) -> str:
    """Return the path by which the user called switchmark, quoted for a shell; its name if the user
    called another program, which imported it."""
    return shlex.quote(called if Path(called).name == "switchmark" else "switchmark")


def as_root(arguments: str, called: str = sys.argv[0]) -> str:
    """Return the command line that runs switchmark as root. `called` is the path by which the user
    called a program: sudo looks up a bare name in its own PATH."""
    return f"sudo {program_path(called)} {arguments}"


SUDO = f"run it as root: {as_root('...')}"
SHARE = "leave out --private"
HOST = "run switchmark on the host as root"
COMMAND = "use the command `switchmark`, which makes user namespaces; or " + SUDO
# Settings by which systems refuse user namespaces, the value that does so, and the remedy.
SETTINGS = Path("/proc/sys")
REFUSING = (
    ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
    ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "install switchmark's Debian package, whose AppArmor profile allows them, or "
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
# Reason and remedy in a chroot into a folder that is not a mount point.
IN_CHROOT = "since the kernel refuses them in a chroot"
NOT_MOUNTED = "since / of this chroot is not a mount point"
MOUNT_ROOT = "before the chroot into FOLDER, as root: mount --bind FOLDER FOLDER"
OUTSIDE = "run switchmark outside of the chroot"
NO_PRIVATE = f"{SHARE}, or run switchmark outside of this chroot or container"
RESERVE = "echo 1024 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"


@dataclass(frozen=True, slots=True)
class ContainerRemedy:
    """A remedy in a container: an option of `docker run` or `podman run`, and a pod's field."""

    docker: str
    pod: str

    def text(self) -> str:
        """The remedy in this container."""
        return f"in the pod: {self.pod}" if is_pod() else f"docker run {self.docker}"


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of one facility. `cannot` completes the sentence "this container cannot ..."."""

    cannot: str
    root: str  # the remedy on a machine whose administrator is at work
    container: ContainerRemedy | str
    user: str = SUDO  # the remedy for an ordinary user
    instead: str = ""  # the alternative in a container without the remedy


def _capability(*names: str) -> ContainerRemedy:
    pod = ", ".join(names)
    return ContainerRemedy(
        " ".join(f"--cap-add {name}" for name in names),
        f"securityContext.capabilities.add: [{pod}]",
    )


_PRIVILEGED = ContainerRemedy("--privileged", "securityContext.privileged: true")
# Without the filter alone, AppArmor refuses mounts, and the kernel those of /proc and /sys.
_NAMESPACES = ContainerRemedy(
    "--security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined --volume /sys:/sys",
    "securityContext.privileged: true",
)
_NO_FILTER = ContainerRemedy(
    "--security-opt seccomp=unconfined", "securityContext.seccompProfile.type: Unconfined"
)

TEXTS: dict[Facility, Texts] = {
    Facility.USER_NAMESPACE: Texts(
        "make user namespaces",
        root="sysctl user.max_user_namespaces=10000",
        container=_NAMESPACES,
    ),
    Facility.NETWORK_NAMESPACE: Texts(
        "make network namespaces",
        root="use a kernel with CONFIG_NET_NS and CONFIG_VETH, in a container "
        "docker run --privileged",
        container=_PRIVILEGED,
        instead="use environment=bare with switches whose ports are sockets (such as basicfwd)",
    ),
    Facility.NETWORK_DEVICE: Texts(
        "make network devices",
        root="use a kernel with CONFIG_VETH",
        container=_capability("NET_ADMIN"),
        instead="use switches whose ports are sockets (such as basicfwd)",
    ),
    Facility.PACKET_SOCKET: Texts(
        "open packet sockets",
        root="use a kernel with CONFIG_PACKET",
        container=_capability("NET_RAW"),
    ),
    Facility.BPF: Texts(
        "load BPF programs",
        root="use a kernel with CONFIG_BPF_SYSCALL",
        container=_capability("BPF", "NET_ADMIN"),
    ),
    Facility.XDP_SOCKET: Texts(
        "open AF_XDP sockets with the BPF program that they need",
        root="use a kernel with CONFIG_XDP_SOCKETS",
        container=_capability("BPF", "NET_ADMIN", "NET_RAW"),
    ),
    Facility.HUGEPAGES: Texts(
        "map hugepages",
        root=RESERVE,
        container=ContainerRemedy(
            f"as before, after this on the host as root: {RESERVE}",
            "resources.limits: hugepages-2Mi: 1Gi",
        ),
        user=f"as root: {RESERVE}",
    ),
    Facility.MEMORY_POLICY: Texts(
        "set the NUMA policy of memory, which DPDK needs for hugepages",
        root="use a kernel with CONFIG_NUMA",
        container=_capability("SYS_NICE"),
    ),
    Facility.HUGETLBFS: Texts(
        "mount hugepages, which BESS needs to use them",
        root="use a kernel with CONFIG_HUGETLBFS",
        container=_PRIVILEGED,
    ),
    Facility.LOCKED_MEMORY: Texts(
        "lock 64 MiB in memory, which VPP needs for hugepages",
        root="ulimit -l unlimited",
        container=ContainerRemedy(
            "--ulimit memlock=-1", "securityContext.capabilities.add: [IPC_LOCK]"
        ),
        user="raise the limit of locked memory (ulimit -l) to 65536 KiB or more",
    ),
    Facility.IO_URING: Texts(
        "use io_uring",
        root="sysctl kernel.io_uring_disabled=0, or use a kernel with CONFIG_IO_URING",
        container=_NO_FILTER,
        user="as root: sysctl kernel.io_uring_disabled=0",
    ),
    Facility.PERF: Texts(
        "open performance counters",
        root="sysctl kernel.perf_event_paranoid=1",
        container=_capability("PERFMON"),
        user="as root: sysctl kernel.perf_event_paranoid=1",
    ),
    Facility.CONTROL_GROUPS: Texts(
        "make control groups",
        root="mount -t cgroup2 cgroup2 /sys/fs/cgroup",
        container=HOST,
    ),
    Facility.REAL_TIME: Texts(
        "use real-time priority",
        root="ulimit -r 99, or use a kernel without CONFIG_RT_GROUP_SCHED",
        container=ContainerRemedy(
            "--cap-add SYS_NICE --ulimit rtprio=99", "securityContext.capabilities.add: [SYS_NICE]"
        ),
    ),
    Facility.TUN: Texts(
        "open /dev/net/tun, which tap devices need",
        root="modprobe tun",
        container=ContainerRemedy(
            "--device /dev/net/tun --cap-add NET_ADMIN", "a device plugin for /dev/net/tun"
        ),
        user="as root: modprobe tun; chmod 666 /dev/net/tun",
    ),
    Facility.KERNEL_SETTINGS: Texts(
        "write kernel settings (/proc/sys, /sys)",
        root="mount /proc/sys and /sys writable",
        container=_PRIVILEGED,
    ),
    Facility.FORCED_BUFFERS: Texts(
        "make socket buffers larger than net.core.rmem_max",
        root="sysctl net.core.rmem_max=33554432",
        container=_capability("NET_ADMIN"),
    ),
    Facility.PHYSICAL_ADDRESSES: Texts(
        "read physical addresses of memory",
        root="use a kernel with CONFIG_PROC_PAGE_MONITOR",
        container=_PRIVILEGED,
    ),
}
# How each limit is raised: by an option of docker run, a field of a pod, a setting of systemd.
LIMITS: dict[str, tuple[str, str, str]] = {
    "cpu": ("--cpus=N", "resources.limits.cpu", "CPUQuota="),
    "memory": ("--memory=N", "resources.limits.memory", "MemoryMax="),
    "tasks": ("--pids-limit=N", "the kubelet's podPidsLimit", "TasksMax="),
    "locked": ("--ulimit memlock=-1", "the container engine's own limit", "LimitMEMLOCK="),
    "files": ("--ulimit nofile=N", "the container engine's own limit", "LimitNOFILE="),
}
_WHO = {
    Kind.ROOT: "this machine",
    Kind.USER: "an ordinary user",
    Kind.CONTAINER: "this container",
    Kind.PRIVATE: "a bench in its own namespaces",
}


def refusal(facility: Facility, kind: Kind, reason: str, number: int | None = None) -> Availability:
    """The reason and the remedy for a facility that is missing in a place of this kind. `reason` is
    the error with which the operating system refused it, and `number` its errno."""
    row = TEXTS[facility]
    text = f"{_WHO[kind]} cannot {row.cannot} ({reason})"
    if (in_chroot := _chroot_refusal(facility, kind)) is not None:
        cause, remedy = in_chroot
        return unavailable(f"{text}, {cause}", remedy)
    if kind is Kind.ROOT and facility is Facility.USER_NAMESPACE and number == errno.EPERM:
        return unavailable(text, NO_PRIVATE)  # a setting would refuse it with ENOSPC
    if kind is Kind.USER and facility is Facility.USER_NAMESPACE:
        cause, remedy = _refusing_setting()
        return unavailable(f"{text}{cause}", f"{SUDO}{remedy}")
    if kind is Kind.PRIVATE:
        return unavailable(text, SHARE)
    if kind is not Kind.CONTAINER:
        return unavailable(text, row.root if kind is Kind.ROOT else row.user)
    remedy = row.container if isinstance(row.container, str) else row.container.text()
    return unavailable(text, remedy, row.instead)


def _chroot_refusal(facility: Facility, kind: Kind) -> tuple[str, str] | None:
    """Return the reason and the remedy for a facility that a chroot into a plain folder refuses;
    None if / is a mount point, or if the facility does not depend on it."""
    if facility is Facility.USER_NAMESPACE and not is_root_mounted():
        return IN_CHROOT, OUTSIDE
    if facility in (Facility.NETWORK_NAMESPACE, Facility.HUGETLBFS) and not is_root_mounted():
        return NOT_MOUNTED, MOUNT_ROOT if kind is Kind.ROOT else OUTSIDE
    return None


def _refusing_setting() -> tuple[str, str]:
    """The setting that refuses user namespaces to an ordinary user, and what an administrator can
    do; both to be appended to a sentence, and empty if no known setting does."""
    for name, value, remedy in REFUSING:
        with suppress(OSError):
            if (SETTINGS / name).read_text().strip() == value:
                return f", since {name.replace('/', '.')} is {value}", f"; or, as root: {remedy}"
    return "", ""


def limit_remedy(limit: str, kind: Kind) -> str:
    """Return the remedy that raises a limit, a key of `LIMITS`, in a place of this kind."""
    docker, pod, systemd = LIMITS[limit]
    if kind is Kind.CONTAINER:
        return ContainerRemedy(docker, pod).text()
    shell = {"files": ", ulimit -n", "locked": ", ulimit -l"}.get(limit, "")
    return f"{systemd} of the systemd unit{shell}"
