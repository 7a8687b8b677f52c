"""Makes the record of a trial from its facts, also if the trial failed.

The facts come in parts as the trial proceeds: the request, the plan, the measurement, and the
programs that ran. A record with contradictory figures is refused; the record of a failed trial,
without figures, replaces it.
"""

from __future__ import annotations

import subprocess
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from switchmark.campaign.notation import to_notation
from switchmark.engine.events import FrameCounters
from switchmark.errors import SwitchmarkError
from switchmark.formatting import encodable
from switchmark.model.machine_state import MachineState
from switchmark.model.trial import Trial
from switchmark.record import (
    BareWire,
    CpuCost,
    CpuQuota,
    Crossing,
    EngineRun,
    FarHost,
    Figures,
    FunctionNote,
    Granted,
    GroupQuota,
    InstrumentNote,
    Limit,
    LookupNote,
    Neighbour,
    Placement,
    Reconciliation,
    Record,
    SteadyRun,
    Timing,
    Transport,
    TrialVerdict,
    Trim,
    Verification,
    VnfRun,
)
from switchmark.record.marks import explain
from switchmark.record.quality import LoopCost
from switchmark.trial.cost import ApplicationCpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The measured part of one trial: its figures, and the counts behind them."""

    figures: Figures
    trim: Trim | None
    steady: SteadyRun | None = None
    kept_samples: int  # the smallest number of all receivers or clients
    sample_noise_pps: float = 0.0  # the largest deviation that bursts alone give to samples
    source_counters: FrameCounters  # summed over senders (or clients), kept window
    sink_counters: FrameCounters  # summed over receivers, kept window; all 0 for latency
    sent_frames: int = 0  # by all sources, in the whole trial
    socket_drops: int = 0  # at the applications' own sockets, in the whole trial
    on_schedule: bool  # every paced source kept its schedule
    stretch: float = 0.0  # largest share of its duration by which a source ran too long
    passed_frames: int = 0  # through the switch, both ways
    cpu: list[ApplicationCpu] = field(default_factory=list)  # for every run of a method
    far_cpu: list[ApplicationCpu] = field(default_factory=list)  # the same on the other host


# Errors that the machine, its programs and their output can cause; all others are faults of the
# bench.
EXPECTED = (SwitchmarkError, OSError, ValueError, KeyError, subprocess.SubprocessError)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedFacts:
    """The facts of a trial before anything is planned or made. The names of the fields of this
    class and of the following are those of the record."""

    trial_id: str
    trial: Trial
    campaign: str
    run_id: str
    started_at: str
    notation: str

    @classmethod
    def of(cls, trial: Trial, campaign: str, run_id: str, begun: datetime) -> RequestedFacts:
        """Return the facts of a trial that begins now."""
        return cls(
            trial_id=trial.id,
            trial=trial,
            campaign=campaign,
            run_id=run_id,
            started_at=_utc(begun),
            notation=to_notation(trial),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFacts:
    """The facts that the plan decides."""

    connect_mode: str | None
    port_kind: str
    io: str
    page_size_kib: int | None
    bare_wire: BareWire | None
    placement: Placement
    topology: list[str]
    wire_ends: list[str]
    provenance: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedFacts:
    """The facts that only a finished trial has, since they judge its figures."""

    steady: SteadyRun | None
    limit: Limit
    verdict: TrialVerdict
    trim: Trim | None
    cpu: CpuCost


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredFacts:
    """The facts that the measurement found, beside its figures."""

    judged: JudgedFacts
    instrument: InstrumentNote | None
    transport: Transport | None
    state_before: MachineState | None
    state_after: MachineState | None
    cpu_quota: CpuQuota | None
    group_quota: GroupQuota
    neighbour: Neighbour | None
    granted: Granted
    verification: Verification
    function: FunctionNote | None
    lookups: LookupNote | None
    switch_details: dict[str, str]
    switch_counters_before: dict[str, Any]
    switch_counters_after: dict[str, Any]
    reconciliation: Reconciliation
    crossing: Crossing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The facts of the programs that ran, also if the trial failed."""

    far_host: FarHost | None = None
    page_size_kib: int | None = None
    machines: dict[str, dict[str, str]] = field(default_factory=dict)
    engines: list[EngineRun] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)
    uncertain_losses: list[str] = field(default_factory=list)
    loops: dict[str, LoopCost] = field(default_factory=dict)
    vnfs: list[VnfRun] = field(default_factory=list)
    switch_log: str = ""


