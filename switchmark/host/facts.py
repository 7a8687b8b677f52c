"""Facts about this machine that may influence results. They are read, never guessed.

A fact that the machine does not report is None. The facts are read in some milliseconds without
another process; only `tool_versions` starts processes.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from switchmark.host.cpu import CpuInfo, emulated, hypervisor, parse_cpu_info
from switchmark.host.hugepages import HugepagePool, pools
from switchmark.host.process_output import stdout_of

CPU_DIR = Path("/sys/devices/system/cpu")
NODE_DIR = Path("/sys/devices/system/node")


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical CPU and its place."""

    id: int
    core: tuple[int, int]  # (package, core): equal for SMT siblings
    node: int  # NUMA node
    isolated: bool = False  # the scheduler moves no thread here by itself


@dataclass(frozen=True, slots=True)
class Cache:
    """One kind of cache of the first CPU."""

    level: int
    type: str  # Data, Instruction, Unified
    size: str  # in the kernel's form, for example 2048K
    shared_cpus: str


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a machine at one moment."""

    hostname: str
    kernel: str
    kernel_build: str
    distribution: str | None
    architecture: str
    virtualised: str | None  # name of the hypervisor; None: bare metal, as far as can be seen
    cpu_model: str | None
    microcode: str | None
    cpus: tuple[Cpu, ...]
    usable_cpus: tuple[int, ...]  # the affinity of this process
    smt_active: bool | None
    caches: tuple[Cache, ...]
    governor: str | None
    turbo: bool | None
    frequency_mhz: float | None  # present frequency of the first CPU
    idle_driver: str | None
    mitigations: dict[str, str]
    isolated_cpus: str | None
    nohz_full: str | None
    kernel_command_line: str | None
    tsc_flags: tuple[str, ...]
    clock_source: str | None
    autogroup: bool | None  # True: the kernel has a scheduling group for each session
    memory_total_mb: int | None
    memory_free_mb: int | None
    hugepages: tuple[HugepagePool, ...]
    cgroup_version: str | None  # "1", "2" or "1+2"
    load_average: tuple[float, float, float]
    fingerprint: str  # digest of the facts that are equal from run to run

    @property
    def nodes(self) -> tuple[int, ...]:
        """The NUMA nodes that have CPUs."""
        return tuple(sorted({cpu.node for cpu in self.cpus}))

    @property
    def physical_cores(self) -> int:
        """The number of cores; SMT siblings count once."""
        return len({cpu.core for cpu in self.cpus})


def gather() -> Facts:
    """Read the facts of this machine."""
    uname = os.uname()
    cpu = read_cpu_info()
    model = cpu.model
    cpus = read_cpus()
    memory = memory_mb()
    total_mb = memory.get("MemTotal")
    lasting = [uname.machine, model, [asdict(cpu) for cpu in cpus], total_mb, uname.release]
    return Facts(
        hostname=uname.nodename,
        kernel=uname.release,
        kernel_build=uname.version,
        distribution=_distribution(),
        architecture=uname.machine,
        virtualised=hypervisor(uname.machine, cpu, read),
        cpu_model=model,
        microcode=cpu.fields.get("microcode"),
        cpus=cpus,
        usable_cpus=tuple(sorted(os.sched_getaffinity(0))),
        smt_active=_flag(CPU_DIR / "smt/active"),
        caches=_caches(),
        governor=read(CPU_DIR / "cpu0/cpufreq/scaling_governor"),
        turbo=_turbo(),
        frequency_mhz=_frequency_mhz(cpu),
        idle_driver=read(CPU_DIR / "cpuidle/current_driver"),
        mitigations=_mitigations(),
        isolated_cpus=read(CPU_DIR / "isolated"),
        nohz_full=read(CPU_DIR / "nohz_full"),
        kernel_command_line=read("/proc/cmdline"),
        tsc_flags=tuple(flag for flag in TSC_FLAGS if flag in cpu.flags),
        clock_source=read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        autogroup=_flag("/proc/sys/kernel/sched_autogroup_enabled"),
        memory_total_mb=total_mb,
        memory_free_mb=memory.get("MemAvailable"),
        hugepages=pools(),
        cgroup_version=_cgroup_version(),
        load_average=os.getloadavg(),
        fingerprint=hashlib.sha256(json.dumps(lasting).encode()).hexdigest()[:12],
    )


TSC_FLAGS = ("tsc", "constant_tsc", "nonstop_tsc", "rdtscp", "tsc_known_freq")

TOOLS: dict[str, Sequence[str]] = {
    "ip": ("ip", "-V"),
    "lxc": ("lxc-execute", "--version"),
    "ovs-vswitchd": ("ovs-vswitchd", "--version"),
    "dpdk": ("pkg-config", "--modversion", "libdpdk"),
    "qemu": ("qemu-system-x86_64", "--version"),
}


def tool_versions() -> dict[str, str]:
    """Return the first line of `--version` of each installed tool."""
    versions = {"python": platform.python_version()}
    for name, command in TOOLS.items():
        if output := stdout_of(command):
            versions[name] = output.splitlines()[0]
    return versions


def read_cpus() -> tuple[Cpu, ...]:
    """Return the CPUs that are online, with their cores and NUMA nodes."""
    online = parse_cpu_list(read(CPU_DIR / "online")) or sorted(os.sched_getaffinity(0))
    isolated = set(parse_cpu_list(read(CPU_DIR / "isolated")))
    node_of = {
        cpu: int(path.name.removeprefix("node"))
        for path in NODE_DIR.glob("node[0-9]*")
        for cpu in parse_cpu_list(read(path / "cpulist"))
    }
    cpus = []
    for cpu in online:
        topology = CPU_DIR / f"cpu{cpu}/topology"
        package = int(read(topology / "physical_package_id") or 0)
        core = int(read(topology / "core_id") or cpu)
        cpus.append(Cpu(cpu, (package, core), node_of.get(cpu, 0), cpu in isolated))
    return tuple(cpus)


def parse_cpu_list(text: str | None) -> list[int]:
    """Parse a list such as `0-3,8,10-11`; None and "" are empty lists."""
    numbers: list[int] = []
    for part in filter(None, (text or "").strip().split(",")):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def read(path: str | Path) -> str | None:
    """Return the text of a small file; None if it is missing, unreadable or empty."""
    try:
        text = Path(path).read_text(errors="replace").strip()
    except OSError:
        return None
    return text if text and text != "(null)" else None


def _flag(path: str | Path) -> bool | None:
    text = read(path)
    return None if text is None else text == "1"


def _distribution() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def read_cpu_info() -> CpuInfo:
    """Read the kernel's description of the CPU."""
    return parse_cpu_info(read("/proc/cpuinfo") or "")


