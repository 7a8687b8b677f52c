"""Whether a testbed is what it was when it was admitted: pure functions from facts to a reason.

Three checks come before each block. Versions: processor, kernel, engine, governor and cores are
those of the profile. Doctor: nothing that was good then is poor now, and no other program is busy.
The bare wire: a short run carries what it carried then. The testbed's file holds its owner's limits
(`HealthLimits`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from switchmark.host.diagnosis import BUSY_SHARE, Finding, Level
from switchmark.testbed.testbed import HealthLimits
from switchmark.version import __version__

CALIBRATION_RUNS = 5  # of the bare wire when a testbed is taken in
TRIES = 3  # a moment of disturbance is no drift
BUSY_TRY_S = 0.2
CHECKED_TOPICS = ("governor", "memory", "hugepages")


def profile_now(machine: Mapping[str, Any], findings: Sequence[Finding]) -> dict[str, Any]:
    """The testbed's profile now, as JSON has it: later checks compare with it."""
    good = [one.topic for one in findings if one.level is not Level.POOR]
    return {
        "machine": dict(machine),
        "switchmark": __version__,
        "good": [topic for topic in CHECKED_TOPICS if topic in good],
    }


def version_problem(
    profile: Mapping[str, Any], machine: Mapping[str, Any], testbed: str
) -> str | None:
    """Which version differs from the profile, and what to do; None when none does."""
    now = {**machine, "switchmark": __version__}
    before = {**profile.get("machine", {}), "switchmark": profile.get("switchmark")}
    changed = [
        f"{name} was {before.get(name)}, is {value}"
        for name, value in now.items()
        if before.get(name) != value
    ]
    if not changed:
        return None
    return f"{'; '.join(changed)}; if that is meant: switchmark pool accept {testbed}"


def doctor_problem(profile: Mapping[str, Any], findings: Sequence[Finding]) -> str | None:
    """What was good when the testbed was admitted, and is poor now; None when nothing is."""
    poor = [
        f"{one.topic}: {one.seen} ({one.meaning}{'; ' + one.remedy if one.remedy else ''})"
        for one in findings
        if one.level is Level.POOR
        and one.topic in profile.get("good", ())
        and one.topic in CHECKED_TOPICS
    ]
    return "; ".join(poor) or None


def busy_problem(busy: Sequence[float], cpus: int, limits: HealthLimits) -> str | None:
    """Why the machine is too busy to measure, or to be admitted: in each of these tries, other
    programs used so many of its cores. A bare wire measured beside them would prove nothing."""
    limit = BUSY_SHARE * cpus if limits.busy_cores is None else limits.busy_cores
    if not busy or min(busy) <= limit:
        return None
    return (
        f"other programs use {min(busy):.1f} cores of {cpus}, and {limit:g} is the most; stop "
        "them, or allow it in the testbed's file: `health: {busy_cores: ..., wire_tolerance: ...}`"
    )


def wire_problem(
    calibrated_pps: Sequence[float], tried_pps: Sequence[float], limits: HealthLimits
) -> str | None:
    """Why the bare wire's rates, in each of these tries, are not those of the profile; None when
    they are."""
    low = min(calibrated_pps) / limits.wire_tolerance
    high = max(calibrated_pps) * limits.wire_tolerance
    if not tried_pps or any(low <= one <= high for one in tried_pps):
        return None
    return (
        f"the bare wire carries {max(tried_pps) / 1e6:.3f} Mpps, and carried "
        f"{min(calibrated_pps) / 1e6:.3f} to {max(calibrated_pps) / 1e6:.3f} when the testbed was "
        "taken in; if that is meant: switchmark pool accept TESTBED"
    )
