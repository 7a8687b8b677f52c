"""Switches whose truth is known, and what methods find of it (on switchmark/certify's stand).

The machine may be busy with other things. So runs are repeated (`find`): one figure within the
tolerance is enough, since noise only ever leads away from a set value; a machine that was
disturbed in most runs is named as the reason of a skip. It never passes without a figure.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping

import pytest

from switchmark.certify.support.decision import judge, rule_for
from switchmark.certify.support.stand import CpuTimes, Rig
from switchmark.errors import TrialFailed
from switchmark.host.cores.cpu_time import MachineTime
from switchmark.method.back_to_back import back_to_back
from switchmark.method.ndr_pdr import search
from switchmark.method.support.goal import Goal
from switchmark.record.certificate import PROVEN, REFUTED
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.reference import Reference
from switchmark.switch.support.ovs_switch import OvsSwitch
from switchmark.switch.support.ports import device_of
from switchmark.trial.judge import DISTURBED_CORES

ATTEMPTS = 4  # that nobody disturbed
MOST_ATTEMPTS = 12
STOLEN_S = 0.01  # by the hypervisor: a tick, longer than what a sender makes up for
MOST_TURNS, BUSY_TURNS = 23, 14


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
    switch.wait_converged()


def find(
    truth: float, within: float, attempt: Callable[[], float], attempts: int = ATTEMPTS
) -> None:
    """Try until the figure lies within the tolerance of the truth.

    Fails when it never did in so many attempts that nobody disturbed: neither other programs (as
    the bench's own mark has it) nor the hypervisor. Where there are too few of them the machine
    cannot tell, and the test is skipped with the figures. A trial that failed (its processes got
    no core in time) gave no figure."""
    seen: list[str] = []
    calm = 0
    while calm < attempts and len(seen) < MOST_ATTEMPTS:
        clocks, stolen_s = CpuTimes.read(), MachineTime.read().stolen_s
        try:
            value = attempt()
        except TrialFailed as failure:
            what = str(failure)
        else:
            if abs(value - truth) <= within:
                return
            what = f"{value:.6g}"
        cores, stolen_s = clocks.others_cores(), MachineTime.read().stolen_s - stolen_s
        calm += cores <= DISTURBED_CORES and stolen_s < STOLEN_S
        seen.append(f"{what} while others used {cores:.1f} cores and {stolen_s:.2f} s were stolen")
    story = "; ".join(seen)
    if calm < attempts:
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
    rule = rule_for(1, most_turns)
    order = random.Random(1)
    seen: dict[str, list[float]] = {name: [] for name in truths}
    open_names, busy = set(truths), 0
    for turn in range(1, rule.looks[-1] + 1):
        names = [floor, *sorted(open_names)]
        order.shuffle(names)
        clocks = CpuTimes.read()
        with contextlib.suppress(TrialFailed):  # no core in time: no figure
            values = {name: measure(name) for name in names}
            for name in open_names:
                seen[name].append(values[name] - values[floor] - truths[name])
        busy += clocks.others_cores() > DISTURBED_CORES
        for name in sorted(open_names) if rule.is_look(turn) else ():
            found = judge(seen[name], within, rule)
            if found.outcome == REFUTED:
                pytest.fail(f"{name}: off by {found.low:g} to {found.high:g}: {seen}")
            if found.outcome == PROVEN:
                open_names.remove(name)
        if not open_names:
            return
        if rule.is_look(turn) and turn >= BUSY_TURNS and busy > turn / 2:
            pytest.skip(f"other programs were busy in {busy} of {turn} turns: {seen}")
    pytest.skip(f"machine too noisy to tell to {within:g} in {rule.looks[-1]} turns: {seen}")


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
