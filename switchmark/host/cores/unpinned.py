"""Unpins a switch, so that the kernel moves its threads over all cores of the trial.

Switches on DPDK pin their threads themselves when they begin. So they begin as always, and their
pins are undone from outside. A thread that starts later inherits the cores of the one that starts
it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from switchmark.errors import TrialFailed
from switchmark.host.cores.placement_reason import core_list
from switchmark.host.kernel.procfs import threads_of

MOST_LOOKS = 100  # a program that starts threads all the time is none that we know


def unpin(pids: Iterable[int], cores: Collection[int]) -> None:
    """Let all threads of these processes run on these cores. Raises TrialFailed."""
    wanted, known = set(cores), list(pids)
    done: set[int] = set()
    for _ in range(MOST_LOOKS):
        fresh = threads_of(known) - done
        if not fresh:
            return
        for thread in fresh:
            with suppress(ProcessLookupError):  # it has ended
                try:
                    os.sched_setaffinity(thread, wanted)
                except OSError as error:
                    raise TrialFailed(
                        "switch_cpus: any: a thread of the switch cannot be given "
                        f"{core_list(wanted)} ({error.strerror})",
                        remedy="use switch_cpus: auto",
                    ) from None
        done |= fresh
    raise TrialFailed("switch_cpus: any: the switch starts threads without end")


def check_unpinned(pids: Iterable[int], cores: Collection[int]) -> None:
    """Raise TrialFailed where a thread of these processes has been pinned since."""
    for thread in sorted(threads_of(pids)):
        with suppress(ProcessLookupError):
            allowed = os.sched_getaffinity(thread)
            if allowed != set(cores):
                raise TrialFailed(
                    f"switch_cpus: any: the switch has pinned a thread to {core_list(allowed)} "
                    "meanwhile",
                    remedy="use switch_cpus: auto",
                )


def moves_of(pids: Iterable[int]) -> int | None:
    """How often the kernel has moved these processes' threads to another core since they began;
    None where it does not tell (CONFIG_SCHED_DEBUG)."""
    told = [moves for thread in threads_of(pids) if (moves := _moves(thread)) is not None]
    return sum(told) if told else None


def _moves(thread: int) -> int | None:
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{thread}/sched").read_text().splitlines():
            if line.startswith("se.nr_migrations"):
                return int(line.rpartition(":")[2])
    return None
