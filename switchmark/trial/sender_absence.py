"""Frames that were due while their sender was descheduled, and that it therefore never offered.

A sender gives up frames for two reasons that look alike to it. It was descheduled: another program
or another guest of the hypervisor had its core. Or it was busy: a switch in the kernel does its
work inside the sender's system calls, or the load is more than the sender can make. Only the first
says nothing about the load, so only it may excuse frames. It is taken from the kernel's account of
the sender's threads, over the whole trial:

- the time for which they were runnable and waited for a core (`run_delay_ns`), less the time that
  ksoftirqd ran: that thread competes for the core to do a kernel switch's own work;
- the time that the hypervisor took from the sender's cores (steal), in ticks of 10 ms.

A sender that gives its core away by sched_yield() waits by its own choice, which the kernel counts
alike; its waiting excuses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from switchmark.engine.process import EngineProcess

_YIELD = "yield"


def descheduled_s(sender: EngineProcess, softirq_thread_s: float | None) -> float:
    """Seconds of its last trial for which a sender was kept from its core.

    `softirq_thread_s` is the time that ksoftirqd ran meanwhile on the sender's machine; None if it
    may have run and nobody can tell for how long: then waiting for a core excuses nothing."""
    cpu = sender.result.cpu
    stolen_s = (cpu.stolen_own_cores_ns or 0) / 1e9
    if softirq_thread_s is None or sender.result.config.idle == _YIELD:
        return stolen_s
    return max(0.0, cpu.run_delay_ns / 1e9 - softirq_thread_s) + stolen_s


def late_frames(
    senders: Sequence[EngineProcess], duration_s: float, softirq_thread_s: float | None
) -> int:
    """Frames that senders gave up without a refusal of their port, and that were due while they
    were descheduled. Of each sender at most as many as its schedule asks for in that time."""
    count = 0
    for one in senders:
        totals = one.result.totals
        share = min(1.0, descheduled_s(one, softirq_thread_s) / duration_s)
        count += min(totals.tx_late, math.ceil(totals.tx_intended * share))
    return count
