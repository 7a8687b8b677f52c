"""Makes a thread of another process execute a system call by ptrace(2), to test its permissions."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

needs_ptrace = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="registers are those of x86-64"
)

SEIZE, INTERRUPT, CONT, GET, SET, STEP, DETACH, PEEK = 0x4206, 0x4207, 7, 12, 13, 9, 17, 1
WALL = 0x40000000
SYSCALL = 0x050F  # the instruction
KILL = 62
# linux/user.h
NAMES = (
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi",
    "rdi", "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs",
    "gs",
)  # fmt: skip


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in NAMES]


_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.restype = ctypes.c_long
_LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request: int, thread: int, address: object = None, data: object = None) -> int:
    ctypes.set_errno(0)
    result = _LIBC.ptrace(request, thread, address, data)
    if number := ctypes.get_errno():
        raise OSError(number, os.strerror(number))
    return int(result)


@contextmanager
def stopped_in_a_call(thread: int) -> Iterator[Registers]:
    """The thread, stopped in one of its system calls, which goes on afterwards."""
    registers = Registers()
    ptrace(SEIZE, thread)
    for _ in range(1000):
        ptrace(INTERRUPT, thread)
        os.waitpid(thread, WALL)
        ptrace(GET, thread, None, ctypes.byref(registers))
        if ptrace(PEEK, thread, registers.rip - 2) & 0xFFFF == SYSCALL:
            break
        ptrace(CONT, thread)
        time.sleep(0.001)
    try:
        yield registers
    finally:
        ptrace(SET, thread, None, ctypes.byref(registers))
        ptrace(DETACH, thread)


def call_of(thread: int, number: int, first: int, second: int = 0, third: int = 0) -> int:
    """Return the kernel's result of this call of the thread: -errno if it refuses."""
    with stopped_in_a_call(thread) as before:
        return _asked(thread, before, before.rip - 2, number, first, second, third)


def call_by(instruction: int, thread: int, number: int, first: int, second: int) -> int:
    """Make a call in a thread that may never make one, by an instruction at another address."""
    with stopped(thread) as before:
        return _asked(thread, before, instruction, number, first, second)


def _asked(thread: int, before: Registers, instruction: int, number: int, *arguments: int) -> int:
    call = Registers.from_buffer_copy(before)
    call.rip, call.rax, call.orig_rax = instruction, number, 2**64 - 1
    for name, value in zip(("rdi", "rsi", "rdx"), arguments, strict=False):
        setattr(call, name, value)
    ptrace(SET, thread, None, ctypes.byref(call))
    while call.rip == instruction:  # an earlier signal stops it once more
        ptrace(STEP, thread)
        os.waitpid(thread, WALL)
        ptrace(GET, thread, None, ctypes.byref(call))
    return ctypes.c_int64(call.rax).value


@contextmanager
def stopped(thread: int) -> Iterator[Registers]:
    """The thread, stopped anywhere; it goes on afterwards."""
    registers = Registers()
    ptrace(SEIZE, thread)
    ptrace(INTERRUPT, thread)
    os.waitpid(thread, WALL)
    ptrace(GET, thread, None, ctypes.byref(registers))
    try:
        yield registers
    finally:
        ptrace(SET, thread, None, ctypes.byref(registers))
        ptrace(DETACH, thread)


def instruction_of(pid: int) -> int:
    """Return the address of a system call instruction in the kernel's mapping of a process."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    begin, end = (int(one, 16) for one in re.findall(r"(\w+)-(\w+) .*\[vdso\]", maps)[0])
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        memory.seek(begin)
        return begin + memory.read(end - begin).index(SYSCALL.to_bytes(2, "little"))


def landlock_version() -> int:
    """Return the kernel's version of Landlock; 0 without it."""
    return max(0, _LIBC.syscall(444, None, 0, 1))
