"""Measures on a real testbed: this machine, with the second host of its testbed file if any."""

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
from switchmark.pool.agent import HealthCheck, TestbedLost
from switchmark.pool.values import BlockLease
from switchmark.record import Record
from switchmark.remote.site import Site
from switchmark.results.run_directory import Run
from switchmark.results.run_info import RunInfo
from switchmark.testbed.testbed import HealthLimits, Testbed
from switchmark.trial.evidence import Baseline
from switchmark.trial.plan import Cores, TrialPlan, plan_trial, with_pages
from switchmark.trial.run import run_trial
from switchmark.version import __version__, full_version

_WIRE = "(V=direct, P=64)"
_WIRE_SETTINGS = ["duration=300ms", "environment=netns"]
_WAIT_S = 5.0  # for the end of another bench on this machine


class TestbedExecutor:
    """Measures on this machine."""

    __test__ = False  # not a test class

    def __init__(
        self,
        installed: Installed,
        testbed: Testbed | None = None,
        limits: HealthLimits = HealthLimits(),  # noqa: B008 it is frozen
    ) -> None:
        self._installed = installed
        self._testbed = testbed
        self._limits = limits
        self._expanded: tuple[CampaignDefinition, frozenset[str]] | None = (
            None  # the last one that was expanded
        )

    def clean(self) -> list[str]:
        """See `BlockExecutor.clean`."""
        return [problem for cleaning in clean_stale() for problem in cleaning.problems]

    def check(self, profile: Mapping[str, Any] | None, wire_pps: list[float]) -> HealthCheck:
        """See `BlockExecutor.check`."""
        facts = gather()
        try:
            machine, findings = machine_facts(facts) | self._second_host_facts(), diagnose(facts)
        except (SwitchmarkError, OSError) as error:
            return HealthCheck(f"the second host is not ready: {error}", profile or {}, ())
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
            return HealthCheck(problem, known, ())
        try:
            with open_session(wait_s=_WAIT_S) as session:
                if not wire_pps:
                    carried = [self._wire_pps(session) for _ in range(health.CALIBRATION_RUNS)]
                    return HealthCheck(None, known, tuple(carried))
                problem = _in_all_tries(
                    lambda: self._wire_pps(session),
                    lambda tried: health.wire_problem(wire_pps, tried, self._limits),
                )
                return HealthCheck(problem, known, ())
        except (SwitchmarkError, OSError) as error:
            return HealthCheck(f"the baseline cannot be measured: {error}", known, ())

    def measure(
        self,
        lease: BlockLease,
        before: Callable[[Trial], None],
        keep: Callable[[Record], None],
    ) -> None:
        """See `BlockExecutor.measure`."""
        campaign = CampaignDefinition.model_validate(lease.definition)
        self._require_trials_of(campaign, lease)
        with self._site(lease) as site:
            cores = Cores(read_cpus(), tuned=campaign.tuning)
            plans = [
                plan_trial(campaign, trial, self._installed, cores, site) for trial in lease.todo
            ]
            steps, _ = choose_pages([Step(plan, None) for plan in plans])
            plans = [step.plan for step in steps]
            check_available(steps)
            with open_session(wait_s=_WAIT_S) as session:
                tuned = asdict(tuning.apply(session, campaign.tuning))
                calibrations = Calibrations.of_this_machine()  # as it is tuned now
                wires: list[Step] = []
                if lease.baseline:
                    wires = self._unknown_wires(campaign, plans, calibrations, cores, site)
                fixed = {
                    "switchmark": full_version(), "tools": tool_versions(),
                    "bench_pid": os.getpid(), "tuning": tuned,
                    "testbed": lease.testbed, "block": lease.number, "fencing_token": lease.token,
                }  # fmt: skip
                notifier = _TrialNotifier(before)
                for part, sink in ((wires, _dropped), (steps, keep)):
                    run_campaign(
                        session, _RecordsOfBlock(lease, sink, site), lease.campaign, part,
                        lambda: asdict(gather()) | fixed, notifier, calibrations,
                        campaign.repeat_disturbed, None, Certificates.of_this_machine(),
                    )  # fmt: skip

    def _require_trials_of(self, campaign: CampaignDefinition, lease: BlockLease) -> None:
        """Raise `UsageError` if a trial is not part of the campaign.

        A plan relies on the checks of the expansion, and others may write to the database."""
        if self._expanded is None or self._expanded[0] != campaign:
            trials = expand(campaign, self._installed.switches, self._installed.environments)
            self._expanded = campaign, frozenset(trial.repeated(0).id for trial in trials)
        for trial in lease.todo:
            # A campaign that proves adds repetitions.
            if trial.repeated(0).id not in self._expanded[1]:
                raise UsageError(
                    f"{lease}: trial {trial.id} is not part of this campaign as switchmark "
                    f"{__version__} expands it",
                    remedy="submit the campaign again",
                )

    def _second_host_facts(self) -> dict[str, Any]:
        """Return those facts of the testbed's second host on which figures depend.

        The second host removes what a killed bench left there. Raises `SwitchmarkError` if it
        cannot be reached."""
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
        """Connect to the testbed's second host, if the block has trials between hosts.

        Raises `TestbedLost` if it cannot be reached: the check before the block reached it."""
        if all(trial.location == "local" for trial in lease.todo):
            yield None
            return
        if self._testbed is None:
            raise UsageError(f"testbed {lease.testbed} has no second host")
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
        calibrations: Calibrations,
        cores: Cores,
        site: Site | None,
    ) -> list[Step]:
        """Return a step for each baseline of these trials that this machine has not measured.

        Their figures belong to the testbed, not to the results of the campaign."""
        wires: dict[Trial, Step] = {}
        for plan in plans:
            wire = baseline_of(plan, self._installed.switches[plan.trial.switch])
            if wire is not None and calibrations.find(plan) == Baseline():
                planned = plan_trial(campaign, wire, self._installed, cores, site)
                planned = with_pages(planned, plan.small_pages)
                wires[wire] = Step(planned, None, is_baseline=True)
        return list(wires.values())

    def _wire_pps(self, session: Session) -> float:
        """Measure briefly the rate of the smallest frames between two namespaces, in frames/s."""
        campaign = find_campaign(_WIRE, self._installed.known, _WIRE_SETTINGS)
        trial = expand(campaign, self._installed.switches, self._installed.environments)[0]
        record = run_trial(
            session,
            plan_trial(campaign, trial, self._installed, Cores(read_cpus())),
            campaign="check",
            run_id="check",
            baseline=Baseline(),
            provenance={},
            observe=lambda _: None,
        )
        if record.throughput is None:
            raise SwitchmarkError(record.message or "the trial gave no figure")
        return record.throughput.forwarded_pps


