"""The stand that truths are tried on: a switch of known behaviour between two namespaces, deployed
and verified by the bench itself, as it would be for a trial.

Other programs may be at work. So every process of the trial gets priority over theirs, and every
turn knows how much of the machine they used.
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

LATE_NS = 5_000_000  # a pause that a sender makes up for, and that changes what frames meet
GIVEN_UP = 0.02  # of the frames
AUTOGROUP_NICE = "-10"  # nine times the weight of others; with more the kernel's threads starve


@dataclass(frozen=True)
class Rig:
    """A running, verified deployment."""

    deployment: Deployment
    plan: TrialPlan

    @property
    def measurer(self) -> DeployedMeasurer:
        """A new measurer, without trials."""
        return DeployedMeasurer(self.plan.trial, self.deployment.ends, lambda: None)

    @property
    def bridge(self) -> LinuxBridge:
        """The switch, where it is the kernel's bridge."""
        switch = self.deployment.switch
        assert isinstance(switch, LinuxBridge)
        return switch

    def state(self) -> MachineState:
        """How far the cores are from each other, now."""
        return self.deployment.state_reader.read()


def check_sent(measurer: DeployedMeasurer) -> None:
    """Raise `TrialFailed` where the sender of the last trial was away from its core, by its own
    account: then the frames did not leave as they should, and no figure is at fault. Raise
    `ContradictoryCounts` where counters contradict each other: then a figure is."""
    if contradictions := measurer.contradictions():
        raise ContradictoryCounts("; ".join(contradictions))
    point, late_ns = measurer.points[-1], measurer.side_counts[-1].late_max_ns or 0
    if point.shortfall_ratio > GIVEN_UP or late_ns > LATE_NS:
        raise TrialFailed(
            f"the sender gave up {point.shortfall_ratio:.0%} of its frames and was up to "
            f"{late_ns / 1e6:.1f} ms late: other programs use the cores"
        )


@contextmanager
def deployed(switch: Switch, session: Session | None = None, **settings: str) -> Iterator[Rig]:
    """The switch between two namespaces, as the bench would plan and verify it; in a session of
    its own unless one is given."""
    plan = planned(switch, **settings)
    with contextlib.ExitStack() as stack:
        within = session or stack.enter_context(open_session(measuring=False))
        made = Deployment(within, replace(plan, switch=switch))
        stack.enter_context(made)
        stack.enter_context(raised_priority(within.id))
        wait_reachable(made.ends, plan.verify.timeout_s)
        switch.wait_converged()
        checked = verify(made.ends, plan.verify, lambda: switch.counters().witness_rx_frames)
        if not checked.passed:
            raise TrialFailed(checked.message)
        yield Rig(made, plan)


def planned(switch: Switch, **settings: str) -> TrialPlan:
    """A trial of this very switch."""
    there = installed()
    given = {"switch": switch.name, "duration": "2s", **settings}
    campaign = load_settings(given, there.known, name="truth")
    (step,), _ = choose_pages(plan_steps(campaign, there, baselines=False))
    return replace(step.plan, switch=switch)


@contextmanager
def raised_priority(session_id: str) -> Iterator[None]:
    """Give every process of a session, and this one, priority over those of others.

    Mildly: real-time priority would starve the kernel's own threads that carry the frames. This
    process needs it, too: waiting behind two polling applications it would hear of nothing in
    time."""
    set_priority(session_id, AUTOGROUP_NICE)
    try:
        yield
    finally:
        set_autogroup_nice(os.getpid(), "0")


def set_priority(session_id: str, nice: str) -> None:
    """Set the priority of this process and of all of a session. With "0" processes that are started
    later are their equals."""
    for pid in [os.getpid(), *(one.pid for one in procfs.session_processes(session_id))]:
        set_autogroup_nice(pid, nice)


def set_autogroup_nice(pid: int, nice: str) -> None:
    """Set the weight of this process's group against other groups."""
    with contextlib.suppress(OSError):  # no sched_autogroup in this kernel, or it has ended
        Path(f"/proc/{pid}/autogroup").write_text(nice)


@dataclass(frozen=True)
class CpuTimes:
    """CPU time of the machine and of this process with all its children, dead or alive."""

    wall_s: float
    machine_s: float
    own_s: float

    @classmethod
    def read(cls) -> CpuTimes:
        """Read all times now."""
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        alive = sum(process_cpu_s(pid) for pid in descendants(os.getpid()))
        own = time.process_time() + reaped.ru_utime + reaped.ru_stime + alive
        machine = MachineTime.read()
        return cls(time.monotonic(), machine.busy_s + machine.stolen_s, own)

    def others_cores(self) -> float:
        """How many cores other programs have used since."""
        now = CpuTimes.read()
        used_s = (now.machine_s - self.machine_s) - (now.own_s - self.own_s)
        return max(0.0, used_s) / max(now.wall_s - self.wall_s, 1e-9)


def descendants(pid: int) -> list[int]:
    """All living children of a process, theirs included."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found
