"""Small questions a switch asks the machine before it starts: kernel features, memory, versions.

Nothing here changes the machine; `availability` is built on it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from switchmark.host.facts import parse_cpu_list, read
from switchmark.host.process_output import stdout_of
from switchmark.host.programs import digest, which
from switchmark.model.capabilities import Availability, unavailable

NODES = Path("/sys/devices/system/node")


def program_details(path: str) -> dict[str, str]:
    """The record's details of the program that was chosen: builds of one version differ."""
    if not path:
        return {}
    program = Path(path)
    return {"program": path, "program_sha256": digest(program)}


def own_text(name: str) -> str:
    """The text of a file of the switches' folder, also where the bench lies in an archive (on
    another host)."""
    return resources.files("switchmark.switch").joinpath(name).read_text("utf-8")


def version_text(program: Path) -> str:
    """What `program --version` prints, on one line; empty when it cannot be run."""
    return asked_once(_version_told, program)


def _version_told(program: Path) -> str:
    told = stdout_of([program, "--version"]) or ""
    return ", ".join(line.strip() for line in told.splitlines() if line.strip())


_ANSWERS: dict[tuple[str, Path, int], str] = {}


def asked_once(ask: Callable[[Path], str], program: Path) -> str:
    """What a program prints of itself, asked once for each state of its file: a program that is
    linked with DPDK takes 30 ms. An empty answer is not kept."""
    try:
        key = (ask.__qualname__, program, program.stat().st_mtime_ns)
    except OSError:
        return ""
    if key not in _ANSWERS and (told := ask(program)):
        _ANSWERS[key] = told
    return _ANSWERS.get(key, "")


def kernel_release() -> str:
    """The running kernel's release, e.g. `6.1.0-18-amd64`."""
    return os.uname().release


@cache
def _kernel_symbols() -> frozenset[str]:
    try:
        lines = Path("/proc/kallsyms").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(line.split()[2] for line in lines)


def kernel_has(module: str, symbol: str | None = None) -> bool:
    """Whether a kernel module is loaded, built in, or can be loaded on demand.

    `symbol` is a kernel function that gives away a built-in one without parameters."""
    if Path(f"/sys/module/{module}").exists():
        return True
    modprobe = which("modprobe")
    if modprobe and stdout_of([modprobe, "-n", "-q", module]) is not None:
        return True
    return symbol is not None and symbol in _kernel_symbols()


def kernel_lacks(modules: Mapping[str, str | None], settings: str) -> Availability | None:
    """Unavailable, where the kernel lacks some of these modules (each with a function that gives
    it away, as `kernel_has` takes it); `settings` are those of its build. None where it has all."""
    missing = [module for module, symbol in modules.items() if not kernel_has(module, symbol)]
    if not missing:
        return None
    return unavailable(
        f"Linux {kernel_release()} has no {' and no '.join(missing)}",
        remedy=f"use a kernel with {settings}",
    )


def memory_nodes() -> int:
    """How many NUMA nodes with memory the machine has; 1 where the kernel does not say."""
    return max(1, len(parse_cpu_list(read(NODES / "has_memory"))))


def allowed_cores() -> list[int]:
    """Return the cores that this process may use: online, in its affinity mask and its cpuset."""
    return sorted(os.sched_getaffinity(0))


def other_cores(cores: Iterable[int]) -> list[int]:
    """Return the allowed cores except these, or all allowed cores if none would be left."""
    allowed = allowed_cores()
    return [core for core in allowed if core not in set(cores)] or allowed
