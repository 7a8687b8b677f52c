"""`doctor`'s findings about the limits of a place."""

from __future__ import annotations

from typing import Any

import pytest

from switchmark.host.diagnosis import Finding, Level
from switchmark.host.limits_diagnosis import diagnose_limits
from switchmark.host.place import Kind
from tests.unit.conftest import limits

MIB = 1 << 20
FOUR = (0, 1, 2, 3)


def findings(kind: Kind = Kind.CONTAINER, **changes: Any) -> dict[str, Finding]:
    found = diagnose_limits(limits(allowed_cpus=FOUR, **changes), kind)
    return {one.topic: one for one in found}


def test_no_limits_are_good() -> None:
    assert {one.level for one in findings().values()} == {Level.GOOD}


@pytest.mark.parametrize(
    ("quota", "level", "meaning"),
    [
        (0.5, Level.POOR, "nothing can be measured"),
        (1.9, Level.POOR, "switches that poll are refused"),
        (2.5, Level.NOTE, "kept to 2 CPUs"),
        (4.0, Level.GOOD, "enough"),
    ],
)
def test_the_cpu_quota(quota: float, level: Level, meaning: str) -> None:
    found = findings(cpu_quota=quota)["CPU quota"]
    assert found.level == level and meaning in found.meaning
    assert found.value.startswith(f"{quota:g} CPUs, of 4")
    assert level == Level.GOOD or "docker run --cpus=N" in str(found.remedy)


@pytest.mark.parametrize(
    ("whole_mb", "left_mb", "level"),
    [(2048, 1024, Level.GOOD), (2047, 2047, Level.POOR), (4096, 1023, Level.POOR)],
)
def test_less_memory_than_promised_is_a_warning(whole_mb: int, left_mb: int, level: Level) -> None:
    changes = {"memory_bytes": whole_mb * MIB, "memory_left_bytes": left_mb * MIB}
    found = findings(Kind.ROOT, **changes)["memory limit"]
    assert (
        found.level == level and found.value == f"{whole_mb} MiB, of which {left_mb} MiB are left"
    )
    assert level == Level.GOOD or "MemoryMax= of the systemd unit" in str(found.remedy)


def test_few_tasks_and_files_are_named() -> None:
    found = findings(tasks=300, tasks_left=199, open_files=64, locked_memory_bytes=8 * MIB)
    finding = found["other limits"]
    assert (
        finding.level is Level.POOR
        and "few processes and threads and open files" in finding.meaning
    )
    assert "--pids-limit" in str(finding.remedy) and "nofile" in str(finding.remedy)
    assert (
        "199 more processes and threads" in finding.value and "8192 KiB of locked" in finding.value
    )
