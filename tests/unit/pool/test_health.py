"""The health of a testbed: when it is fit, when it is out, and the reason."""

from __future__ import annotations

from switchmark.host.diagnosis import Finding, Level
from switchmark.pool.health import (
    busy_problem,
    doctor_problem,
    profile_now,
    version_problem,
    wire_problem,
)
from switchmark.testbed.testbed import HealthLimits

USUAL = HealthLimits()
MACHINE = {"cpu_model": "Invented CPU", "kernel": "6.1.0", "governor": "performance"}


def finding(topic: str, level: Level) -> Finding:
    return Finding(topic, "seen", level, "its meaning", "its remedy")


def test_a_testbed_that_did_not_change_is_fit() -> None:
    profile = profile_now(MACHINE, [finding("governor", Level.GOOD)])
    assert version_problem(profile, MACHINE, "lab1") is None
    assert doctor_problem(profile, [finding("governor", Level.GOOD)]) is None


def test_another_kernel_is_reported_with_the_remedy() -> None:
    profile = profile_now(MACHINE, [])
    problem = version_problem(profile, MACHINE | {"kernel": "6.2.0"}, "lab1")
    assert problem == (
        "kernel was 6.1.0, is 6.2.0; if the change is intended: switchmark pool accept lab1"
    )


def test_only_relevant_findings_that_were_good_can_be_poor() -> None:
    profile = profile_now(MACHINE, [finding("governor", Level.GOOD), finding("memory", Level.POOR)])
    poor = [finding(topic, Level.POOR) for topic in ("governor", "memory", "SMT")]
    assert doctor_problem(profile, poor) == "governor: seen (its meaning; its remedy)"


def test_wire_at_a_known_rate_passes_with_a_single_try() -> None:
    assert wire_problem([1.0e6, 2.0e6], [0.7e6], USUAL) is None
    assert wire_problem([1.0e6, 2.0e6], [2.9e6], USUAL) is None
    assert wire_problem([1.0e6, 2.0e6], [0.1e6, 1.0e6], USUAL) is None


def test_slow_wire_is_reported_with_both_figures() -> None:
    problem = wire_problem([1.0e6, 2.0e6], [0.5e6, 0.4e6, 0.45e6], USUAL)
    assert problem is not None
    assert "is 0.500 Mpps, and was 1.000 to 2.000" in problem


def test_faster_wire_is_reported_unless_allowed() -> None:
    problem = wire_problem([1.0e6, 2.0e6], [9.0e6], USUAL)
    assert problem is not None
    assert problem.endswith("if the change is intended: switchmark pool accept TESTBED")
    assert wire_problem([1.0e6, 2.0e6], [9.0e6], HealthLimits(wire_tolerance=5)) is None


def test_other_programs_may_use_the_allowed_cores() -> None:
    assert busy_problem([], 4, USUAL) is None
    assert busy_problem([3.9, 2.0], 4, USUAL) is None
    problem = busy_problem([3.9, 2.1, 2.5], 4, USUAL)
    assert problem is not None
    assert problem.startswith("other programs use 2.1 cores of 4; the limit is 2;")
    assert busy_problem([3.9, 3.1, 3.5], 4, HealthLimits(busy_cores=3.2)) is None
    assert busy_problem([1.0], 4, HealthLimits(busy_cores=0.5)) is not None
