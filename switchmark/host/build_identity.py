"""Identifies the builds of running programs: two builds of one version may differ in speed.

A build is known by its path, the SHA-256 of its file and the build ID that its linker wrote; of a
program that loads DPDK as shared libraries, also by the library that it has loaded.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from switchmark.host.programs import digest

_PT_NOTE, _NT_GNU_BUILD_ID = 4, 3
_MOST_NOTES_BYTES = 1 << 16
_LIBRARY = re.compile(r"(/\S*/librte_eal\.so\S*)")


def build_id(program: Path) -> str:
    """The build ID of a 64-bit little-endian ELF file in hexadecimal; empty where it has none, or
    is another kind of file."""
    with suppress(OSError, struct.error), program.open("rb") as opened:
        head = opened.read(64)
        if head[:6] != b"\x7fELF\x02\x01":
            return ""
        table, size, count = (
            *struct.unpack_from("<Q", head, 32),
            *struct.unpack_from("<HH", head, 54),
        )
        for index in range(count):
            opened.seek(table + index * size)
            kind, _, place, _, _, length = struct.unpack("<IIQQQQ", opened.read(40))
            if kind == _PT_NOTE and length <= _MOST_NOTES_BYTES:
                opened.seek(place)
                if found := _among(opened.read(length)):
                    return found
    return ""


def _among(notes: bytes) -> str:
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        begin = at + 12 + -(-name_size // 4) * 4
        if kind == _NT_GNU_BUILD_ID and notes[at + 12 : at + 12 + name_size] == b"GNU\0":
            return notes[begin : begin + size].hex()
        at = begin + -(-size // 4) * 4
    return ""


def running_programs(pids: Iterable[int]) -> dict[str, str]:
    """The record's details of the programs that these processes run: `program`,
    `program_sha256`, `program_build_id`, and `dpdk_library` with its build ID. Several programs
    have commas between them; unreadable programs are left out."""
    found: dict[str, dict[str, None]] = {}
    visited: set[str] = set()
    for pid in pids:
        process = Path(f"/proc/{pid}")
        with suppress(OSError):
            path = str((process / "exe").readlink())
            if path in visited:
                continue
            visited.add(path)
            _note(found, "program", path)
            is_here = Path(path).exists() and (process / "exe").samefile(path)
            _note(found, "program_sha256", digest(Path(path)) if is_here else "")
            _note(found, "program_build_id", build_id(process / "exe"))
            maps = (process / "maps").read_text(errors="replace")
            if library := _LIBRARY.search(maps):
                _note(found, "dpdk_library", library[1])
                inside = process / "root" / library[1].lstrip("/")
                _note(found, "dpdk_library_build_id", build_id(inside))
    return {name: ", ".join(values) for name, values in found.items()}


def _note(found: dict[str, dict[str, None]], name: str, value: str) -> None:
    if value:
        found.setdefault(name, {})[value] = None
