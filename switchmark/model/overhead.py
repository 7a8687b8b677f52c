"""The time that the bench spends around a trial, before trials of a run have shown it.

These are medians that `bench/overhead` holds every switch to, in netns and lxc; other environments
take longer, which the first trials show. Plans (estimates of time, the looks of a campaign that
proves) rest on these alone. A switch that is not named counts as a program: its first trials are
given too much time rather than too little.
"""

from __future__ import annotations

from switchmark.model.choices import WIRE

IN_KERNEL_S = 0.2  # and of a wire without a switch
USER_SPACE_S = 0.3
OVS_DPDK_S = 0.35
IN_KERNEL = frozenset(
    {WIRE, "linux-bridge", "macvlan", "ovs", "sriov", "tc-redirect", "vale", "xdp-redirect"}
)


def usual_overhead_s(switch: str) -> float:
    """Seconds from the start of one trial to that of the next, less its duration."""
    if switch == "ovs-dpdk":
        return OVS_DPDK_S
    return IN_KERNEL_S if switch in IN_KERNEL else USER_SPACE_S
