"""A real testbed: this machine, with the second host of its testbed file where there is one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from switchmark.campaign.expand import expand
from switchmark.campaign.find import find_campaign
from switchmark.campaign.installed import Installed
from switchmark.errors import SwitchmarkError, UnavailableError, UsageError
from switchmark.experiment.calibration import Calibrations, machine_facts
from switchmark.experiment.campaign import run_campaign
from switchmark.experiment.certified import Certificates
from switchmark.experiment.pages import choose_pages
from switchmark.experiment.steps import Step, check_available
from switchmark.experiment.wire import baseline_of
from switchmark.host import tuning
from switchmark.host.cores.cpu_time import busy_cores
from switchmark.host.diagnosis import diagnose
from switchmark.host.facts import gather, read_cpus, tool_versions
from switchmark.host.host import Session
from switchmark.host.session import open_session
from switchmark.host.undo.clean import clean_stale
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.trial import Trial
from switchmark.pool import health
from switchmark.pool.executor import Checked, TestbedLost
from switchmark.pool.values import BlockLease
from switchmark.record import Record
from switchmark.remote.site import Site
from switchmark.results.run_info import RunInfo
from switchmark.results.store import Run
from switchmark.testbed.testbed import HealthLimits, Testbed
from switchmark.trial.evidence import Baseline
from switchmark.trial.plan import Cores, TrialPlan, plan_trial, with_pages
from switchmark.trial.run import run_trial
from switchmark.version import __version__, full_version

_WIRE = "(V=direct, P=64)"
_WIRE_SETTINGS = ["duration=300ms", "environment=netns"]
_WAIT_S = 5.0  # for another bench on this machine that is just ending


class TestbedExecutor:
    """Measures on this machine."""

    __test__ = False  # its name is no test's

    def __init__(
        self,
        there: Installed,
        testbed: Testbed | None = None,
        limits: HealthLimits = HealthLimits(),  # noqa: B008 (it is frozen)
    ) -> None:
        self._there = there
        self._testbed = testbed
        self._limits = limits
        self._expanded: tuple[CampaignDefinition, frozenset[str]] | None = None  # the last one

    def clean(self) -> list[str]:
        """See `BlockExecutor.clean`."""
        return [problem for one in clean_stale() for problem in one.problems]

    def check(self, profile: Mapping[str, Any] | None, wire_pps: list[float]) -> Checked:
        """See `BlockExecutor.check`."""
        facts = gather()
        try:
            machine, findings = machine_facts(facts) | self._far_facts(), diagnose(facts)
        except (SwitchmarkError, OSError) as error:
            return Checked(f"the other host is not ready: {error}", profile or {}, ())
        now = health.profile_now(machine, findings)
        known = now if profile is None else profile
        left = self.clean()
        problem = f"could not be removed: {'; '.join(left)}" if left else None
        problem = problem or health.version_problem(known, machine, "TESTBED")
        problem = problem or health.doctor_problem(known, findings)
        problem = problem or _in_all_tries(
            lambda: busy_cores(health.BUSY_TRY_S),
            lambda busy: health.busy_problem(busy, len(facts.cpus), self._limits),
        )
        if problem is not None:
            return Checked(problem, known, ())
        try:
            with open_session(wait_s=_WAIT_S) as session:
                if not wire_pps:
                    carried = [self._wire_pps(session) for _ in range(health.CALIBRATION_RUNS)]
                    return Checked(None, known, tuple(carried))
                problem = _in_all_tries(
                    lambda: self._wire_pps(session),
                    lambda tried: health.wire_problem(wire_pps, tried, self._limits),
                )
                return Checked(problem, known, ())
        except (SwitchmarkError, OSError) as error:
            return Checked(f"the bare wire cannot be measured: {error}", known, ())

    def measure(
        self,
        lease: BlockLease,
        before: Callable[[Trial], None],
        keep: Callable[[Record], None],
    ) -> None:
        """See `BlockExecutor.measure`."""
        campaign = CampaignDefinition.model_validate(lease.definition)
        self._demand_trials_of(campaign, lease)
        with self._site(lease) as site:
            cores = Cores(read_cpus(), tuned=campaign.tuning)
            plans = [plan_trial(campaign, one, self._there, cores, site) for one in lease.todo]
            steps, _ = choose_pages([Step(plan, None) for plan in plans])
            plans = [step.plan for step in steps]
            check_available(steps)
            with open_session(wait_s=_WAIT_S) as session:
                tuned = asdict(tuning.apply(session, campaign.tuning))
                kept = Calibrations.of_this_machine()  # as it is tuned now
                wires: list[Step] = []
                if lease.baseline:
                    wires = self._unknown_wires(campaign, plans, kept, cores, site)
                fixed = {
                    "switchmark": full_version(), "tools": tool_versions(),
                    "bench_pid": os.getpid(), "tuning": tuned,
                    "testbed": lease.testbed, "block": lease.number, "fencing_token": lease.token,
                }  # fmt: skip
                told = _Told(before)
                for part, sink in ((wires, _dropped), (steps, keep)):
                    run_campaign(
                        session, _RecordsOfBlock(lease, sink, site), lease.campaign, part,
                        lambda: asdict(gather()) | fixed, told, kept, campaign.repeat_disturbed,
                        None, Certificates.of_this_machine(),
                    )  # fmt: skip

    def _demand_trials_of(self, campaign: CampaignDefinition, lease: BlockLease) -> None:
        """Raises UsageError where the campaign cannot be, or has no such trial: plans rest on what
        is refused when a campaign is expanded, and others may write in the pool's database."""
        if self._expanded is None or self._expanded[0] != campaign:
            trials = expand(campaign, self._there.switches, self._there.environments)
            self._expanded = campaign, frozenset(trial.repeated(0).id for trial in trials)
        for trial in lease.todo:
            if trial.repeated(0).id not in self._expanded[1]:  # (what proves repeats as it needs)
                raise UsageError(
                    f"{lease}: trial {trial.id} is none of this campaign as switchmark "
                    f"{__version__} expands it; submit the campaign again"
                )

    def _far_facts(self) -> dict[str, Any]:
        """The facts of the testbed's other host that figures depend on. That host undoes what a
        dead bench left there when it is reached. Raises SwitchmarkError where it cannot be."""
        if self._testbed is None:
            return {}
        site = Site(self._testbed)
        try:
            site.open()
            known = machine_facts(site.facts)
        finally:
            site.close()
        name = self._testbed.far.name
        return {f"{name}: {fact}": value for fact, value in known.items() if fact != "engine"}

    @contextmanager
    def _site(self, lease: BlockLease) -> Iterator[Site | None]:
        """The testbed's other host, where the block has trials between hosts. Raises `TestbedLost`
        where it cannot be reached now: it could when the testbed was checked."""
        if all(trial.location == "local" for trial in lease.todo):
            yield None
            return
        if self._testbed is None:
            raise SwitchmarkError(f"testbed {lease.testbed} has no second host")
        site = Site(self._testbed)
        try:
            try:
                site.open()
            except UnavailableError as error:
                raise TestbedLost(str(error)) from None
            yield site
        finally:
            site.close()

    def _unknown_wires(
        self,
        campaign: CampaignDefinition,
        plans: list[TrialPlan],
        kept: Calibrations,
        cores: Cores,
        site: Site | None,
    ) -> list[Step]:
        """The bare wires that judge these trials and of which this machine has no figure. They
        belong to the testbed, and not to the campaign's results."""
        wires: dict[Trial, Step] = {}
        for plan in plans:
            wire = baseline_of(plan, self._there.switches[plan.trial.switch])
            if wire is not None and kept.find(plan) == Baseline():
                planned = plan_trial(campaign, wire, self._there, cores, site)
                planned = with_pages(planned, plan.small_pages)
                wires[wire] = Step(planned, None, is_baseline=True)
        return list(wires.values())

    def _wire_pps(self, session: Session) -> float:
        """The rate of the smallest frames over a wire between two namespaces, measured for a
        moment, in frames/s."""
        campaign = find_campaign(_WIRE, self._there.known, _WIRE_SETTINGS)
        trial = expand(campaign, self._there.switches, self._there.environments)[0]
        record = run_trial(
            session,
            plan_trial(campaign, trial, self._there, Cores(read_cpus())),
            campaign="check",
            run_id="check",
            baseline=Baseline(),
            provenance={},
            observe=lambda _: None,
        )
        if record.throughput is None:
            raise SwitchmarkError(record.message or "it gave no figure")
        return record.throughput.forwarded_pps


