"""The trust marks a result may carry: what each means and what to do about it.

The one place where these words live: the verdict takes its explanations from here, the
report and `show` print them, and docs/results.md is tested against this table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mark:
    """One reason to read a number with care. `invalidates`: the number must not be used."""

    name: str
    title: str
    meaning: str
    remedy: str
    invalidates: bool = False

    @property
    def explanation(self) -> str:
        """Meaning and remedy, as the verdict, the report and `show` print them."""
        return f"{self.meaning} {self.remedy}"


_TABLE = (
    Mark(
        "oversubscribed",
        "More busy programs than cores",
        "Programs that wanted a core each had to share, so the number includes waiting for a core.",
        "Use it only to compare switches measured with the same placement; "
        "for absolute figures use a machine with more cores or fewer pairs.",
    ),
    Mark(
        "generator-bound",
        "The sender was the limit",
        "The sender, not the switch, was at its ceiling, so the switch may be faster than shown.",
        "Read the number as a lower bound; use a faster port kind or I/O, give the sender more "
        "cores, or use more pairs.",
    ),
    Mark(
        "receiver-bound",
        "The receiver was the limit",
        "The switch handed over more frames than the receiver could take, so the loss is the "
        "receiver's.",
        "Read the number as a lower bound; give the receiver a core of its own or a faster I/O.",
    ),
    Mark(
        "receiver-away",
        "Frames were lost while the receiver waited for its core",
        "Half or more of the lost frames were lost while their receiver was away from its core: "
        "other programs had it, or the hypervisor. They are not the switch's loss.",
        "Do not compare switches by this loss; stop the other programs, or give the receiver a "
        "core of its own.",
    ),
    Mark(
        "unstable",
        "The rate swung during the trial",
        "The rate in the kept window varied more than the stated bound, so the mean hides a "
        "moving value.",
        "Look at the samples of the trial, quieten the machine, measure longer and repeat.",
    ),
    Mark(
        "disturbed",
        "Other programs were busy",
        "Programs that have nothing to do with the trial, or other guests of the hypervisor, used "
        "more than a tenth of a core meanwhile.",
        "Stop them (the record's cpu section says how much they used), then measure again.",
    ),
    Mark(
        "throttled",
        "The CPU quota was used up",
        "A control group of the bench and its programs had used up its CPU quota, so the kernel "
        "stopped all of them for the rest of a period of usually 100 ms, once or more.",
        "Do not use the number; raise the quota (a pod's limits.cpu, docker run --cpus, CPUQuota= "
        "of systemd) above the CPUs of the placement, or use fewer pairs; end other programs in "
        "the same group, then measure again.",
        invalidates=True,
    ),
    Mark(
        "schedule-missed",
        "The sender could not keep its schedule",
        "The sender gave up some of the frames that its schedule asked for, so the offered load "
        "is below the intended one.",
        "Compare by offered load, ask for a lower rate, or give the sender a core of its own.",
    ),
    Mark(
        "duration-stretched",
        "The trial lasted longer than asked",
        "A sender ran more than 2 % longer than it should have, since it was kept from running, so "
        "rates and loss are of another stretch of time than was asked for.",
        "Look for what held it up (other programs, a suspended guest, too few cores); then "
        "measure again.",
    ),
    Mark(
        "wrong-connect-mode",
        "The switch forwards by another rule than asked",
        "Broadcast frames did not go where the connect mode sends them, so the switch does other "
        "work than its row says.",
        "Do not use the number; read the verification message, and check the switch's "
        "configuration and version.",
        invalidates=True,
    ),
    Mark(
        "flooding",
        "Frames went to ports they were not for",
        "The switch had not learnt, or forgot, where a station is and copied frames to other "
        "ports, so the work measured is not forwarding.",
        "Do not use the number; check the connect mode and the switch's table size and ageing "
        "time, then measure again.",
        invalidates=True,
    ),
    Mark(
        "unverified",
        "The path was not proven before the trial",
        "The frames sent before the trial did not all arrive where they should, so it is not "
        "certain what the number measures.",
        "Do not use the number; read the verification message and the switch's log, then "
        "measure again.",
        invalidates=True,
    ),
    Mark(
        "corrupt-frames",
        "Frames arrived damaged",
        "Frames arrived whose header, checksum or payload differs from what was sent.",
        "Do not use the number; look for a fault in the switch, its offloads or the memory.",
        invalidates=True,
    ),
    Mark(
        "nothing-arrived",
        "No frame arrived",
        "Not one frame reached the receiver in the kept window, so there is no rate to report.",
        "Do not use the number; read the switch's log and counters, then measure again.",
        invalidates=True,
    ),
    Mark(
        "partial",
        "A fault took part of the trial",
        "The port of a traffic application failed, lost its peer, or took no frame for a second, "
        "so the figure is of what was left of the trial.",
        "Do not use the number; the record's faults (the report shows them with the trial) say "
        "which port and what; mend that, then measure again.",
        invalidates=True,
    ),
    Mark(
        "counters-disagree",
        "Counters do not agree",
        "More than 0.01 % of the frames sent are missing, or appeared, at a place where nothing "
        "has counted them, by the counters of the switch and of the applications.",
        "Read which place it is in the record's reconciliation (the report shows it with the "
        "trial); loss there may not be the switch's, and an excess means copies.",
    ),
    Mark(
        "contradictory-counts",
        "Counters contradict each other",
        "An application received more different frames than were sent to it, or frames with "
        "numbers that were never sent, so frames of another sender are among those counted.",
        "Do not use the number; the record's contradictions (the report shows them with the "
        "trial) say which counters; look for another sender on this wire, then measure again.",
        invalidates=True,
    ),
    Mark(
        "uncertain-loss",
        "The loss is known between two bounds only",
        "Frames arrived a million numbers or more before or behind their neighbours, so nobody can "
        "tell whether they were copies; the loss counts them as lost.",
        "Read the loss as an upper bound; the record's uncertain_losses (the report shows them "
        "with the trial) have both bounds; look for a loop, or a switch that repeats old frames.",
    ),
    Mark(
        "copied-frames",
        "Frames arrived more than once",
        "More than 0.1 % as many frames as were sent arrived a second time, and the forwarded load "
        "counts every copy, so it is above what was forwarded once.",
        "Take the loss, which is of different frames; look for why frames are copied (a loop, a "
        "flood, a mirror) before the rate is compared.",
    ),
    Mark(
        "lossy-receiver-socket",
        "The receiver's socket dropped frames",
        "The kernel dropped frames at the receiver's socket after the switch had delivered them, "
        "so the loss is not the switch's alone.",
        "Enlarge the socket buffer (net.core.rmem_max), use a faster I/O, or lower the rate.",
    ),
    Mark(
        "contradicts-trials",
        "The figure is above what its own trials showed",
        "The method's figure breaks a rule that holds for every true figure, for example that no "
        "bound is above the highest rate that its trials forwarded.",
        "Do not use the number; the method's notes name the rule. Look at its trials, and report "
        "the record as a defect.",
        invalidates=True,
    ),
    Mark(
        "noise-decided",
        "Noise, not the switch, decided",
        "At the loads around the limit, trials of the same load went both ways over a range wider "
        "than the width asked for, so the bounds fall where chance put them.",
        "Use the range the record gives instead of the bounds; quieten the machine, lengthen the "
        "trials or widen the goal.",
    ),
    Mark(
        "out-of-budget",
        "Time ended before the method did",
        "The method's budget of time ended first: what is given is true, but less narrow than was "
        "asked.",
        "Raise the budget, or ask for wider bounds or fewer repetitions.",
    ),
    Mark(
        "two-bands",
        "The values fall into two groups",
        "The values fall into two groups with nothing between them, so their mean describes "
        "neither.",
        "Look at the single values; find what changes (placement, offloads, a neighbour) and "
        "measure each state by itself.",
    ),
    Mark(
        "short-window",
        "Too little time was measured",
        "Too few samples were left after warm-up and cool-down were trimmed for the mean to be "
        "steady.",
        "Measure longer: raise the trial's duration.",
    ),
    Mark(
        "no-baseline",
        "The ceiling of the tools is not known",
        "No trial without a switch (direct) was measured at the same point and port kind, nor is "
        "one kept of this machine, so how far the generator is from its own ceiling is not known.",
        "Leave out --no-baseline, or run: switchmark trial direct --method calibrate.",
    ),
    Mark(
        "mixed-connect-modes",
        "Switches were compared in different connect modes",
        "Switches at this point decide in different ways where a frame goes (cross-connect, "
        "learning, static-MAC), which is not the same work.",
        "Set one connect_mode for the campaign, or compare only rows of the same mode.",
    ),
    Mark(
        "mixed-socket-buffers",
        "Sockets had buffers of different sizes",
        "The kernel granted the applications' sockets buffers of different sizes in the trials "
        "that are compared: only root of a machine gets more than net.core.rmem_max and wmem_max.",
        "Measure all with --set socket_buffers=unforced, or raise both limits (the record's "
        "granted section has the sizes).",
    ),
    Mark(
        "mixed-scheduling",
        "Programs ran in different scheduling classes",
        "Applications, or switches with processes, ran in different scheduling classes or with "
        "different priorities in the trials that are compared, so they were not interrupted alike.",
        "Start the bench alike each time (without nice or chrt); the record's granted section has "
        "the classes.",
    ),
    Mark(
        "slow-engine-build",
        "The traffic engine was not built for measuring",
        "The engine that sent or received was built without optimisation, or with sanitizers or "
        "coverage, which may halve every figure.",
        "Do not use the number; build the engine with `./quickstart --setup-only`, or let "
        "SWITCHMARK_TRAFFIC name such a build, then measure again.",
        invalidates=True,
    ),
    Mark(
        "limit-not-in-force",
        "The CPU limit did not hold",
        "The switch used more CPU time than its limit allows, or the kernel had another limit "
        "than was set.",
        "Do not use the number; look at the record's cpu_quota, and for a program that changes "
        "control groups.",
        invalidates=True,
    ),
    Mark(
        "clocks-uncertain",
        "One-way times are shorter than the clocks' uncertainty",
        "The offset of the two hosts' clocks is known less exactly than the median one-way time is "
        "long, so that time is hardly more than an upper bound; round trips are of one clock.",
        "Use the round trip, or delay variation, which needs no offset; for one-way times give the "
        "hosts a quicker control connection, or a load at which frames wait longer.",
    ),
    Mark(
        "coarse-clock",
        "The clock counts in coarse steps",
        "The clock of a traffic application counts in steps longer than a hundredth of the median "
        "time, so percentiles and delay variation are rounded to such steps.",
        "Compare means, or times that are many steps apart; the ready line of each application in "
        "the record has the step (clock_step_ns).",
    ),
    Mark(
        "software-emulated",
        "A virtual machine ran without hardware support",
        "A virtual machine of the trial, or the one that the bench itself runs in, ran under "
        "software emulation (no KVM), which is many times slower than hardware.",
        "Use the result as proof of function only; measure on a machine with KVM.",
        invalidates=True,
    ),
)

MARKS: dict[str, Mark] = {mark.name: mark for mark in _TABLE}


def explain(name: str) -> str:
    """The meaning of a mark and what to do. Raises ValueError for a mark that is not in the
    table."""
    if name not in MARKS:
        raise ValueError(f"unknown trust mark {name!r}: add it to switchmark/results/marks.py")
    return MARKS[name].explanation


def marks_are_valid(names: Iterable[str]) -> bool:
    """Whether a number with these marks may be used at all."""
    return not any(name in MARKS and MARKS[name].invalidates for name in names)


def markdown_table() -> str:
    """The table in the form of docs/results.md."""
    lines = ["| mark | what it means | what to do | number usable |", "|---|---|---|---|"]
    for mark in _TABLE:
        usable = "no" if mark.invalidates else "yes"
        lines.append(f"| `{mark.name}` | {mark.meaning} | {mark.remedy} | {usable} |")
    return "\n".join(lines)
