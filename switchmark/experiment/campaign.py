"""Runs the trials of a campaign in their order; each record is stored before the next trial begins.

A finished trial is never lost and never repeated; a failed trial does not stop the others. The
baseline is measured first, because the later figures are compared with it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from switchmark.experiment.calibration import Calibrations
from switchmark.experiment.certified import Certificates
from switchmark.experiment.failed_starts import FailedStarts
from switchmark.experiment.retry_disturbed import retry_disturbed
from switchmark.experiment.steps import Step
from switchmark.experiment.time_left import TimeLeft
from switchmark.function.support.listing import lines_of
from switchmark.host.host import Session
from switchmark.model.choices import WIRE
from switchmark.model.trial import Trial
from switchmark.record import Record
from switchmark.record.page_sizes import are_compatible
from switchmark.results.documents import RefusedRecordError
from switchmark.results.run_directory import Run
from switchmark.trial.evidence import Baseline
from switchmark.trial.limit import load_was_met, rate_was_met
from switchmark.trial.page_size import planned_kib
from switchmark.trial.plan import TrialPlan
from switchmark.trial.recording import failed_record
from switchmark.trial.run import run_trial


class Observers:
    """An observer that forwards each call to other observers in their order."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._observers = tuple(observers)

    def trial_begins(self, number: int, total: int, plan: TrialPlan, left_s: float) -> None:
        """See `Observer`."""
        for observer in self._observers:
            observer.trial_begins(number, total, plan, left_s)

    def live(self, forwarded_pps: float | None) -> None:
        """See `Observer`."""
        for observer in self._observers:
            observer.live(forwarded_pps)

    def trial_ended(self, record: Record) -> None:
        """See `Observer`."""
        for observer in self._observers:
            observer.trial_ended(record)


NO_OBSERVER = Observers(())


@contextmanager
def without_collections() -> Iterator[None]:
    """Exclude the existing objects from garbage collection, which makes it quick. Nested contexts
    have no effect."""
    if gc.get_freeze_count():
        yield
        return
    gc.collect()  # otherwise existing garbage would stay until the end of the context
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def collect_garbage(is_first: bool) -> None:
    """Collect the garbage of a trial now, and not while the next trial measures. Modules that the
    first trial has loaded are excluded from later collections."""
    gc.collect()
    if is_first:
        gc.freeze()


class Observer(Protocol):
    """Receives the events of a campaign, for example to show its progress."""

    def trial_begins(self, number: int, total: int, plan: TrialPlan, left_s: float) -> None:
        """Trial `number` of `total` (0: unknown) starts now, and the campaign ends in about
        `left_s` seconds."""
        ...

    def live(self, forwarded_pps: float | None) -> None:
        """Receive the latest sample of the running trial, many times a second."""
        ...

    def trial_ended(self, record: Record) -> None:
        """The record has been stored."""
        ...


@dataclass(frozen=True, slots=True)
class OpenEnd:
    """The progress of a campaign whose number of trials is unknown until its end."""

    done: int  # trials so far
    left_s: float  # seconds left


def always(trial: Trial) -> bool:
    """Let every trial begin."""
    del trial
    return True


