"""Queries of the machine for the availability of switches: kernel features, memory, versions.

They change nothing on the machine.
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
    """Return the details of the chosen program for the record, since builds of a version differ."""
    if not path:
        return {}
    program = Path(path)
    return {"program": path, "program_sha256": digest(program)}


def own_text(name: str) -> str:
    """Return the text of a file in the folder of the switches, also if the bench is in an archive
    (on a remote host)."""
    return resources.files("switchmark.switch").joinpath(name).read_text("utf-8")


def version_text(program: Path) -> str:
    """Return the output of `program --version` on one line; empty if it does not run."""
    return query_once(_read_version, program)


def _read_version(program: Path) -> str:
    output = stdout_of([program, "--version"]) or ""
    return ", ".join(line.strip() for line in output.splitlines() if line.strip())


_ANSWERS: dict[tuple[str, Path, int], str] = {}


def query_once(ask: Callable[[Path], str], program: Path) -> str:
    """Return a program's output about itself, with one call for each state of its file, because a
    program with DPDK takes 30 ms. An empty output is not cached."""
    try:
        key = (ask.__qualname__, program, program.stat().st_mtime_ns)
    except OSError:
        return ""
    if key not in _ANSWERS and (output := ask(program)):
        _ANSWERS[key] = output
    return _ANSWERS.get(key, "")


def kernel_release() -> str:
    """Return the running kernel's release, for example `6.1.0-18-amd64`."""
    return os.uname().release


@cache
def _kernel_symbols() -> frozenset[str]:
    try:
        lines = Path("/proc/kallsyms").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(line.split()[2] for line in lines)


def kernel_has(module: str, symbol: str | None = None) -> bool:
    """Return True if a kernel module is loaded, built in, or can be loaded on demand.

    `symbol` is a kernel function that shows a built-in module without parameters."""
    if Path(f"/sys/module/{module}").exists():
        return True
    modprobe = which("modprobe")
    if modprobe and stdout_of([modprobe, "-n", "-q", module]) is not None:
        return True
    return symbol is not None and symbol in _kernel_symbols()


def kernel_lacks(modules: Mapping[str, str | None], settings: str) -> Availability | None:
    """Return the problem if the kernel lacks some of these modules (each with the symbol for
    `kernel_has`); None if it has all. `settings` are the settings of the kernel's build."""
    missing = [module for module, symbol in modules.items() if not kernel_has(module, symbol)]
    if not missing:
        return None
    return unavailable(
        f"Linux {kernel_release()} has no {' and no '.join(missing)}",
        remedy=f"use a kernel with {settings}",
    )


def memory_nodes() -> int:
    """Return the number of NUMA nodes with memory; 1 if the kernel does not report it."""
    return max(1, len(parse_cpu_list(read(NODES / "has_memory"))))


def allowed_cores() -> list[int]:
    """Return the cores that this process may use: online, in its affinity mask and its cpuset."""
    return sorted(os.sched_getaffinity(0))


def other_cores(cores: Iterable[int]) -> list[int]:
    """Return the allowed cores except these, or all allowed cores if none would be left."""
    allowed = allowed_cores()
    return [core for core in allowed if core not in set(cores)] or allowed
