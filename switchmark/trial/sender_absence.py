"""Frames that were due while their sender was descheduled, and that it therefore never offered.

A sender gives up frames for two reasons, which it cannot distinguish. It was descheduled, because
another program or another guest of the hypervisor had its core. Or it was busy, because a switch in
the kernel works inside the sender's system calls, or because the load is too high for the sender.
Only the first reason is independent of the load, so only it may excuse frames. It follows from the
kernel's account of the applications over the whole trial:

- A sender that has its core to itself waited for it while it was runnable (`run_delay_ns`). The
  time that ksoftirqd ran is subtracted, because that thread does the work of a switch in the
  kernel. The time that the hypervisor took from the core (steal) is added, in ticks of 10 ms.
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
    """Return the share of its last trial for which a sender was kept from its core.

    `applications` may share its core. `softirq_thread_s` is the time that ksoftirqd ran meanwhile
    on the sender's machine; None if it is not known, and then only the hypervisor's part excuses
    frames. `throttled_s`: the time for which a CPU quota stopped programs meanwhile."""
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


def _shares_core(engine: EngineProcess, other: EngineProcess) -> bool:
    is_beside = engine.far == other.far and bool(set(engine.cores) & set(other.cores))
    return is_beside and engine.has_result


def late_frames(
    senders: Sequence[EngineProcess],
    receivers: Sequence[EngineProcess],
    softirq_thread_s: float | None,
    throttled_s: float = 0.0,
) -> int:
    """Return the number of frames that senders gave up without a refusal of their port, and that
    were due while they were descheduled: for each sender at most the frames that its schedule has
    in that time."""
    count = 0
    for sender in senders:
        totals = sender.result.totals
        share = descheduled_share(sender, [*senders, *receivers], softirq_thread_s, throttled_s)
        count += min(totals.tx_late, math.ceil(totals.tx_intended * share))
    return count
