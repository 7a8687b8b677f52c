"""How busy the machine's cores are at this moment.

Not the load average: that remembers for minutes what has ended, such as our own last trial.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")
_IDLE, _IOWAIT = 3, 4  # fields of its first line, after the name (proc_stat(5))
_GUEST = 8  # and later: time that is counted in user and nice, too


def busy_cores(over_s: float, stat: Path = _STAT) -> float:
    """How many cores were in use, by any program, on average over so many seconds from now. Time
    that the hypervisor took from a virtual machine (steal) counts as in use."""
    before = _busy_ticks(stat)
    begun = time.monotonic()
    time.sleep(over_s)
    ticks = _busy_ticks(stat) - before
    return ticks / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begun)


def _busy_ticks(stat: Path) -> int:
    with stat.open() as file:
        ticks = [int(field) for field in file.readline().split()[1:]]
    return sum(ticks[:_GUEST]) - ticks[_IDLE] - ticks[_IOWAIT]