def _in_all_tries(
    measure: Callable[[], float], problem_of: Callable[[list[float]], str | None]
) -> str | None:
    """The problem that every try shows; None as soon as one shows none."""
    tried: list[float] = []
    for _ in range(health.TRIES):
        tried.append(measure())
        if problem_of(tried) is None:
            return None
    return problem_of(tried)


class _Told:
    """An observer that speaks between trials, and never while frames flow."""

    def __init__(self, before: Callable[[Trial], None]) -> None:
        self._before = before

    def trial_begins(self, number: int, total: int, plan: TrialPlan, left_s: float) -> None:  # noqa: ARG002
        self._before(plan.trial)

    def live(self, forwarded_pps: float | None) -> None:
        pass

    def trial_ended(self, record: Record) -> None:
        pass


class _RecordsOfBlock(Run):
    """Sends the records of a block to the store; nothing is kept here. A trial that failed because
    the other host was lost has no record."""

    def __init__(
        self, lease: BlockLease, sink: Callable[[Record], None], site: Site | None
    ) -> None:
        info = RunInfo(
            run_id=lease.run_id,
            campaign=lease.campaign,
            campaign_sha256="",
            started_at=datetime.now(UTC).isoformat(),
            switchmark_version=full_version(),
            definition={},
            settings={},
            host={},
        )
        super().__init__(Path(), info)
        self._sink = sink
        self._site = site

    def has_finished(self, trial_id: str) -> bool:  # noqa: ARG002
        """False: finished trials are not among the lease's."""
        return False

    def write(self, record: Record) -> Path:
        """Pass the record on."""
        lost = None if self._site is None else self._site.connection.lost
        if record.status == "failed" and lost is not None:
            raise TestbedLost(lost)
        self._sink(record)
        return Path(record.trial_id)


def _dropped(record: Record) -> None:
    """Discard a wire's record: the calibrations keep its figure."""
