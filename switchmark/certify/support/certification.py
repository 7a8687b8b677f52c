"""Certifies one port kind and I/O: runs rounds of all reference checks in random order, until each
check is decided or the time is over."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median

from switchmark.certify.registry import CHECKS
from switchmark.certify.support.decision import MOST_ROUNDS
from switchmark.certify.support.reference_check import ReferenceCheck, RigKind
from switchmark.certify.support.rig import CpuTimes, Rig, deploy
from switchmark.certify.support.series import Series
from switchmark.errors import ContradictoryCounts, SwitchmarkError, UnavailableError, UsageError
from switchmark.experiment.calibration import machine_facts
from switchmark.host.host import Session
from switchmark.model.io import Io
from switchmark.model.ports import PortKind
from switchmark.record import Certificate, CertifiedFigure
from switchmark.record.certificate import NOT_TRIED, PROVEN, REFUTED, UNDECIDED, Outcome
from switchmark.statistics.states import LineTimes, find_states
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.support.base import Switch
from switchmark.switch.testpmd import Testpmd
from switchmark.version import full_version

SETTINGS: dict[RigKind, dict[str, str]] = {
    RigKind.COUNTS: {},
    RigKind.TIMES: {"method": "r-plus"},
    RigKind.ROUND_TRIPS: {"dimension": "latency", "rate": "2000"},
}
PORTS = (PortKind.VETH, PortKind.VHOST_USER)  # port kinds with an independent count of frames
SHARES = {
    RigKind.COUNTS: 0.45,
    RigKind.TIMES: 0.7,
    RigKind.ROUND_TRIPS: 1.0,
}  # shares of the time left
SEED = 1  # seed of the order of checks

Observe = Callable[[str, int, int], None]  # name of the next check, number of decided ones, total


@dataclass
class Certification:
    """The running certification of one port kind and I/O."""

    session: Session
    port_kind: PortKind
    io: Io
    budget_s: float
    observe: Observe
    names: Sequence[str] = ()  # names of checks; empty: all
    fail_fast: bool = False  # end at the first refuted check
    series: dict[str, Series] = field(default_factory=dict)
    others_cores: list[float] = field(default_factory=list)
    cores: set[int] = field(default_factory=set)
    idle: str = ""

    def run(self) -> Certificate:
        """Run the checks, and return the certificate."""
        begun, started = time.monotonic(), datetime.now(UTC)
        for name in self.names or CHECKS:
            check = CHECKS[name]
            self.series[name] = Series(check, why_not=self._why_not(check))
        for kind in RigKind:
            left_s = self.budget_s - (time.monotonic() - begun)
            self._run_on(kind, time.monotonic() + SHARES[kind] * left_s)
        for series in self.series.values():
            series.end()
        return self._certificate(started, time.monotonic() - begun)

    def _why_not(self, check: ReferenceCheck) -> str:
        if check.needs_kernel and self.port_kind is not PortKind.VETH:
            return f"the kernel does not see the frames of {self.port_kind.value} ports"
        return check.why_not(self.io) or ""

    def _run_on(self, kind: RigKind, deadline: float) -> None:
        every = [series for series in self.series.values() if series.check.rig_kind is kind]
        if not any(series.is_open for series in every) or self._has_failed():
            return
        settings = {"io": self.io.value, "port_kind": self.port_kind.value, **SETTINGS[kind]}
        with ExitStack() as stack:
            try:
                rig = stack.enter_context(
                    deploy(switch_for(self.port_kind), self.session, **settings)
                )
            except (UnavailableError, UsageError) as error:
                for series in every:
                    series.why_not = series.why_not or str(error)
                return
            except SwitchmarkError as error:  # the cause may be temporary
                for series in every:
                    series.add_failure(str(error), 0.0)
                return
            placement = rig.plan.placement
            for cores in placement.application_cores.values():
                self.cores.update(cores)
            self.idle = placement.idle
            self._run_rounds(rig, every, deadline)

    def _run_rounds(self, rig: Rig, every: Sequence[Series], deadline: float) -> None:
        order = random.Random(SEED)
        for _ in range(MOST_ROUNDS):
            open_series = [series for series in every if series.is_open]
            order.shuffle(open_series)
            for series in open_series:
                if time.monotonic() > deadline or self._has_failed():
                    return
                decided = sum(not other.is_open for other in self.series.values())
                self.observe(series.check.name, decided, len(self.series))
                self._run_round(rig, series)
            if not open_series:
                return

    def _has_failed(self) -> bool:
        return self.fail_fast and any(s.outcome == REFUTED for s in self.series.values())

    def _run_round(self, rig: Rig, series: Series) -> None:
        begun, clocks = time.monotonic(), CpuTimes.read()
        line_ns = rig.state().line_ns
        try:
            result = series.check.measure(rig)
        except UnavailableError as error:
            series.why_not = str(error)
        except SwitchmarkError as error:  # other programs used the cores, or a program hangs
            contradicts = isinstance(error, ContradictoryCounts)
            series.add_failure(str(error), time.monotonic() - begun, contradicts=contradicts)
            rig.deployment.check_alive()
        else:
            series.add(result, line_ns, time.monotonic() - begun)
        self.others_cores.append(clocks.other_cores())

    def _certificate(self, started: datetime, spent_s: float) -> Certificate:
        every = self.series.values()
        lines = [line for series in every for line in series.lines_ns if line is not None]
        states = find_states(lines)
        levels = [states.fast_ns, states.slow_ns] if states else ([median(lines)] if lines else [])
        made_at = started.isoformat(timespec="milliseconds")
        machine = machine_facts()
        named = f"{made_at} {self.port_kind} {self.io} {machine}"
        return Certificate(
            id=hashlib.sha256(named.encode()).hexdigest()[:8],
            made_at=made_at,
            spent_s=spent_s,
            switchmark_version=full_version(),
            port_kind=self.port_kind.value,
            io=self.io.value,
            machine=machine,
            cores=sorted(self.cores),
            idle=self.idle,
            lines_ns=levels,
            others_cores=median(self.others_cores) if self.others_cores else 0.0,
            figures=self._figures(states),
            levels={name: value for series in every for name, value in series.levels().items()},
        )

    def _figures(self, states: LineTimes | None) -> list[CertifiedFigure]:
        figures = [figure for series in self.series.values() for figure in series.figures(states)]
        if self.port_kind is PortKind.VETH:
            return figures
        source = {"against": "the port counters of dpdk-testpmd"}
        return [
            figure if figure.outcome == NOT_TRIED else figure.model_copy(update=source)
            for figure in figures
        ]


def switch_for(port_kind: PortKind) -> Switch:
    """Return the switch with counters for ports of this kind."""
    return LinuxBridge() if port_kind is PortKind.VETH else Testpmd()


def outcome_of(certificates: Sequence[Certificate]) -> Outcome:
    """Return the outcome of several certificates: refuted if one is, proven if all are."""
    outcomes = {certificate.outcome for certificate in certificates}
    if REFUTED in outcomes:
        return REFUTED
    return PROVEN if outcomes == {PROVEN} else UNDECIDED
