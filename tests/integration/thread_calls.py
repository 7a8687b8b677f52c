"""A system call that another process's thread is made to do, by ptrace(2): what may it do there?"""

from __future__ import annotations

import ctypes
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager

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
    """The thread, once it is stopped in a system call of its own; afterwards that goes on."""
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
    """What the kernel answers to this call of the thread: -errno where it refuses."""
    with stopped_in_a_call(thread) as before:
        asked = Registers.from_buffer_copy(before)
        asked.rip, asked.rax, asked.orig_rax = before.rip - 2, number, 2**64 - 1
        asked.rdi, asked.rsi, asked.rdx = first, second, third
        ptrace(SET, thread, None, ctypes.byref(asked))
        ptrace(STEP, thread)
        os.waitpid(thread, WALL)
        ptrace(GET, thread, None, ctypes.byref(asked))
        return ctypes.c_int64(asked.rax).value


def landlock_version() -> int:
    """The version of Landlock that the kernel has; 0: none."""
    return max(0, _LIBC.syscall(444, None, 0, 1))
