"""The phases of a trial, recognised from outside by its ledger, its processes and its results.

A phase is waited for, not slept for."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.faults.bench import Job, stored
from tests.integration.waiting import TAUGHT_FRAMES

DEADLINE_S = 150.0  # for a busy machine
POLL_S = 0.002
LOOKING_SHARE = 0.2  # share of the time, as reading all processes takes CPU time
FIRST_LESSON_FRAMES = 2  # more are sent once all engines answer, after guests booted
BUSY_S = 0.08  # CPU time of an engine with traffic, beyond its start


def _deploys(job: Job, delay: float) -> bool:
    return len(job.ledger()) >= job.lines_before + 1 + round(delay * 12)


def _verifies(job: Job, _delay: float) -> bool:
    return bool(job.ledger() and len(job.engines()) >= 2)


def _measures(job: Job, delay: float) -> bool:
    """Return True if frames of devices, or CPU time of the sending engine, show traffic."""
    return _measures_in_guest(job, delay) or bool(
        job.ledger() and job.sending_s() > BUSY_S * (1 + delay)
    )


def _tears_down(job: Job, _delay: float) -> bool:
    """Return True if an object of the trial was undone, or its engines have ended."""
    lines = job.ledger()
    return any('"undone"' in line for line in lines[job.lines_before + 4 :])


def _writes(job: Job, _delay: float) -> bool:
    hidden = any(job.places.results.glob("*/trials/.*.tmp"))
    return hidden or len(stored(job.places)) > job.stored_before


def _verifies_in_guest(job: Job, _delay: float) -> bool:
    return bool(job.ledger() and job.frames() > FIRST_LESSON_FRAMES)


def _measures_in_guest(job: Job, delay: float) -> bool:
    return bool(job.ledger() and job.frames() > TAUGHT_FRAMES + delay * 1000)


PHASES: dict[str, Callable[[Job, float], bool]] = {
    "plan": lambda job, delay: time.monotonic() > job.started + delay * 0.8,
    "deploy": _deploys,
    "verify": _verifies,
    "measure": _measures,
    "tear down": _tears_down,
    "write": _writes,
}
WITH_MACHINES = PHASES | {"verify": _verifies_in_guest, "measure": _measures_in_guest}


def meet(job: Job, phase: str, finished_before: int, delay: float) -> bool:
    """Wait until the bench is in this phase of the trial after `finished_before`; False if it ended
    first."""
    if finished_before and not _until(job, lambda: len(stored(job.places)) >= finished_before):
        return False
    job.stored_before = finished_before
    job.lines_before = len(job.ledger()) if finished_before else 3
    phases = WITH_MACHINES if job.has_machines else PHASES
    return _until(job, lambda: phases[phase](job, delay))


def _until(job: Job, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + DEADLINE_S * job.patience
    while time.monotonic() < deadline:
        spent_s = time.thread_time()
        if condition():
            return True
        if not job.running:
            return False
        spent_s = time.thread_time() - spent_s
        time.sleep(max(POLL_S, spent_s * (1 / LOOKING_SHARE - 1)))
    return False
