"""Sets the CPU affinity of the bench and of switches that are not pinned.

The bench stays off the switch's cores while traffic flows: it wakes up at every sample, and a
polling switch that loses its core for that moment falls behind by thousands of frames.

Switches on DPDK pin their own threads when they start. For `switch_cpus: any` they start as always,
and the bench then widens the affinity of their threads, so that the kernel moves them over all
cores of the trial. A thread that starts later inherits the affinity of the thread that starts it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from switchmark.errors import TrialFailed
from switchmark.host.cores.placement import core_list
from switchmark.host.kernel.procfs import threads_of

MOST_PASSES = 100  # a program that starts threads all the time is an error


@contextmanager
def restricted_to(cores: Collection[int]) -> Iterator[None]:
    """Restrict every thread of this process to these cores; restore the affinities at the end.

    Cores that the process may not use change nothing."""
    before: dict[int, set[int]] = {}
    for thread in threads_of([os.getpid()]):
        with suppress(OSError):  # The thread has ended, or may not run there.
            previous = os.sched_getaffinity(thread)
            os.sched_setaffinity(thread, cores)
            before[thread] = previous
    usual = before.get(os.getpid())
    try:
        yield
    finally:
        for thread in threads_of([os.getpid()]):
            # A new thread inherited the affinity of the process.
            previous_or_usual = before.get(thread, usual)
            if previous_or_usual is not None:
                with suppress(OSError):
                    os.sched_setaffinity(thread, previous_or_usual)


def unpin(pids: Iterable[int], cores: Collection[int]) -> None:
    """Let all threads of these processes run on these cores. Raises TrialFailed."""
    allowed, processes = set(cores), list(pids)
    done: set[int] = set()
    for _ in range(MOST_PASSES):
        new = threads_of(processes) - done
        if not new:
            return
        for thread in new:
            with suppress(ProcessLookupError):  # The thread has ended.
                try:
                    os.sched_setaffinity(thread, allowed)
                except OSError as error:
                    raise TrialFailed(
                        "switch_cpus: any: a thread of the switch cannot be given "
                        f"{core_list(allowed)} ({error.strerror})",
                        remedy="use switch_cpus: auto",
                    ) from None
        done |= new
    raise TrialFailed("switch_cpus: any: the switch starts threads without end")


def check_unpinned(pids: Iterable[int], cores: Collection[int]) -> None:
    """Raise TrialFailed if a thread of these processes has been pinned since."""
    for thread in sorted(threads_of(pids)):
        with suppress(ProcessLookupError):
            allowed = os.sched_getaffinity(thread)
            if allowed != set(cores):
                raise TrialFailed(
                    f"switch_cpus: any: the switch has pinned a thread to {core_list(allowed)} "
                    "meanwhile",
                    remedy="use switch_cpus: auto",
                )


def count_migrations(pids: Iterable[int]) -> int | None:
    """Return how often the kernel has moved the threads of these processes to another core.

    None if the kernel does not report it (CONFIG_SCHED_DEBUG)."""
    counts = [count for thread in threads_of(pids) if (count := _migrations(thread)) is not None]
    return sum(counts) if counts else None


def _migrations(thread: int) -> int | None:
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{thread}/sched").read_text().splitlines():
            if line.startswith("se.nr_migrations"):
                return int(line.rpartition(":")[2])
    return None
