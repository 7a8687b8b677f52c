"""The phases of a trial, and how it is seen from outside that the bench is in one.

By what it leaves in its ledger, its processes and its results: a phase is met, not slept for."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.faults.bench import Job, stored
from tests.integration.waiting import TAUGHT_FRAMES

DEADLINE_S = 150.0  # a machine that is busy with others is slow; the phase comes all the same
POLL_S = 0.002
LOOKING_SHARE = 0.2  # of the time: a look at all processes costs the cores that cases need
FIRST_LESSON_FRAMES = 2  # more are sent when all engines have answered: a guest that has booted
BUSY_S = 0.08  # CPU time of an engine beyond what it needs to start: traffic


def _deploys(job: Job, delay: float) -> bool:
    return len(job.ledger()) >= job.lines_before + 1 + round(delay * 12)


def _verifies(job: Job, _delay: float) -> bool:
    return bool(job.ledger() and len(job.engines()) >= 2)


def _measures(job: Job, delay: float) -> bool:
    """By the frames of devices, or by the time of an engine that sends to a switch's socket."""
    return _measures_in_guest(job, delay) or bool(
        job.ledger() and job.sending_s() > BUSY_S * (1 + delay)
    )


def _tears_down(job: Job, _delay: float) -> bool:
    """Something of the trial's was undone, or its engines, which were there, are gone."""
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
    """Wait until the bench is in this phase of the trial after so many; False where it ended
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
