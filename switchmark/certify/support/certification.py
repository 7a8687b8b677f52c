"""Certifies one way to a port: every truth in turns, in random order, until each is decided or the
time is over."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median

from switchmark.certify.registry import TRUTHS
from switchmark.certify.support.decision import MOST_TURNS
from switchmark.certify.support.series import Series
from switchmark.certify.support.stand import CpuTimes, Rig, deployed
from switchmark.certify.support.truth import Stand, Truth
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

SETTINGS: dict[Stand, dict[str, str]] = {
    Stand.COUNTS: {},
    Stand.TIMES: {"method": "r-plus"},
    Stand.ROUND_TRIPS: {"dimension": "latency", "rate": "2000"},
}
PORTS = (PortKind.VETH, PortKind.VHOST_USER)  # of namespaces, and somebody else counts the frames
SHARES = {Stand.COUNTS: 0.45, Stand.TIMES: 0.7, Stand.ROUND_TRIPS: 1.0}  # of the time left
SEED = 1  # of the order of truths

Observe = Callable[[str, int, int], None]  # what is tried now, how many are decided, of how many


@dataclass
class Certification:
    """The certification of one way to a port, under way."""

    session: Session
    port_kind: PortKind
    io: Io
    budget_s: float
    observe: Observe
    names: Sequence[str] = ()  # of truths; none: all
    fail_fast: bool = False  # one that is refuted is enough
    series: dict[str, Series] = field(default_factory=dict)
    others_cores: list[float] = field(default_factory=list)
    cores: set[int] = field(default_factory=set)
    idle: str = ""

    def run(self) -> Certificate:
        """Try every truth; returns the certificate."""
        begun, started = time.monotonic(), datetime.now(UTC)
        for name in self.names or TRUTHS:
            truth = TRUTHS[name]
            self.series[name] = Series(truth, why_not=self._why_not(truth))
        for stand in Stand:
            left_s = self.budget_s - (time.monotonic() - begun)
            self._on(stand, time.monotonic() + SHARES[stand] * left_s)
        for one in self.series.values():
            one.end()
        return self._certificate(started, time.monotonic() - begun)

    def _why_not(self, truth: Truth) -> str:
        if truth.needs_kernel and self.port_kind is not PortKind.VETH:
            return f"the kernel does not see the frames of {self.port_kind.value} ports"
        return truth.why_not(self.io) or ""

    def _on(self, stand: Stand, deadline: float) -> None:
        tried = [one for one in self.series.values() if one.truth.stand is stand]
        if not any(one.is_open for one in tried) or self._has_failed():
            return
        settings = {"io": self.io.value, "port_kind": self.port_kind.value, **SETTINGS[stand]}
        with ExitStack() as stack:
            try:
                rig = stack.enter_context(
                    deployed(switch_for(self.port_kind), self.session, **settings)
                )
            except (UnavailableError, UsageError) as error:
                for one in tried:
                    one.why_not = one.why_not or str(error)
                return
            except SwitchmarkError as error:  # it might do another time
                for one in tried:
                    one.failed(str(error), 0.0)
                return
            placement = rig.plan.placement
            self.cores |= {core for own in placement.application_cores.values() for core in own}
            self.idle = placement.idle
            self._turns(rig, tried, deadline)

    def _turns(self, rig: Rig, tried: Sequence[Series], deadline: float) -> None:
        order = random.Random(SEED)
        for _ in range(MOST_TURNS):
            round_ = [one for one in tried if one.is_open]
            order.shuffle(round_)
            for one in round_:
                if time.monotonic() > deadline or self._has_failed():
                    return
                decided = sum(not each.is_open for each in self.series.values())
                self.observe(one.truth.name, decided, len(self.series))
                self._turn(rig, one)
            if not round_:
                return

    def _has_failed(self) -> bool:
        return self.fail_fast and any(one.outcome == REFUTED for one in self.series.values())

    def _turn(self, rig: Rig, one: Series) -> None:
        begun, clocks = time.monotonic(), CpuTimes.read()
        line_ns = rig.state().line_ns
        try:
            found = one.truth.turn(rig)
        except UnavailableError as error:
            one.why_not = str(error)
        except SwitchmarkError as error:  # no core in time, or a program of the kernel's that hangs
            contradicts = isinstance(error, ContradictoryCounts)
            one.failed(str(error), time.monotonic() - begun, contradicts=contradicts)
            rig.deployment.check_alive()
        else:
            one.add(found, line_ns, time.monotonic() - begun)
        self.others_cores.append(clocks.others_cores())

    def _certificate(self, started: datetime, spent_s: float) -> Certificate:
        lines = [line for one in self.series.values() for line in one.lines_ns if line is not None]
        states = find_states(lines)
        levels = [states.near_ns, states.far_ns] if states else ([median(lines)] if lines else [])
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
            levels={
                name: value for one in self.series.values() for name, value in one.levels().items()
            },
        )

    def _figures(self, states: LineTimes | None) -> list[CertifiedFigure]:
        found = [figure for one in self.series.values() for figure in one.figures(states)]
        if self.port_kind is PortKind.VETH:
            return found
        theirs = {"against": "the port counters of dpdk-testpmd"}
        return [one if one.outcome == NOT_TRIED else one.model_copy(update=theirs) for one in found]


def switch_for(port_kind: PortKind) -> Switch:
    """The switch whose ports of that kind count their frames for themselves."""
    return LinuxBridge() if port_kind is PortKind.VETH else Testpmd()


def outcome_of(certificates: Sequence[Certificate]) -> Outcome:
    """The outcome of several certificates: refuted where one is, proven where all are."""
    seen = {one.outcome for one in certificates}
    if REFUTED in seen:
        return REFUTED
    return PROVEN if seen == {PROVEN} else UNDECIDED
