"""Run a program on a clock that agrees with the host's: a time namespace whose CLOCK_MONOTONIC is
the host's own to some hundredths of a second, as if the program ran on the host.

    python tests/vm/in_step.py REALTIME_MINUS_MONOTONIC PROGRAM ARGUMENT...

The host's time is the modification time of a file that is written over 9p: the host's kernel
stamps it. The number is the host's, by which its two clocks differ.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

CLONE_NEWTIME = 0x80
STAMP = Path("/exchange/stamp")
OFFSETS = Path("/proc/self/timens_offsets")


def ahead_ns(host_clocks_differ_ns: int) -> int:
    """How far the host's CLOCK_MONOTONIC is ahead of ours: the best of several readings."""
    readings = []
    for _ in range(5):
        before = time.monotonic_ns()
        STAMP.write_text(str(before))
        stamped = STAMP.stat().st_mtime_ns
        took = time.monotonic_ns() - before
        readings.append((took, stamped - host_clocks_differ_ns - before - took // 2))
    return min(readings)[1]


def main() -> int:
    """The program's exit code."""
    offset_ns = ahead_ns(int(sys.argv[1]))
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWTIME) != 0:
        sys.exit(f"in_step: no time namespace: {os.strerror(ctypes.get_errno())}")
    OFFSETS.write_text(f"monotonic {offset_ns // 10**9} {offset_ns % 10**9}\n")
    child = os.fork()  # children are in the new namespace, we are not
    if child == 0:
        os.execv(sys.argv[2], sys.argv[2:])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
