"""An assembler for small BPF programs.

With it a switch that is a BPF program needs no compiler on the user's machine. Numbers and layouts
are those of the kernel's ABI (include/uapi/linux/bpf.h).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace

XDP_DROP = 1
HELPER_MAP_LOOKUP, HELPER_TIME_NS, HELPER_CLONE_REDIRECT, HELPER_PID = 1, 5, 13, 14
HELPER_REDIRECT_MAP = 51


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; `jump_to` names the label that it jumps to, `label` its own."""

    opcode: int
    dst: int = 0
    src: int = 0
    offset: int = 0
    immediate: int = 0
    jump_to: str | None = None
    label: str | None = None

    def at(self, label: str | None) -> Instruction:
        """This instruction with a label to jump to."""
        return replace(self, label=label)

    def encoded(self, offset: int) -> bytes:
        """The 8 bytes the kernel reads."""
        return struct.pack("=BBhi", self.opcode, self.src << 4 | self.dst, offset, self.immediate)


def move(dst: int, src: int) -> Instruction:
    """dst = src."""
    return Instruction(0xBF, dst, src)


def set_to(dst: int, value: int) -> Instruction:
    """dst = a constant."""
    return Instruction(0xB7, dst, immediate=value)


def add(dst: int, value: int) -> Instruction:
    """dst += a constant."""
    return Instruction(0x07, dst, immediate=value)


def subtract(dst: int, src: int) -> Instruction:
    """dst -= src."""
    return Instruction(0x1F, dst, src)


def join(dst: int, src: int) -> Instruction:
    """dst += src."""
    return Instruction(0x0F, dst, src)


def remainder(dst: int, divisor: int) -> Instruction:
    """dst %= a constant."""
    return Instruction(0x97, dst, immediate=divisor)


def mask(dst: int, bits: int) -> Instruction:
    """dst &= a constant."""
    return Instruction(0x57, dst, immediate=bits)


def shift_left(dst: int, bits: int) -> Instruction:
    """dst <<= a constant."""
    return Instruction(0x67, dst, immediate=bits)


def shift_right(dst: int, bits: int) -> Instruction:
    """dst >>= a constant, unsigned."""
    return Instruction(0x77, dst, immediate=bits)


def fetch_add(dst: int, offset: int, src: int) -> Instruction:
    """The 64 bits at dst + offset += src at once; src = what was there before."""
    return Instruction(0xDB, dst, src, offset, immediate=1)


def load(bits: int, dst: int, src: int, offset: int) -> Instruction:
    """dst = the 16, 32 or 64 bits at src + offset."""
    return Instruction({16: 0x69, 32: 0x61, 64: 0x79}[bits], dst, src, offset)


def store(bits: int, dst: int, offset: int, src: int) -> Instruction:
    """The 16, 32 or 64 bits at dst + offset = src."""
    return Instruction({16: 0x6B, 32: 0x63, 64: 0x7B}[bits], dst, src, offset)


def increment(pointer: int, offset: int) -> list[Instruction]:
    """Add 1 to a counter of 64 bits, which only its own core changes; changes r1."""
    return [load(64, 1, pointer, offset), add(1, 1), store(64, pointer, offset, 1)]


def jump(to: str) -> Instruction:
    """Jump to the label."""
    return Instruction(0x05, jump_to=to)


def jump_if_equal(dst: int, value: int, to: str) -> Instruction:
    """Jump to the label when dst is a constant."""
    return Instruction(0x15, dst, immediate=value, jump_to=to)


def jump_unless_equal(dst: int, value: int, to: str) -> Instruction:
    """Jump to the label when dst is not a constant."""
    return Instruction(0x55, dst, immediate=value, jump_to=to)


def jump_unless_same(dst: int, src: int, to: str) -> Instruction:
    """Jump to the label when dst is not src."""
    return Instruction(0x5D, dst, src, jump_to=to)


def jump_if_at_least(dst: int, value: int, to: str) -> Instruction:
    """Jump to the label when dst >= a constant, both unsigned."""
    return Instruction(0x35, dst, immediate=value, jump_to=to)


def jump_unless_positive(dst: int, to: str) -> Instruction:
    """Jump to the label when dst <= 0, signed."""
    return Instruction(0xD5, dst, jump_to=to)


def jump_if_greater(dst: int, src: int, to: str) -> Instruction:
    """Jump to the label when dst > src, both unsigned."""
    return Instruction(0x2D, dst, src, jump_to=to)


def load_map(dst: int, map_fd: int) -> tuple[Instruction, Instruction]:
    """dst = a map; takes the place of two instructions."""
    return Instruction(0x18, dst, 1, immediate=map_fd), Instruction(0)


def call(helper: int) -> Instruction:
    """r0 = helper(r1, r2, r3, r4, r5); these five are lost, r6 to r9 are kept."""
    return Instruction(0x85, immediate=helper)


def find_value(map_fd: int, key_at: int, missing: str) -> list[Instruction]:
    """r0 = the address of the value whose key is on the stack at `key_at`; jumps to `missing` where
    the map has none."""
    return [
        *load_map(1, map_fd),
        move(2, 10),
        add(2, key_at),
        call(HELPER_MAP_LOOKUP),
        jump_if_equal(0, 0, missing),
    ]


def leave() -> Instruction:
    """Return r0."""
    return Instruction(0x95)


def assemble(program: Iterable[Instruction]) -> bytes:
    """The program with its jumps resolved; a jump counts from the instruction after it."""
    instructions = list(program)
    places = {each.label: place for place, each in enumerate(instructions) if each.label}
    return b"".join(
        each.encoded(each.offset if each.jump_to is None else places[each.jump_to] - place - 1)
        for place, each in enumerate(instructions)
    )
