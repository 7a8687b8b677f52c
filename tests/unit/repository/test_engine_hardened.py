"""The hardening of the built engine, read from the binary as checksec does."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from switchmark.engine.binary import find_engine
from switchmark.errors import UnavailableError

pytestmark = pytest.mark.skipif(
    shutil.which("readelf") is None or shutil.which("objdump") is None,
    reason="no readelf and objdump (binutils)",
)


def read(*words: str) -> str:
    try:
        engine = find_engine()
    except UnavailableError as error:
        pytest.skip(str(error))
    return subprocess.run([*words, engine], capture_output=True, text=True, check=True).stdout


def machine_code(function: str) -> str:
    return read("objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}")


def test_engine_is_position_independent_with_full_relro() -> None:
    output = read("readelf", "-hlW")
    assert "DYN (Position-Independent Executable" in output
    assert "GNU_RELRO" in output
    (stack,) = [line for line in output.splitlines() if "GNU_STACK" in line]
    assert " RW " in stack
    assert not [line for line in output.splitlines() if "LOAD" in line and " RWE " in line]
    dynamic = read("readelf", "-dW")
    assert re.search(r"FLAGS_1.*\bNOW\b.*\bPIE\b", dynamic)
    assert "RPATH" not in dynamic
    assert "RUNPATH" not in dynamic


def test_functions_of_the_engine_call_fortified_functions() -> None:
    """DPDK's archives also contain fortified calls, so a function of the engine is checked."""
    assert "__printf_chk" in machine_code("options_print_help")


def test_functions_with_arrays_guard_their_frames() -> None:
    assert "__stack_chk_fail" in machine_code("json_number")
