"""What a user reads if a facility is missing: what cannot be done, and the shortest remedy in this
kind of place."""

from __future__ import annotations

from dataclasses import dataclass

from switchmark.testbed.place.facility import Facility
from switchmark.testbed.place.kinds import Kind

SUDO = "run it as root: sudo switchmark ..."
HOST = "run switchmark on the host as root"
APPARMOR = (
    "run it as root (sudo), or let programs make user namespaces: "
    "sysctl kernel.apparmor_restrict_unprivileged_userns=0"
)
RESERVE = "echo 1024 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of one facility. `cannot` completes the sentence "cannot ..."."""

    cannot: str
    root: str  # the remedy on a machine whose administrator is at work
    container: str  # the remedy in a container
    user: str = SUDO  # the remedy for an ordinary user


def _option(docker: str, pod: str) -> str:
    return f"docker run {docker} (in a pod: {pod})"


def _capability(*names: str) -> str:
    pod = ", ".join(names)
    return _option(
        " ".join(f"--cap-add {name}" for name in names),
        f"securityContext.capabilities.add: [{pod}]",
    )


_PRIVILEGED = _option("--privileged", "securityContext.privileged: true")
_NO_FILTER = _option(
    "--security-opt seccomp=unconfined", "securityContext.seccompProfile.type: Unconfined"
)

TEXTS: dict[Facility, Texts] = {
    Facility.USER_NAMESPACE: Texts(
        "make user namespaces",
        root="sysctl user.max_user_namespaces=10000",
        container=_NO_FILTER,
        user=APPARMOR,
    ),
    Facility.NETWORK_NAMESPACE: Texts(
        "make network namespaces",
        root="use a kernel with CONFIG_NET_NS and CONFIG_VETH",
        container=f"use environment=bare, whose switches with sockets need none; or {_PRIVILEGED}",
    ),
    Facility.NETWORK_DEVICE: Texts(
        "make network devices",
        root="use a kernel with CONFIG_VETH",
        container=f"use switches with sockets (basicfwd, testpmd); or {_capability('NET_ADMIN')}",
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
        container=_option(
            f"needs them on the host ({RESERVE})", "resources.limits: hugepages-2Mi: 1Gi"
        ),
        user=f"as root: {RESERVE}",
    ),
    Facility.MEMORY_POLICY: Texts(
        "set the NUMA policy of memory, as DPDK does with hugepages",
        root="use a kernel with CONFIG_NUMA",
        container=_capability("SYS_NICE"),
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
        container=_option(
            "--cap-add SYS_NICE --ulimit rtprio=99", "securityContext.capabilities.add: [SYS_NICE]"
        ),
    ),
    Facility.TUN: Texts(
        "open /dev/net/tun, which tap devices need",
        root="modprobe tun",
        container=_option(
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
    "files": ("--ulimit nofile=N", "the container engine's own limit", "LimitNOFILE="),
}
_WHERE = {
    Kind.ROOT: "here",
    Kind.USER: "as an ordinary user",
    Kind.CONTAINER: "in this container",
}


def texts(facility: Facility, kind: Kind, reason: str) -> tuple[str, str]:
    """The reason and the remedy for a facility that is missing in a place of this kind. `reason` is
    the error with which the operating system refused it."""
    row = TEXTS[facility]
    remedy = {Kind.ROOT: row.root, Kind.USER: row.user, Kind.CONTAINER: row.container}[kind]
    return f"cannot {row.cannot} {_WHERE[kind]} ({reason})", remedy


def limit_remedy(limit: str, kind: Kind) -> str:
    """How a limit, by its key in `LIMITS`, is raised in a place of this kind."""
    docker, pod, systemd = LIMITS[limit]
    if kind is Kind.CONTAINER:
        return _option(docker, pod)
    return f"{systemd} of the systemd unit" + ("; ulimit -n" if limit == "files" else "")
