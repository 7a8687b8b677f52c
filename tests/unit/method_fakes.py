"""A trial's measurer on the simulated switch, so that methods run without a deployment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

from switchmark.method.registry import METHODS
from switchmark.method.support.disturbance import Disturbance, StepDown
from switchmark.method.support.measurer import LoadPoint, Measurer
from switchmark.method.support.outage import Span
from switchmark.method.support.task import Task
from switchmark.model.attaching import Attacher
from switchmark.model.changes import Change, TableChange
from switchmark.model.trial import Trial
from switchmark.record import Latency, MethodResult, MethodTrial
from switchmark.simulation.switch import Behaviour, SimulatedSwitch
from switchmark.trial.side_counts import SideCounts, as_trials
from tests.unit.records import synthetic_histogram

LATE_NS = 700
_HISTOGRAM = synthetic_histogram(5000.0, 1000, 1)
_PERCENTILES = _HISTOGRAM.percentiles_ns()
TIMED = Latency(
    kind="one_way", count=1000, min_ns=1000, mean_ns=_PERCENTILES["50"], stdev_ns=1000,
    max_ns=_PERCENTILES["99.999"], percentiles_ns=_PERCENTILES,
    intended_percentiles_ns=_PERCENTILES, histogram=_HISTOGRAM, intended_histogram=_HISTOGRAM,
    lost=0,
)  # fmt: skip


class SimulatedMeasurer:
    """Stores every trial, times frames at 5 us, and disturbs for a tenth of a second."""

    def __init__(self, switch: Measurer) -> None:
        self.points: list[LoadPoint] = []
        self._switch = switch

    def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
        self.points.append(self._switch.measure(duration_s, load_pps))
        return self.points[-1]

    def measure_latency(
        self, duration_s: float, load_pps: float, burst: int
    ) -> tuple[LoadPoint, Latency]:
        return self.measure(duration_s, load_pps), TIMED

    def step_down(
        self, first_s: float, first_pps: float, second_s: float, second_pps: float
    ) -> StepDown:
        overload = self.measure(first_s, first_pps)
        after = self.measure(second_s, second_pps)
        return StepDown(overload=overload, after=after, gap_s=0.0, last_loss=Span(0.1, 0.09, 0.11))

    def disturb(
        self,
        duration_s: float,
        load_pps: float,
        at_s: float,
        action: Callable[[], Iterator[None] | None],
        tail_s: float,
    ) -> Disturbance:
        for _ in action() or ():
            pass
        point = self.measure(at_s + tail_s, load_pps)
        missing = round(0.1 * load_pps)
        return Disturbance(
            point=point, missing_frames=missing, silence=Span(0.1, 0.1, 0.1), action_s=0.01,
            resumed=True,
        )  # fmt: skip

    def trials(self) -> list[MethodTrial]:
        none = SideCounts(
            socket_drops=0, duplicates=0, reordered=0, corrupt=0, stale=0, drained=True,
            late_max_ns=LATE_NS,
        )  # fmt: skip
        return as_trials(self.points, [none] * len(self.points))

    def notes(self) -> list[str]:
        return ["3 frames were reordered"]


def run_simulated(
    name: str,
    simulated: Behaviour | Measurer,
    *,
    wire_pps: float = 5e6,
    in_kernel: bool = False,
    restart: Callable[[], None] = lambda: None,
    changes: tuple[Change, ...] = (),
    table_changes: tuple[TableChange, ...] = (),
    attacher: Attacher | None = None,
    **parameters: object,
) -> MethodResult:
    """Return the result of a method on a simulated switch."""
    trial = Trial.model_validate(
        {"dimension": "throughput", "switch": "simulated", "packet_size_bytes": 64,
         "method": name, "duration_s": 1.0, **parameters}
    )  # fmt: skip
    method = METHODS[name]
    task = Task(
        trial=trial,
        measurer=SimulatedMeasurer(
            SimulatedSwitch(simulated) if isinstance(simulated, Behaviour) else simulated
        ),
        max_pps=float(trial.rate_pps or wire_pps),
        budget_s=method.default_budget_s if trial.budget_s is None else trial.budget_s,
        wire_pps=wire_pps,
        in_kernel=in_kernel,
        restart_switch=restart,
        switch_changes=lambda: changes,
        table_changes=lambda: table_changes,
        attacher=lambda: cast("Attacher", attacher),
        earlier_trials=2,
    )
    return method.run(task)
