"""Hardware counters during a trial: cycles, instructions, misses, energy.

Hardware events are counted, never sampled (perf_event_open(2)). They are counted for the threads of
the switch. For a switch in the kernel, which has no threads, they are counted on the cores where it
works, with all other work there. Energy comes from RAPL, by the kernel's powercap tree. If a
machine, container or guest does not provide them, a reason takes the place of the figure.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from switchmark.host.cores.cpu_time import CpuReading
from switchmark.host.kernel.mounts import libc
from switchmark.host.kernel.procfs import threads_of

SYSTEM_CALLS = {"x86_64": 298, "aarch64": 241}  # perf_event_open
POWERCAP = Path("/sys/class/powercap")

_HARDWARE, _CACHE = 0, 3  # enum perf_type_id
_READ_FORMAT = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED | _RUNNING
_INHERIT, _CLOSE_ON_EXEC = 1 << 1, 8
_DTLB_READ_MISS = 3 | (0 << 8) | (1 << 16)
# The CPU can count these at the same time. More events would take turns, and each turn disturbs.
EVENTS: dict[str, tuple[int, int]] = {
    "cycles": (_HARDWARE, 0),
    "instructions": (_HARDWARE, 1),
    "cache_references": (_HARDWARE, 2),
    "cache_misses": (_HARDWARE, 3),
    "dtlb_misses": (_CACHE, _DTLB_READ_MISS),
}


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts. `share` is the share of the time in which the counters ran: below 1, they took
    turns with other counters, and the counts were scaled up."""

    scope: str
    values: Mapping[str, int]
    share: float


@dataclass
class HardwareCounters:
    """Counters that run from `open_for` to `stop`. `absent` is the reason if there are none."""

    scope: str = ""
    absent: str = ""
    _files: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def open_for(cls, pids: Sequence[int], cores: Iterable[int]) -> HardwareCounters:
        """Count for all threads of these processes or, without processes, on these cores."""
        number = SYSTEM_CALLS.get(platform.machine())
        if number is None:
            return cls(absent=f"no perf_event_open number is known for {platform.machine()}")
        distinct = sorted(set(cores))
        threads = threads_of(pids)
        if pids:
            targets, scope = [(thread, -1) for thread in threads], "the switch's threads"
        else:
            targets = [(-1, core) for core in distinct]
            scope = f"all on cores {','.join(map(str, distinct))}"
        counters = cls(scope=scope)
        for name, (kind, config) in EVENTS.items():
            files = [_open(number, kind, config, *target) for target in targets]
            counters._files[name] = [fd for fd in files if fd >= 0]
            refused = next((-fd for fd in files if fd < 0), None)
            if refused is not None and not counters._files[name] and name == "cycles":
                counters.close()
                return cls(absent=_reason(refused))
        return counters

    def close(self) -> None:
        """Stop counting, and discard the counts. Idempotent."""
        for files in self._files.values():
            for fd in files:
                os.close(fd)
        self._files = {}

    def stop(self) -> Counted | None:
        """Read the counters and close them; None if nothing was counted."""
        values: dict[str, int] = {}
        share = 1.0
        for name, files in self._files.items():
            readings = [struct.unpack("QQQ", os.read(fd, 24)) for fd in files]
            ran = sum(running for _, _, running in readings)
            if not ran:
                continue
            enabled = sum(total for _, total, _ in readings)
            share = min(share, ran / enabled)
            values[name] = round(
                sum(v * total / running for v, total, running in readings if running)
            )
        self.close()
        return Counted(self.scope, values, share) if values.get("cycles") else None


def _open(number: int, kind: int, config: int, pid: int, cpu: int) -> int:
    """Return the file descriptor of a counter, or the negative errno."""
    attributes = struct.pack("IIQQQQQ", kind, 112, config, 0, 0, _READ_FORMAT, _INHERIT)
    buffer = ctypes.create_string_buffer(attributes.ljust(112, b"\0"), 112)
    fd = libc().syscall(number, buffer, pid, cpu, -1, ctypes.c_ulong(_CLOSE_ON_EXEC))
    return int(fd) if fd >= 0 else -ctypes.get_errno()


def _reason(code: int) -> str:
    if code in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return "this machine (or guest) has no hardware counters"
    if code in (errno.EACCES, errno.EPERM):
        return "the kernel does not allow it; sysctl kernel.perf_event_paranoid=0, or use root"
    return f"perf_event_open: {os.strerror(code)}"


@dataclass(frozen=True)
class EnergyReading:
    """Joules that RAPL has counted, by domain, and the value at which each counter wraps."""

    joules: dict[str, float]
    wraps_at: dict[str, float]

    @classmethod
    def take(cls, root: Path = POWERCAP) -> EnergyReading:
        """Read all RAPL domains that can be read; empty if there are none."""
        joules, wraps = {}, {}
        for zone in sorted(root.glob("*:*")):
            with suppress(OSError, ValueError):
                now = int((zone / "energy_uj").read_text()) / 1e6
                name = f"{(zone / 'name').read_text().strip()} ({zone.name})"
                wraps[name] = int((zone / "max_energy_range_uj").read_text()) / 1e6
                joules[name] = now
        return cls(joules, wraps)


@dataclass(frozen=True, slots=True)
class MeterReading:
    """Readings on one host after the traffic."""

    clocks: CpuReading
    counted: Counted | None
    counters_absent: str  # the reason if nothing was counted
    energy_before: EnergyReading
    energy: EnergyReading
    energy_absent: str


def energy_absent(root: Path = POWERCAP) -> str:
    """Return the reason why there is no energy figure."""
    if not root.is_dir():
        return "this kernel has no powercap tree (RAPL)"
    if not list(root.glob("*:*")):
        return "this machine (or guest) shows no RAPL domain"
    return "the RAPL counters cannot be read; run it as root of the machine"
