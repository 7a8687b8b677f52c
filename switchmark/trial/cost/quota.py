"""The limit on the switch's CPU time, the quota of everything, and the neighbour's CPU time."""

from __future__ import annotations

from switchmark.host import place
from switchmark.host.cores.cpu_limit import PERIOD_US, CpuLimit
from switchmark.host.cores.throttling import OwnThrottling, Throttling
from switchmark.model.trial import Trial
from switchmark.record import CpuQuota, GroupQuota, Neighbour
from switchmark.record.cost import CpuCost

# Beyond the quota: a period that began before the clocks were read may end after it, and the
# kernel hands out CPU time in slices of 5 ms a core.
TOLERANCE_SHARE, TOLERANCE_CORES = 0.1, 0.05


def quota_since(
    before: Throttling | None, trial: Trial, limit: CpuLimit | None, used_cores: float | None
) -> CpuQuota | None:
    """How the limit was used since the kernel's counts were read; None where there is none."""
    if limit is None or before is None or trial.cpu_limit is None:
        return None
    after, cores = limit.read(), limit.quota_us / PERIOD_US
    most_cores = cores * (1 + TOLERANCE_SHARE) + TOLERANCE_CORES
    return CpuQuota(
        share=trial.cpu_limit,
        cores=cores,
        used_cores=used_cores,
        quota_us=limit.quota_us,
        period_us=PERIOD_US,
        cgroup_version=1 if limit.hierarchy.version == 1 else 2,
        periods=after.periods - before.periods,
        throttled_periods=after.throttled_periods - before.throttled_periods,
        throttled_s=after.throttled_s - before.throttled_s,
        in_force=used_cores is not None and used_cores <= most_cores and limit.in_force(),
        group=limit.group,
    )


def group_quota_since(before: OwnThrottling) -> GroupQuota:
    """The quota of the control groups that everything ran in, and the throttling since `before`."""
    found = OwnThrottling.read().since(before)
    return GroupQuota(
        cpus=place.limits().cpu_quota,
        throttled_periods=found.throttled_periods,
        throttled_s=found.seconds,
    )


def without_neighbour(used: CpuCost, noise: Neighbour | None) -> CpuCost:
    """The cost without the neighbour's part: it runs on purpose, and is no disturbance."""
    if noise is None or used.others_cores_used is None or noise.wall_s <= 0:
        return used
    others = max(0.0, used.others_cores_used - noise.cpu_s / noise.wall_s)
    return used.model_copy(update={"others_cores_used": others})
