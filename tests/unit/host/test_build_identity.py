"""Builds are identified by the linker's build ID, and figures of a slow engine are not valid."""

from __future__ import annotations

import hashlib
import os
import struct
import sys
from pathlib import Path

import pytest

from switchmark.engine.binary import build_problem
from switchmark.host.build_identity import build_id, running_programs
from switchmark.results.origins import build_in_words

VERSION = "switchmark-traffic 0.1.0"


def elf(notes: bytes) -> bytes:
    """Return a file with an ELF header and one program header, with these notes."""
    head = b"\x7fELF\x02\x01".ljust(32, b"\0") + struct.pack("<Q", 64)
    head = head.ljust(54, b"\0") + struct.pack("<HH", 56, 1)
    header = struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(notes), len(notes), 4)
    return head.ljust(64, b"\0") + header + notes


def note(kind: int, content: bytes) -> bytes:
    return struct.pack("<III", 4, len(content), kind) + b"GNU\0" + content


def test_build_id_is_read_behind_other_notes(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(elf(note(1, b"\1" * 16) + note(3, bytes(range(20)))))
    assert build_id(program) == bytes(range(20)).hex()


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", elf(note(1, b"\0" * 8)), elf(b"")[:70]])
def test_a_file_without_a_build_id_has_none(content: bytes, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(content)
    assert build_id(program) == build_id(tmp_path / "missing") == ""


def test_running_programs_are_identified() -> None:
    found = running_programs([os.getpid(), os.getpid(), 0])
    python = Path(sys.executable).resolve()
    assert found["program"] == str(python)
    assert found["program_sha256"] == hashlib.sha256(python.read_bytes()).hexdigest()
    assert found.get("program_build_id", "") == build_id(python)
    assert "dpdk_library" not in found


@pytest.mark.parametrize(
    ("printed", "problem"),
    [
        (f"{VERSION}\nbuilt with gcc -O3\n", None),
        (f"{VERSION}\n", "does not say how it was built"),
        (f"{VERSION}\nbuilt with gcc -O0\nnot for measuring: ...\n", "built with gcc -O0"),
    ],
)
def test_a_build_for_tests_is_refused(printed: str, problem: str | None, tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    engine.write_text(f"#!/bin/sh\ncat <<'TEXT'\n{printed}TEXT\n")
    engine.chmod(0o755)
    found = build_problem(engine)
    assert (found is None) if problem is None else (found is not None and problem in str(found))


def test_builds_are_described_in_words() -> None:
    build = (
        '{"compiler": "gcc 12", "optimisation": "3", "sanitizers": null, "coverage": false, '
        '"cpu": "znver3", "options": null, "dpdk": "22.11", "build_id": "00", "fast": true}'
    )
    assert build_in_words(build, build) == "gcc 12 -O3 znver3 DPDK 22.11"
    assert build_in_words(build.replace("00", "01")) == build_in_words(build), (
        "the revision does not matter"
    )
    assert build_in_words(build, build.replace("gcc 12", "clang 14")).count(";") == 1
    assert build_in_words(None, "[]", "{") == ""
