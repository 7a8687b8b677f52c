"""Threads of one heap, counted by what the kernel has mapped."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

HEAPS = """
import re, sys, threading
from switchmark.testbed.kernel.heap import share_one_heap
if sys.argv[1] == "shared":
    share_one_heap()
together, ended = threading.Barrier(5), threading.Event()
def work():
    together.wait()
    kept = [bytes(2000 + k) for k in range(200)]
    ended.wait()
threads = [threading.Thread(target=work) for _ in range(4)]
for one in threads:
    one.start()
together.wait()
maps = re.findall(r"^(\\w+)-(\\w+) (....)", open("/proc/self/maps").read(), re.M)
ended.set()
# A thread's heap is kept room for, up to 64 MiB, of which the rest may not be touched yet.
spans = [(int(begin, 16), int(end, 16), may) for begin, end, may in maps]
print(sum(
    one[1] == other[0] and other[1] == one[0] + (64 << 20) and other[2] == "---p"
    for one, other in zip(spans, spans[1:])
))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="heaps of threads are glibc's")
def test_threads_share_one_heap() -> None:
    own, shared = (
        int(subprocess.run([sys.executable, "-c", HEAPS, how], check=True, stdout=-1).stdout)
        for how in ("own", "shared")
    )
    assert shared == 0 < own
