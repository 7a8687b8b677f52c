"""The counts of hardware counters and RAPL, as figures of a frame.

`testbed.hardware` reads them on each host; a counter that is absent has a reason instead.
"""

from __future__ import annotations

from switchmark.results.record.cost import EnergyUse, HardwareUse
from switchmark.testbed.cores.counters import Counted, EnergyReading


def hardware_use(found: Counted | None, frames: int) -> HardwareUse | None:
    """The counters' figures; `frames` passed the switch. None where nothing was counted."""
    return None if found is None else _use(found.scope, dict(found.values), found.share, frames)


def _use(scope: str, values: dict[str, int], share: float, frames: int) -> HardwareUse:
    def ratio(part: str, whole: str) -> float | None:
        return values[part] / values[whole] if part in values and values.get(whole) else None

    def each(name: str) -> float | None:
        return values[name] / frames if name in values and frames else None

    return HardwareUse(
        scope=scope,
        events=values,
        counted_share=min(1.0, share),
        instructions_per_cycle=ratio("instructions", "cycles"),
        cache_miss_ratio=ratio("cache_misses", "cache_references"),
        cycles_per_frame=each("cycles"),
        instructions_per_frame=each("instructions"),
        cache_misses_per_frame=each("cache_misses"),
        dtlb_misses_per_frame=each("dtlb_misses"),
    )


def energy_between(before: EnergyReading, after: EnergyReading, frames: int) -> EnergyUse | None:
    """The energy used between two readings; None where there is no RAPL."""
    used = {}
    for name, start in before.joules.items():
        if name in after.joules:
            spent = after.joules[name] - start
            used[name] = spent if spent >= 0 else spent + before.wraps_at[name]
    packages = [joules for name, joules in used.items() if name.startswith("package")]
    if not used:
        return None
    each = sum(packages) / frames * 1e6 if packages and frames else None
    return EnergyUse(joules=used, microjoules_per_frame=each)
