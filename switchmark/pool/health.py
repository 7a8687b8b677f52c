"""Compares a testbed with its profile of when it was admitted: pure functions that return a
problem.

There are three checks before each block. Versions: processor, kernel, engine, governor and cores
are those of the profile. Doctor: nothing that was good then is poor now, and no other program is
busy. Baseline: a short run without a switch has the rate that it had then. The testbed's file
contains its owner's limits (`HealthLimits`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from switchmark.host.diagnosis import BUSY_SHARE, Finding, Level
from switchmark.testbed.testbed import HealthLimits
from switchmark.version import __version__

CALIBRATION_RUNS = 5  # baseline runs when a testbed is admitted
TRIES = 3  # so that a short disturbance does not take a testbed out
BUSY_TRY_S = 0.2
CHECKED_TOPICS = ("governor", "memory", "hugepages")


def profile_now(machine: Mapping[str, Any], findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the testbed's profile now, as JSON: later checks compare with it."""
    good = [finding.topic for finding in findings if finding.level is not Level.POOR]
    return {
        "machine": dict(machine),
        "switchmark": __version__,
        "good": [topic for topic in CHECKED_TOPICS if topic in good],
    }


def version_problem(
    profile: Mapping[str, Any], machine: Mapping[str, Any], testbed: str
) -> str | None:
    """Return the versions that differ from the profile, and the remedy; None if none differs."""
    now = {**machine, "switchmark": __version__}
    before = {**profile.get("machine", {}), "switchmark": profile.get("switchmark")}
    changed = [
        f"{name} was {before.get(name)}, is {value}"
        for name, value in now.items()
        if before.get(name) != value
    ]
    if not changed:
        return None
    return f"{'; '.join(changed)}; if the change is intended: switchmark pool accept {testbed}"


def doctor_problem(profile: Mapping[str, Any], findings: Sequence[Finding]) -> str | None:
    """Return the topics that were good when the testbed was admitted and are poor now, or None."""
    poor = [
        f"{finding.topic}: {finding.value} "
        f"({finding.meaning}{'; ' + finding.remedy if finding.remedy else ''})"
        for finding in findings
        if finding.level is Level.POOR
        and finding.topic in profile.get("good", ())
        and finding.topic in CHECKED_TOPICS
    ]
    return "; ".join(poor) or None


def busy_problem(busy: Sequence[float], cpus: int, limits: HealthLimits) -> str | None:
    """Return why the machine is too busy to measure or to be admitted, or None.

    `busy` has the number of cores that other programs used, one for each try. A baseline that is
    measured beside them is not a reference."""
    limit = BUSY_SHARE * cpus if limits.busy_cores is None else limits.busy_cores
    if not busy or min(busy) <= limit:
        return None
    return (
        f"other programs use {min(busy):.1f} cores of {cpus}; the limit is {limit:g}; stop "
        "them, or allow it in the testbed's file: `health: {busy_cores: ..., wire_tolerance: ...}`"
    )


def wire_problem(
    calibrated_pps: Sequence[float], tried_pps: Sequence[float], limits: HealthLimits
) -> str | None:
    """Return why the baseline rates, one for each try, differ from the profile; or None."""
    low = min(calibrated_pps) / limits.wire_tolerance
    high = max(calibrated_pps) * limits.wire_tolerance
    if not tried_pps or any(low <= rate_pps <= high for rate_pps in tried_pps):
        return None
    return (
        f"the baseline is {max(tried_pps) / 1e6:.3f} Mpps, and was "
        f"{min(calibrated_pps) / 1e6:.3f} to {max(calibrated_pps) / 1e6:.3f} when the testbed was "
        "admitted; if the change is intended: switchmark pool accept TESTBED"
    )