@dataclass
class Stopwatch:
    """The time of each part of a trial in seconds, from the creation of this object."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _last: float = field(default_factory=time.monotonic)
    _first: float = field(default_factory=time.monotonic)

    def lap(self, name: str) -> None:
        """Charge the time since the last lap to this part of the trial."""
        now = time.monotonic()
        self.seconds[name] += now - self._last
        self._last = now

    @property
    def whole_s(self) -> float:
        """The time since the creation of this object."""
        return time.monotonic() - self._first

    def timing(self) -> Timing:
        """Return the parts as the record has them."""
        return Timing(
            deploy_s=self.seconds["deploy"],
            verify_s=self.seconds["verify"],
            measure_s=self.seconds["measure"],
            teardown_s=self.seconds["teardown"],
            overhead_s=self.whole_s - self.seconds["measure"],
        )


@dataclass
class RecordDraft:
    """The record of a trial while the trial proceeds. Each part is added when it is known."""

    requested: RequestedFacts
    begun: datetime
    watch: Stopwatch = field(default_factory=Stopwatch)
    planned: PlannedFacts | None = None
    measured: MeasuredFacts | None = None
    ran: RunFacts | None = None
    figures: Figures = field(default_factory=Figures)
    failures: list[str] = field(default_factory=list)  # the first failure comes first

    def fact(self, name: str, get: Callable[[], _T], default: _T) -> _T:
        """Return a fact of the programs that ran. If it cannot be read, the trial has failed, and
        the default takes its place."""
        try:
            return get()
        except Exception as error:
            self.failures.append(f"{name} cannot be recorded: {one_line(error)}")
            return default

    def finish(self) -> Record:
        """Return the record of the trial, which has ended. Contradictory figures are left out, with
        a message. If other facts are also refused, only the request remains."""
        try:
            return Record(**self._facts())
        except Exception as error:
            refused = one_line(error)
        try:
            self.failures.append(f"the figures contradict each other: {refused}")
            return Record(**self._facts())
        except Exception:
            self.failures[-1] = f"the facts of the programs contradict each other: {refused}"
            return Record(**(_values(self.requested) | self._end()))

    def _facts(self) -> dict[str, Any]:
        """The fields of the record. A failed trial has no figures."""
        facts = _values(self.requested)
        for part in (self.planned, self.measured, self.ran):
            facts |= _values(part)
        judged = facts.pop("judged", None)
        if not self.failures:
            facts |= dict(self.figures) | _values(judged)
        return facts | self._end()

    def _end(self) -> dict[str, Any]:
        # The monotonic clock counts, since the real-time clock may be set back meanwhile.
        ended_at = _utc(self.begun + timedelta(seconds=self.watch.whole_s))
        status = "failed" if self.failures else "finished"
        return {
            "status": status,
            "message": "; ".join(self.failures),
            "ended_at": ended_at,
            "timing": self.watch.timing(),
        }


def with_leftovers(measured: MeasuredFacts, error: Exception) -> MeasuredFacts:
    """Return the facts with the mark `leftovers`. `error` is the reason why the tear-down failed
    after a complete measurement."""
    verdict = measured.judged.verdict
    marked = verdict.model_copy(
        update={
            "marks": [*verdict.marks, "leftovers"],
            "explanations": [
                *verdict.explanations,
                f"{explain('leftovers')} Reason: {one_line(error)}",
            ],
        }
    )
    return replace(measured, judged=replace(measured.judged, verdict=marked))


def failed_record(
    trial: Trial, *, campaign: str, run_id: str, begun: datetime, error: Exception
) -> Record:
    """Return the record of a failed trial if only the reason of the failure is known."""
    return Record(
        **_values(RequestedFacts.of(trial, campaign, run_id, begun)),
        status="failed",
        message=one_line(error),
        ended_at=_utc(max(begun, datetime.now(UTC))),
    )


def why_failed(causes: Sequence[str], error: BaseException) -> str:
    """Return the reason why a trial failed. A dead switch, a lost host or a failed port of an
    application comes before the errors that followed from it."""
    observed = one_line(error)
    for cause in causes:
        text = encodable(" ".join(cause.split()))
        if text and text not in observed:
            return f"{text} (seen as: {observed})"
    return observed


def one_line(error: BaseException) -> str:
    """Return the text of an error with its notes, on one line."""
    if isinstance(error, ValidationError):  # its own text is for programmers
        text = "; ".join(problem["msg"] for problem in error.errors())
    else:
        text = f"an answer lacks {error}" if isinstance(error, KeyError) else str(error)
    if not isinstance(error, EXPECTED):
        text = f"a fault of the bench itself: {type(error).__name__}: {text} ({_place(error)})"
    line = " ".join("; ".join([text, *getattr(error, "__notes__", [])]).split())
    return encodable(line) or type(error).__name__


def _place(error: BaseException) -> str:
    """Return the line of the program that raised the error."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else "nowhere"


def _values(part: Any) -> dict[str, Any]:
    """Return the fields of a part by name, as they are; none of a part that is missing."""
    return {} if part is None else {one.name: getattr(part, one.name) for one in fields(part)}


def _utc(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
