"""Free memory in the heaps of a process, as the kernel counts it."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import re, sys, threading
from switchmark.host.kernel.heap import return_free_memory
if sys.argv[1] == "ours":
    return_free_memory()
def mapped():
    return open("/proc/self/maps").read()
"""
HEAPS_OF_THREADS = """
together, ended = threading.Barrier(5), threading.Event()
def work():
    together.wait()
    kept = [bytes(2000 + k) for k in range(200)]
    ended.wait()
threads = [threading.Thread(target=work) for _ in range(4)]
for one in threads:
    one.start()
together.wait()
maps = re.findall(r"^(\\w+)-(\\w+) (....)", mapped(), re.M)
ended.set()
# A thread's heap is kept room for, up to 64 MiB, of which the rest may not be touched yet.
spans = [(int(begin, 16), int(end, 16), may) for begin, end, may in maps]
print(sum(
    one[1] == other[0] and other[1] == one[0] + (64 << 20) and other[2] == "---p"
    for one, other in zip(spans, spans[1:])
))
"""
GROWTH_OF_THE_HEAP = """
def heap():
    begin, end = re.search(r"^(\\w+)-(\\w+) .*\\[heap\\]", mapped(), re.M).groups()
    return int(end, 16) - int(begin, 16)
large = bytes(8 << 20)
del large
before = heap()
smaller = [bytes(2 << 20) for _ in range(3)]
print((heap() - before) >> 20)
"""

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc that does")


def counted(program: str, how: str) -> int:
    command = [sys.executable, "-c", BEGIN + program, how]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


@pytest.mark.parametrize("program", [HEAPS_OF_THREADS, GROWTH_OF_THE_HEAP])
def test_free_memory_is_returned(program: str) -> None:
    if program is GROWTH_OF_THE_HEAP and "[heap]" not in Path("/proc/self/maps").read_text():
        pytest.skip("this kernel does not name the heap in a process's maps")
    assert counted(program, "ours") == 0 < counted(program, "glibc's")
