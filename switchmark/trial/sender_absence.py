"""Frames that were due while their sender was descheduled, and that it therefore never offered.

A sender gives up frames for two reasons that look alike to it. It was descheduled: another program
or another guest of the hypervisor had its core. Or it was busy: a switch in the kernel does its
work inside the sender's system calls, or the load is more than the sender can make. Only the first
says nothing about the load, so only it may excuse frames. It is taken from the kernel's account of
the applications, over the whole trial:

- A sender that has its core to itself waited for it while it was runnable (`run_delay_ns`). The
  time that ksoftirqd ran is subtracted: that thread competes for the core to do a kernel switch's
  own work. Added is what the hypervisor took from the core (steal), in ticks of 10 ms.
- Applications that take turns on a core (`baton`, `yield`) wait for each other by choice, and one
  of them always runs. Their core was taken for as long as none of them ran.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from switchmark.engine.process import EngineProcess

_TAKES_TURNS = ("baton", "yield")


def descheduled_share(
    sender: EngineProcess,
    applications: Sequence[EngineProcess],
    softirq_thread_s: float | None,
    throttled_s: float = 0.0,
) -> float:
    """The share of its last trial for which a sender was kept from its core.

    `applications` are those that may share its core. `softirq_thread_s` is the time that ksoftirqd
    ran meanwhile on the sender's machine; None if it may have run and it cannot be told for how
    long: then only the hypervisor's part excuses anything. `throttled_s`: for how long a CPU
    quota stopped programs meanwhile."""
    cpu = sender.result.cpu
    wall_ns = max(1, cpu.wall_ns)
    stolen = (cpu.stolen_own_cores_ns or 0) / wall_ns
    if softirq_thread_s is None:
        return min(1.0, stolen)
    not_excused_ns = (softirq_thread_s + throttled_s) * 1e9
    if sender.result.config.idle in _TAKES_TURNS:
        mates = {id(one): one for one in (sender, *applications) if _shares_core(one, sender)}
        used = math.fsum(
            one.result.cpu.cpu_ns / max(1, one.result.cpu.wall_ns) for one in mates.values()
        )
        return min(1.0, max(1 - used - not_excused_ns / wall_ns, stolen))
    waited = max(0.0, cpu.run_delay_ns - not_excused_ns) / wall_ns
    return min(1.0, waited + stolen)


def _shares_core(one: EngineProcess, other: EngineProcess) -> bool:
    is_beside = one.far == other.far and bool(set(one.cores) & set(other.cores))
    return is_beside and one.has_result


def late_frames(
    senders: Sequence[EngineProcess],
    receivers: Sequence[EngineProcess],
    softirq_thread_s: float | None,
    throttled_s: float = 0.0,
) -> int:
    """Frames that senders gave up without a refusal of their port, and that were due while they
    were descheduled. Of each sender at most as many as its schedule asks for in that time."""
    count = 0
    for one in senders:
        totals = one.result.totals
        share = descheduled_share(one, [*senders, *receivers], softirq_thread_s, throttled_s)
        count += min(totals.tx_late, math.ceil(totals.tx_intended * share))
    return count