@without_collections()
def run_campaign(
    session: Session,
    run: Run,
    campaign: str,
    steps: Sequence[Step],
    provenance: Callable[[], Mapping[str, Any]],
    observer: Observer,
    calibrations: Calibrations | None = None,
    repeat_disturbed: int = 0,
    open_end: OpenEnd | None = None,
    certificates: Certificates | None = None,
    may_begin: Callable[[Trial], bool] = always,
    failures: FailedStarts | None = None,
) -> bool:
    """Run the trials that are not finished yet. Return False if `may_begin`, which is called before
    each trial, refused a trial, or if failures have stopped the run.

    Records are not kept in memory, so that memory does not grow with the number of trials.
    `provenance` is called before each trial, outside the measured window, since load and clock
    speeds change during a campaign. `calibrations` replace baselines that the campaign does not
    measure, and new baselines are added to them. A trial that other programs disturb is repeated up
    to `repeat_disturbed` times. `open_end` and `failures` are for campaigns that call this function
    for each block; trials of a contender that is left out are skipped."""
    todo = [step for step in steps if not run.has_finished(step.plan.trial.id)]
    left = TimeLeft(todo)
    done, total = len(steps) - len(todo), len(steps)
    if open_end is not None:
        done, total = open_end.done, 0
    begun = time.monotonic()
    for position, step in enumerate(todo):
        if failures is not None and failures.is_left_out(step.plan.trial):
            left.remove(step)
            continue
        if not may_begin(step.plan.trial):
            return False
        left_s = left.estimate_s()
        if open_end is not None:
            left_s = max(0.0, open_end.left_s - (time.monotonic() - begun))
        observer.trial_begins(done + position + 1, total, step.plan, left_s)
        started = datetime.now(UTC)
        failed = partial(
            failed_record, step.plan.trial, campaign=campaign, run_id=run.info.run_id, begun=started
        )

        def measure(step: Step = step) -> Record:
            return run_trial(
                session,
                _for_one_run(step.plan),
                campaign=campaign,
                run_id=run.info.run_id,
                baseline=_baseline(run, step, calibrations),
                provenance=dict(provenance()),
                observe=observer.live,
            )

        try:
            record = retry_disturbed(measure, repeat_disturbed)
            if certificates is not None:
                record = certificates.attach(record)
        except Exception as error:  # stored as a failed trial, so that the others continue
            record = failed(error=error)
        record = _with_role(record, step)
        if failures is not None:
            record = failures.take(record)
        try:
            run.write(record)
        except RefusedRecordError as error:  # if this record cannot be stored either, the run ends
            record = _with_role(failed(error=error), step)
            run.write(record)
        _keep_table(run, step, record)
        if calibrations is not None and record.trial.switch == WIRE:
            calibrations.keep(step.plan, record)
        left.done(step, record)
        observer.trial_ended(record)
        collect_garbage(is_first=position == 0 and (open_end is None or open_end.done == 0))
        if failures is not None:
            failures.report()
            if failures.stopped:
                return False
    return True


def _keep_table(run: Run, step: Step, record: Record) -> None:
    """Store the neutral table of a trial with network functions beside the records."""
    table = step.plan.function_table() if record.function is not None else None
    if record.function is not None and table is not None:
        run.keep_table(record.function.table, partial(lines_of, table))


def _with_role(record: Record, step: Step) -> Record:
    """Set in the record whether the trial was measured only to judge others."""
    return record.model_copy(update={"is_baseline": step.serves_others})


def _for_one_run(plan: TrialPlan) -> TrialPlan:
    """Return the plan with copies of its switch and its remote host. The state of a running trial
    (ports, counters, cores, costs, the session) is then freed with the copies."""
    return replace(plan, switch=copy(plan.switch), far=copy(plan.far))


def _baseline(run: Run, step: Step, calibrations: Calibrations | None) -> Baseline:
    """Return the baseline of this trial, from this run or from the calibrations; empty if it is
    unknown or not valid."""
    trial = step.baseline
    if trial is None:
        is_baseline = step.plan.trial.switch == WIRE
        return Baseline() if calibrations is None or is_baseline else calibrations.find(step.plan)
    if not run.path_of(trial.id).exists():
        return Baseline()
    record = run.read(trial.id)
    if record.verdict is None or not record.verdict.valid:
        return Baseline()
    if not are_compatible(record.page_size_kib, planned_kib(step.plan)):
        return Baseline()  # measured with another page size, before the run was resumed
    return Baseline(
        forwarded_pps=record.throughput.forwarded_pps if record.throughput else None,
        transfer_per_s=record.transfer.completed_per_s if record.transfer else None,
        rtt_median_ns=record.latency.percentiles_ns["50"] if record.latency else None,
        ns_per_frame=record.cpu.ns_per_frame if record.cpu else None,
        met_its_load=_is_load_met(record),
    )


def _is_load_met(record: Record) -> bool:
    """Return True if the baseline had a set rate and reached it."""
    if record.transfer is not None:
        return rate_was_met(record.transfer)
    loads = record.throughput
    return loads is not None and load_was_met(loads)