@cache
def is_emulated() -> bool:
    """Return True if software emulates this machine's CPU (QEMU without KVM).

    Such a CPU is many times slower than hardware, so its rates mean nothing."""
    return emulated(os.uname().machine, read_cpu_info(), read)


def _caches() -> tuple[Cache, ...]:
    caches = []
    for path in sorted(CPU_DIR.glob("cpu0/cache/index*")):
        level, kind, size = read(path / "level"), read(path / "type"), read(path / "size")
        if level and kind and size:
            shared = read(path / "shared_cpu_list") or ""
            caches.append(Cache(int(level), kind, size, shared))
    return tuple(caches)


def _turbo() -> bool | None:
    no_turbo = _flag(CPU_DIR / "intel_pstate/no_turbo")
    return _flag(CPU_DIR / "cpufreq/boost") if no_turbo is None else not no_turbo


def _frequency_mhz(cpu: CpuInfo) -> float | None:
    if text := read(CPU_DIR / "cpu0/cpufreq/scaling_cur_freq"):
        return int(text) / 1000
    return float(cpu.fields["cpu MHz"]) if "cpu MHz" in cpu.fields else None


def _mitigations() -> dict[str, str]:
    paths = sorted((CPU_DIR / "vulnerabilities").glob("*"))
    texts = {path.name: text for path in paths if (text := read(path))}
    return {name: text for name, text in texts.items() if text != "Not affected"}


def memory_mb(meminfo: Path = Path("/proc/meminfo")) -> dict[str, int]:
    """Return the sizes in /proc/meminfo in MiB, by name: `MemTotal`, `MemAvailable` ..."""
    lines = re.findall(r"^(\w+):\s*(\d+) kB", read(meminfo) or "", re.MULTILINE)
    return {name: int(size_kb) // 1024 for name, size_kb in lines}


def _cgroup_version() -> str | None:
    mounts = read("/proc/self/mountinfo") or ""
    versions = [
        number for number, kind in (("1", "cgroup"), ("2", "cgroup2")) if f" - {kind} " in mounts
    ]
    return "+".join(versions) or None
