"""The rig of reference checks: a switch of known behaviour between two namespaces, deployed and
verified by the bench as in a trial.

Since other programs may run, every process of the trial gets priority over them, and each round
measures how many cores they use.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_settings
from switchmark.errors import ContradictoryCounts, TrialFailed
from switchmark.experiment.pages import choose_pages
from switchmark.experiment.steps import plan_steps
from switchmark.host.cores.cpu_time import MachineTime, process_cpu_s
from switchmark.host.host import Session
from switchmark.host.kernel import procfs
from switchmark.host.session import open_session
from switchmark.model.machine_state import MachineState
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.support.base import Switch
from switchmark.trial.deployed_measurer import DeployedMeasurer
from switchmark.trial.deployment import Deployment
from switchmark.trial.plan import TrialPlan
from switchmark.trial.verification import verify, wait_reachable

LATE_NS = 5_000_000  # longest pause of the sender in a valid round
GIVEN_UP = 0.02  # largest share of frames that the sender may give up
AUTOGROUP_NICE = "-10"  # nine times the weight of others; with more the kernel's threads starve


@dataclass(frozen=True)
class Rig:
    """A running, verified deployment."""

    deployment: Deployment
    plan: TrialPlan

    @property
    def measurer(self) -> DeployedMeasurer:
        """Return a new measurer without trials."""
        return DeployedMeasurer(self.plan.trial, self.deployment.ends, lambda: None)

    @property
    def bridge(self) -> LinuxBridge:
        """Return the switch as the kernel's bridge."""
        switch = self.deployment.switch
        assert isinstance(switch, LinuxBridge)
        return switch

    def state(self) -> MachineState:
        """Return the present time of a cache line between the cores."""
        return self.deployment.state_reader.read()


def check_sent(measurer: DeployedMeasurer) -> None:
    """Raise `TrialFailed` if the sender of the last trial reports that it did not run on its core,
    so that the schedule was not met and no figure is wrong. Raise `ContradictoryCounts` if counters
    contradict each other, so that a figure is wrong."""
    if contradictions := measurer.contradictions():
        raise ContradictoryCounts("; ".join(contradictions))
    point, late_ns = measurer.points[-1], measurer.side_counts[-1].late_max_ns or 0
    if point.shortfall_ratio > GIVEN_UP or late_ns > LATE_NS:
        raise TrialFailed(
            f"the sender gave up {point.shortfall_ratio:.0%} of its frames and was up to "
            f"{late_ns / 1e6:.1f} ms late: other programs use the cores"
        )


@contextmanager
def deploy(switch: Switch, session: Session | None = None, **settings: str) -> Iterator[Rig]:
    """Deploy and verify the switch between two namespaces, in this session or in a new one."""
    plan = plan_for(switch, **settings)
    with contextlib.ExitStack() as stack:
        within = session or stack.enter_context(open_session(measuring=False))
        deployment = stack.enter_context(Deployment(within, replace(plan, switch=switch)))
        stack.enter_context(raised_priority(within.id))
        wait_reachable(deployment.ends, plan.verify.timeout_s)
        switch.wait_converged()
        ends = deployment.ends
        checked = verify(ends, plan.verify, lambda: switch.counters().witness_rx_frames)
        if not checked.passed:
            raise TrialFailed(checked.message)
        yield Rig(deployment, plan)


def plan_for(switch: Switch, **settings: str) -> TrialPlan:
    """Return the plan of a trial of this switch object."""
    parts = installed()
    settings = {"switch": switch.name, "duration": "2s", **settings}
    campaign = load_settings(settings, parts.known, name="truth")
    (step,), _ = choose_pages(plan_steps(campaign, parts, baselines=False))
    return replace(step.plan, switch=switch)


@contextmanager
def raised_priority(session_id: str) -> Iterator[None]:
    """Give this process and the processes of a session priority over those of others.

    A real-time priority would starve the kernel threads that carry the frames. This process also
    needs the priority, since it would otherwise wait behind two polling applications."""
    set_priority(session_id, AUTOGROUP_NICE)
    try:
        yield
    finally:
        set_autogroup_nice(os.getpid(), "0")


def set_priority(session_id: str, nice: str) -> None:
    """Set the priority of this process and of all processes of a session. "0" is the usual
    priority."""
    for pid in [os.getpid(), *(process.pid for process in procfs.session_processes(session_id))]:
        set_autogroup_nice(pid, nice)


def set_autogroup_nice(pid: int, nice: str) -> None:
    """Set the weight of this process's group against other groups."""
    with contextlib.suppress(OSError):  # the kernel has no sched_autogroup, or the process ended
        Path(f"/proc/{pid}/autogroup").write_text(nice)


@dataclass(frozen=True)
class CpuTimes:
    """CPU time of the machine, and of this process with all its running and ended children."""

    wall_s: float
    machine_s: float
    own_s: float

    @classmethod
    def read(cls) -> CpuTimes:
        """Read all times now."""
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        alive = sum(process_cpu_s(pid) for pid in descendants(os.getpid()))
        own_s = time.process_time() + reaped.ru_utime + reaped.ru_stime + alive
        machine = MachineTime.read()
        return cls(time.monotonic(), machine.busy_s + machine.stolen_s, own_s)

    def other_cores(self) -> float:
        """Return the mean number of cores that other programs have used since."""
        now = CpuTimes.read()
        used_s = (now.machine_s - self.machine_s) - (now.own_s - self.own_s)
        return max(0.0, used_s) / max(now.wall_s - self.wall_s, 1e-9)


def descendants(pid: int) -> list[int]:
    """Return the process ids of all running descendants of a process."""
    pids: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                pids += [int(child), *descendants(int(child))]
    return pids
