"""Switches with known true values, and the search for them (on the rig of switchmark/certify).

Runs are repeated on a busy machine (`find`). One figure within the tolerance is enough, since noise
only leads away from a set value. If most runs were disturbed, the test is skipped with this reason.
It never passes without a figure.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping

import pytest

from switchmark.certify.support.decision import judge, rule_for
from switchmark.certify.support.rig import CpuTimes, Rig
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

ATTEMPTS = 4  # undisturbed attempts
MOST_ATTEMPTS = 12
STOLEN_S = 0.01  # by the hypervisor: a tick, longer than a sender can catch up
MOST_TURNS, BUSY_TURNS = 23, 14


def reference(**faults: float | str) -> Reference:
    """Return the reference switch with these faults, for example `limit_pps=100_000`."""
    switch = Reference()
    switch.configure({name: str(value) for name, value in faults.items()})
    return switch


def shape(switch: LinuxBridge, pps: int, frame_bytes: int, bucket_s: float = 0.005) -> None:
    """Let the bridge's port to the receiver pass so many frames a second (`tc tbf`), and the frames
    of `bucket_s` at once. The kernel does not count the FCS."""
    bits = pps * (frame_bytes - 4) * 8
    burst = round(pps * (frame_bytes - 4) * bucket_s)
    where = f"qdisc add dev {device_of(switch.ports[1])} root"
    switch.namespace.batch("tc", [f"{where} tbf rate {bits} burst {burst} limit {burst}"])


def shape_by_htb(switch: LinuxBridge, pps: int, frame_bytes: int, bucket_s: float = 0.005) -> None:
    """Limit the rate by a class of `tc htb` with a queue of so many frames before it."""
    frame = frame_bytes - 4
    burst, device = round(pps * frame * bucket_s), device_of(switch.ports[1])
    rates = f"rate {pps * frame * 8} burst {burst} cburst {burst}"
    switch.namespace.batch("tc", [
        f"qdisc add dev {device} root handle 1: htb default 1",
        f"class add dev {device} parent 1: classid 1:1 htb {rates} quantum 1514",
        f"qdisc add dev {device} parent 1:1 pfifo limit {round(pps * bucket_s)}",
    ])  # fmt: skip


def unshape(switch: LinuxBridge) -> None:
    """Remove the limit."""
    switch.namespace.batch("tc", [f"qdisc del dev {device_of(switch.ports[1])} root"])


def meter(rig: Rig, pps: int, bucket_s: float = 0.01) -> None:
    """Let an Open vSwitch pass so many frames a second from the sender; a meter of its datapath
    counts packets and drops the others."""
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
    """Repeat until the figure lies within the tolerance of the true value.

    Fail if it never did in `attempts` undisturbed attempts: neither other programs (by the bench's
    own mark) nor the hypervisor took the cores. If there are too few of them, skip with the
    figures. A failed trial, whose processes got no core in time, gives no figure."""
    story_lines: list[str] = []
    calm = 0
    while calm < attempts and len(story_lines) < MOST_ATTEMPTS:
        clocks, stolen_s = CpuTimes.read(), MachineTime.read().stolen_s
        try:
            value = attempt()
        except TrialFailed as failure:
            outcome = str(failure)
        else:
            if abs(value - truth) <= within:
                return
            outcome = f"{value:.6g}"
        cores, stolen_s = clocks.other_cores(), MachineTime.read().stolen_s - stolen_s
        calm += cores <= DISTURBED_CORES and stolen_s < STOLEN_S
        story_lines.append(
            f"{outcome} while others used {cores:.1f} cores and {stolen_s:.2f} s were stolen"
        )
    story = "; ".join(story_lines)
    if calm < attempts:
        pytest.skip(f"machine too busy to decide: {story}; the truth is {truth:g} +- {within:g}")
    pytest.fail(f"never within {within:g} of {truth:g}: {story}")


def find_difference(
    truths: Mapping[str, float],
    within: float,
    measure: Callable[[str], float],
    floor: str = "",
    most_turns: int = MOST_TURNS,
) -> None:
    """Measure the set values and the floor in turns, until the differences decide.

    `truths` are the set values by the name that `measure` accepts; `floor` is the name without a
    set value. Every turn measures all of them in random order, since the floor changes from trial
    to trial; a turn's difference is one observation. The median difference has its interval of
    order statistics at planned interim analyses (statistics.boundaries). The test passes if the
    whole interval lies within the tolerance, and fails if it lies outside. If neither holds at the
    last analysis, or other programs were busy, the test is skipped."""
    rule = rule_for(1, most_turns)
    order = random.Random(1)
    differences: dict[str, list[float]] = {name: [] for name in truths}
    open_names, busy = set(truths), 0
    for turn in range(1, rule.analyses[-1] + 1):
        names = [floor, *sorted(open_names)]
        order.shuffle(names)
        clocks = CpuTimes.read()
        with contextlib.suppress(TrialFailed):  # without a core there is no figure
            values = {name: measure(name) for name in names}
            for name in open_names:
                differences[name].append(values[name] - values[floor] - truths[name])
        busy += clocks.other_cores() > DISTURBED_CORES
        for name in sorted(open_names) if rule.is_analysis(turn) else ():
            found = judge(differences[name], within, rule)
            if found.outcome == REFUTED:
                pytest.fail(f"{name}: off by {found.low:g} to {found.high:g}: {differences}")
            if found.outcome == PROVEN:
                open_names.remove(name)
        if not open_names:
            return
        if rule.is_analysis(turn) and turn >= BUSY_TURNS and busy > turn / 2:
            pytest.skip(f"other programs were busy in {busy} of {turn} turns: {differences}")
    pytest.skip(
        f"machine too noisy to decide within {within:g} in {rule.analyses[-1]} turns: {differences}"
    )


def buffer_frames(rig: Rig, limit_pps: float) -> float:
    """Return the frames that pass a limiter at once, by back-to-back bursts."""
    found = back_to_back(
        rig.measurer, rate_pps=4 * limit_pps, throughput_pps=limit_pps,
        shortest_s=1e-3, longest_s=0.05, repetitions=1,
    )  # fmt: skip
    return found.buffer_frames or 0.0


def search_over_truth(rig: Rig, passes_frames: float, min_pps: float, max_pps: float) -> float:
    """Search NDR and PDR with trials of a second, in which so many frames pass a limiter.

    Return the found rate divided by the rate that the goal's loss allows, of the worse goal."""
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
