"""The congestion controls of TCP that this kernel has: loaded, or as modules that it can load."""

from __future__ import annotations

import os
import re
from pathlib import Path

from switchmark.model.capabilities import Availability, available, unavailable

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
MODULES = Path("/lib/modules")
# Algorithms of the kernel's source. A kernel can have others, by modules and BPF programs.
OF_LINUX = frozenset({
    "bbr", "bic", "cdg", "cubic", "dctcp", "dctcp-reno", "highspeed", "htcp", "hybla", "illinois",
    "lp", "nv", "reno", "scalable", "vegas", "veno", "westwood", "yeah",
})  # fmt: skip


def congestion_controls() -> tuple[str, ...]:
    """Return the congestion controls that the kernel has loaded."""
    try:
        return tuple(AVAILABLE.read_text().split())
    except OSError:
        return ()


def is_known(name: str) -> bool:
    """Return True if Linux has an algorithm of this name, whether or not this kernel has it."""
    return name in OF_LINUX or name in congestion_controls() or name in _loadable()


def congestion_control_availability(name: str) -> Availability:
    """Return whether a route can have this congestion control."""
    loaded = congestion_controls()
    if not loaded:  # the kernel does not say; setting the route will
        return available("unknown")
    if name in loaded:
        return available("loaded")
    if name in _loadable():
        return available("a module")
    return unavailable(
        f"this kernel has {', '.join(sorted(loaded))}", remedy=f"use {loaded[0]}, or leave it out"
    )


def _loadable() -> frozenset[str]:
    """Return the congestion controls among the modules of the running kernel."""
    try:
        listed = (MODULES / os.uname().release / "modules.dep").read_text()
    except OSError:
        return frozenset()
    return frozenset(re.findall(r"^[^:\n]*/net/ipv4/tcp_(\w+)\.ko", listed, re.MULTILINE))