def _in_all_tries(
    measure: Callable[[], float], problem_of: Callable[[list[float]], str | None]
) -> str | None:
    """Measure until a try shows no problem; return the problem if all tries show one."""
    values: list[float] = []
    for _ in range(health.TRIES):
        values.append(measure())
        if problem_of(values) is None:
            return None
    return problem_of(values)


class _TrialNotifier:
    """An observer that reports the begin of each trial, and nothing while frames flow."""

    def __init__(self, before: Callable[[Trial], None]) -> None:
        self._before = before

    def trial_begins(self, number: int, total: int, plan: TrialPlan, left_s: float) -> None:  # noqa: ARG002
        self._before(plan.trial)

    def live(self, forwarded_pps: float | None) -> None:
        pass

    def trial_ended(self, record: Record) -> None:
        pass


class _RecordsOfBlock(Run):
    """Sends the records of a block to the store.

    A trial that failed because the second host was lost has no record."""

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
        """Return False: the lease contains no finished trial."""
        return False

    def write(self, record: Record) -> Path:
        """Pass the record on."""
        lost = None if self._site is None else self._site.connection.lost
        if record.status == "failed" and lost is not None:
            raise TestbedLost(lost)
        self._sink(record)
        return Path(record.trial_id)


def _dropped(record: Record) -> None:
    """Discard the record of a baseline, since its figure is among the calibrations."""
