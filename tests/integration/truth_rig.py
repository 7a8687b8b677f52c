"""A deployment between two namespaces with a switch whose truth is known, and its methods.

The machine may be busy with other things. So every process of the trial is put before them,
and runs are repeated (`find`): one figure within the tolerance is enough, since noise only
ever leads away from a set value; a machine that was disturbed in every run
is named as the reason of a skip. It never passes without a figure.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from scipy.stats import binom

from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_settings
from switchmark.errors import TrialFailed
from switchmark.experiment.steps import plan_steps
from switchmark.method.back_to_back import back_to_back
from switchmark.method.ndr_pdr import search
from switchmark.method.support.goal import Goal
from switchmark.statistics.boundaries import StoppingRule, planned_looks
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.reference import Reference
from switchmark.switch.support.base import Switch
from switchmark.switch.support.ovs import OvsSwitch
from switchmark.switch.support.ports import device_of
from switchmark.testbed.cores.cpu_time import MachineTime, process_cpu_s
from switchmark.testbed.kernel import procfs
from switchmark.testbed.session import open_session
from switchmark.trial.deployed import DeployedMeasurer
from switchmark.trial.deployment import Deployment
from switchmark.trial.judge import DISTURBED_CORES
from switchmark.trial.plan import TrialPlan
from switchmark.trial.verification import verify, wait_reachable

ATTEMPTS = 4
MOST_TURNS, BUSY_TURNS = 23, 14
AUTOGROUP_NICE = "-10"  # nine times the weight of others; with more the kernel's threads starve


@dataclass(frozen=True)
class Rig:
    """A running, verified deployment."""

    deployment: Deployment
    plan: TrialPlan

    @property
    def measurer(self) -> DeployedMeasurer:
        """A fresh one, without trials."""
        return DeployedMeasurer(self.plan.trial, self.deployment.ends, lambda: None)


@contextmanager
def deployed(switch: Switch, **settings: str) -> Iterator[Rig]:
    """The switch between two namespaces, as the bench would plan and verify it."""
    plan = planned(switch, **settings)
    with open_session(measuring=False) as session:
        made = Deployment(session, replace(plan, switch=switch))
        with made, raised_priority(session.id):
            wait_reachable(made.ends, plan.verify.timeout_s)
            switch.settle()
            checked = verify(made.ends, plan.verify, lambda: switch.counters().witness_rx_frames)
            assert checked.passed, checked.message
            yield Rig(made, plan)


def planned(switch: Switch, **settings: str) -> TrialPlan:
    """A trial of this very switch."""
    there = installed()
    given = {"switch": switch.name, "duration": "2s", **settings}
    campaign = load_settings(given, there.known, name="truth")
    (step,) = plan_steps(campaign, there, baselines=False)
    return replace(step.plan, switch=switch)


@contextmanager
def raised_priority(session_id: str) -> Iterator[None]:
    """Put every process of a session before those of others (mildly: never real-time, which
    would starve the kernel's own threads that carry the frames); and this one with them: one
    that waits for its turn behind two polling applications hears of nothing in time."""
    set_priority(session_id, AUTOGROUP_NICE)
    try:
        yield
    finally:
        set_autogroup_nice(os.getpid(), "0")


def set_priority(session_id: str, nice: str) -> None:
    """For this process and all of a session. With "0" what is started later is their equal."""
    for pid in [os.getpid(), *(one.pid for one in procfs.marked(session_id))]:
        set_autogroup_nice(pid, nice)


def set_autogroup_nice(pid: int, nice: str) -> None:
    """How much weight the group of this process has against other groups."""
    with contextlib.suppress(OSError):  # no sched_autogroup in this kernel, or it has ended
        Path(f"/proc/{pid}/autogroup").write_text(nice)


def reference(**faults: float | str) -> Reference:
    """The reference switch with these faults: `limit_pps=100_000`."""
    switch = Reference()
    switch.configure({name: str(value) for name, value in faults.items()})
    return switch


def shape(switch: LinuxBridge, pps: int, frame_bytes: int, bucket_s: float = 0.005) -> None:
    """Let the bridge's port to the receiver pass so many frames a second (`tc tbf`); the kernel
    counts no FCS. So much time's frames may pass at once."""
    bits = pps * (frame_bytes - 4) * 8
    burst = round(pps * (frame_bytes - 4) * bucket_s)
    where = f"qdisc add dev {device_of(switch.ports[1])} root"
    switch.namespace.batch("tc", [f"{where} tbf rate {bits} burst {burst} limit {burst}"])


def shape_by_htb(switch: LinuxBridge, pps: int, frame_bytes: int, bucket_s: float = 0.005) -> None:
    """The same by a class of `tc htb` and a queue of so many frames before it."""
    frame = frame_bytes - 4
    burst, device = round(pps * frame * bucket_s), device_of(switch.ports[1])
    rates = f"rate {pps * frame * 8} burst {burst} cburst {burst}"
    switch.namespace.batch("tc", [
        f"qdisc add dev {device} root handle 1: htb default 1",
        f"class add dev {device} parent 1: classid 1:1 htb {rates} quantum 1514",
        f"qdisc add dev {device} parent 1:1 pfifo limit {round(pps * bucket_s)}",
    ])  # fmt: skip


def unshape(switch: LinuxBridge) -> None:
    """Take the limit away again."""
    switch.namespace.batch("tc", [f"qdisc del dev {device_of(switch.ports[1])} root"])


def meter(rig: Rig, pps: int, bucket_s: float = 0.01) -> None:
    """Let an Open vSwitch pass so many frames a second of those that come from the sender: a meter
    of its own datapath, in packets, which drops the others."""
    switch = rig.deployment.switch
    assert isinstance(switch, OvsSwitch)
    run, bridge = rig.deployment.session.host.run, f"unix:{switch.instance._openflow}"
    command, burst = ["ovs-ofctl", "-O", "OpenFlow13"], round(pps * bucket_s)
    band = f"type=drop,rate={pps},burst_size={burst}"
    run([*command, "add-meter", bridge, f"meter=1,pktps,burst,bands={band}"])
    run([*command, "add-flow", bridge, "priority=50000,in_port=1,actions=meter:1,NORMAL"])
    switch.settle()


def find(
    truth: float, within: float, attempt: Callable[[], float], attempts: int = ATTEMPTS
) -> None:
    """Try until the figure lies within the tolerance of the truth.

    Fails when it never did, unless every single attempt was disturbed by other programs (as
    the bench's own mark has it): then the machine cannot tell, and the test is skipped with
    the figures. A trial that failed (its processes got no core in time) gave no figure."""
    seen: list[tuple[str, float]] = []
    for _ in range(attempts):
        clocks = Clocks.read()
        try:
            value = attempt()
        except TrialFailed as failure:
            seen.append((str(failure), clocks.others_cores()))
            continue
        seen.append((f"{value:.6g}", clocks.others_cores()))
        if abs(value - truth) <= within:
            return
    story = "; ".join(f"{what} while others used {cores:.1f} cores" for what, cores in seen)
    if all(cores > DISTURBED_CORES for _, cores in seen):
        pytest.skip(f"machine too busy to tell: {story}; the truth is {truth:g} +- {within:g}")
    pytest.fail(f"never within {within:g} of {truth:g}: {story}")


def find_difference(
    truths: Mapping[str, float],
    within: float,
    measure: Callable[[str], float],
    floor: str = "",
    most_turns: int = MOST_TURNS,
) -> None:
    """Measure what was set and the floor in turns, until the differences decide.

    `truths` are the set values by the name that `measure` takes; `floor` is the name of nothing
    set. Every turn measures all of them next to each other, in random order, since the floor moves
    from trial to trial; a turn's difference is one observation. The median difference has its
    interval of order statistics at planned looks (statistics.boundaries). A truth is found when
    the whole interval lies within the tolerance; the test fails when an interval lies outside of
    it; where neither is so at the last look, or others were busy meanwhile, the skip says so."""
    rule = StoppingRule(planned_looks(most_turns))
    order = random.Random(1)
    seen: dict[str, list[float]] = {name: [] for name in truths}
    open_names, busy = set(truths), 0
    for turn in range(1, rule.looks[-1] + 1):
        names = [floor, *sorted(open_names)]
        order.shuffle(names)
        clocks = Clocks.read()
        with contextlib.suppress(TrialFailed):  # no core in time: no figure
            values = {name: measure(name) for name in names}
            for name in open_names:
                seen[name].append(values[name] - values[floor])
        busy += clocks.others_cores() > DISTURBED_CORES
        if not rule.is_look(turn):
            continue
        for name in sorted(open_names):
            low, high = median_interval(seen[name], rule.level_at(turn))
            if low > truths[name] + within or high < truths[name] - within:
                pytest.fail(f"{name}: {low:g} to {high:g}, and {truths[name]:g} was set: {seen}")
            if truths[name] - within <= low and high <= truths[name] + within:
                open_names.remove(name)
        if not open_names:
            return
        if turn >= BUSY_TURNS and busy > turn / 2:
            pytest.skip(f"other programs were busy in {busy} of {turn} turns: {seen}")
    pytest.skip(f"machine too noisy to tell to {within:g} in {rule.looks[-1]} turns: {seen}")


def median_interval(values: Sequence[float], level: float) -> tuple[float, float]:
    """Between which observations the median lies but for this chance (sign test)."""
    ordered, count = sorted(values), len(values)
    rank = int(binom.ppf(level / 2, count, 0.5)) if count else 0
    if rank == 0 or not ordered:  # (the rank is the first at which the level is exceeded)
        return -math.inf, math.inf
    return ordered[rank - 1], ordered[count - rank]


def buffer_frames(rig: Rig, limit_pps: float) -> float:
    """What back-to-back bursts find that may pass a limiter at once."""
    found = back_to_back(
        rig.measurer, rate_pps=4 * limit_pps, throughput_pps=limit_pps,
        shortest_s=1e-3, longest_s=0.05, repetitions=1,
    )  # fmt: skip
    return found.buffer_frames or 0.0


def search_over_truth(rig: Rig, passes_frames: float, min_pps: float, max_pps: float) -> float:
    """NDR and PDR in one search with trials of a second, in which so many frames pass a limiter:
    what was found over what the goal's loss makes of that; of the one that is further off."""
    trial_s, ratios = 1.0, {"NDR": 0.0, "PDR": 0.005}
    goals = [
        Goal(name=name, loss_ratio=ratio, final_trial_s=trial_s, duration_sum_s=2 * trial_s,
             exceed_ratio=0.5, width=0.005)
        for name, ratio in ratios.items()
    ]  # fmt: skip
    found = search(rig.measurer, goals, min_pps=min_pps, max_pps=max_pps, warm_up_s=0, budget_s=60)
    shares = [
        (found[name].lower_pps or 0.0) * trial_s * (1 - ratio) / passes_frames
        for name, ratio in ratios.items()
    ]
    return max(shares, key=lambda share: abs(share - 1))


@dataclass(frozen=True)
class Clocks:
    """CPU time of the machine and of this test with all its processes, dead or alive."""

    wall_s: float
    machine_s: float
    own_s: float

    @classmethod
    def read(cls) -> Clocks:
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        alive = sum(process_cpu_s(pid) for pid in descendants(os.getpid()))
        own = time.process_time() + reaped.ru_utime + reaped.ru_stime + alive
        machine = MachineTime.read()
        return cls(time.monotonic(), machine.busy_s + machine.stolen_s, own)

    def others_cores(self) -> float:
        """Cores that other programs and guests have used since."""
        now = Clocks.read()
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
