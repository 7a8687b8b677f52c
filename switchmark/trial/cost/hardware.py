"""The counts of hardware counters and RAPL, as figures of a frame.

`host/cores/counters.py` reads them on each host; a counter that is absent has a reason instead.
"""

from __future__ import annotations

from switchmark.host.cores.counters import Counted, EnergyReading, MeterReading
from switchmark.record.cost import CpuCost, EnergyUse, HardwareUse


def with_hardware(found: CpuCost, read: MeterReading, frames: int) -> CpuCost:
    """The cost with what was counted meanwhile, or why nothing was; `frames` passed the switch."""
    hardware = hardware_use(read.counted, frames)
    energy = energy_between(read.energy_before, read.energy, frames)
    absent = read.counters_absent or "the counters never ran"
    return found.model_copy(
        update={
            "hardware": hardware,
            "hardware_absent": "" if hardware else absent,
            "energy": energy,
            "energy_absent": "" if energy else read.energy_absent,
        }
    )


def hardware_use(found: Counted | None, frames: int) -> HardwareUse | None:
    """The counters' figures; `frames` passed the switch. None where nothing was counted."""
    if found is None:
        return None
    values = dict(found.values)

    def ratio(part: str, whole: str) -> float | None:
        return values[part] / values[whole] if part in values and values.get(whole) else None

    def each(name: str) -> float | None:
        return values[name] / frames if name in values and frames else None

    return HardwareUse(
        scope=found.scope,
        events=values,
        counted_share=min(1.0, found.share),
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
