"""The trust marks of results, with the meaning and the remedy of each.

The verdict of a trial, the report, `show` and docs/results.md all print the texts of this table.
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
        """Meaning and remedy in one text."""
        return f"{self.meaning} {self.remedy}"


_TABLE = (
    Mark(
        "oversubscribed",
        "More busy programs than cores",
        "Programs had to share cores although each needs its own core, so the number includes time "
        "spent waiting for a core.",
        "Use it only to compare switches on the same cores of this machine. For absolute figures, "
        "use a machine with more cores, or fewer pairs.",
    ),
    Mark(
        "generator-bound",
        "The sender was the limit",
        "The sender reached its highest rate before the switch did, so the switch may be faster "
        "than shown.",
        "Read the number as a lower bound. Use a faster port kind or I/O, give the sender more "
        "cores, or use more pairs.",
    ),
    Mark(
        "receiver-bound",
        "The receiver was the limit",
        "The switch delivered more frames than the receiver could process, so the receiver lost "
        "them.",
        "Read the number as a lower bound. Give the receiver a separate core or a faster I/O.",
    ),
    Mark(
        "receiver-away",
        "Frames were lost while the receiver waited for its core",
        "At least half of the lost frames were lost while another program or the hypervisor used "
        "the core of the receiver. The switch did not lose them.",
        "Do not compare switches by this loss. Stop the other programs, or give the receiver a "
        "separate core.",
    ),
    Mark(
        "unstable",
        "The rate varied during the trial",
        "The rate in the measured window varied more than the permitted bound, so the "
        "mean hides a changing value.",
        "Look at the samples of the trial. Stop other programs, measure longer and repeat.",
    ),
    Mark(
        "disturbed",
        "Other programs were busy",
        "Programs that do not belong to the trial, or other guests of the hypervisor, used more "
        "than a tenth of a core during the trial.",
        "Stop them (section cpu of the record has their CPU time), then measure again.",
    ),
    Mark(
        "throttled",
        "The CPU quota was used up",
        "A control group of the bench and its programs used up its CPU quota. The kernel then "
        "stopped all of them for the rest of a period, usually 100 ms, once or several times.",
        "Do not use the number. Raise the quota (limits.cpu of a pod, docker run --cpus, "
        "CPUQuota= of systemd) above the CPUs of the placement, or use fewer pairs. End other "
        "programs in the same group, then measure again.",
        invalidates=True,
    ),
    Mark(
        "schedule-missed",
        "The sender could not keep its schedule",
        "The sender skipped some frames of its schedule, so the offered load is below the "
        "intended load.",
        "Compare by offered load, set a lower rate, or give the sender a separate core.",
    ),
    Mark(
        "duration-stretched",
        "The trial lasted longer than intended",
        "A sender lost its core for a while and ended more than 2 % later than intended, so rates "
        "and loss belong to a longer time.",
        "Find the cause (other programs, a suspended guest, too few cores), then measure again.",
    ),
    Mark(
        "wrong-connect-mode",
        "The switch forwards by another rule than intended",
        "Broadcast frames did not arrive where the connect mode sends them, so the switch does "
        "other work than the row states.",
        "Do not use the number. Read the verification message, and check configuration and "
        "version of the switch.",
        invalidates=True,
    ),
    Mark(
        "flooding",
        "Frames arrived at ports that they were not addressed to",
        "The switch had not learned the address of a station, or had forgotten it, and copied "
        "frames to other ports. The figure is then not the figure of forwarding.",
        "Do not use the number. Check the connect mode, the table size and the ageing time of the "
        "switch, then measure again.",
        invalidates=True,
    ),
    Mark(
        "unverified",
        "The path was not verified before the trial",
        "Not all frames that were sent before the trial arrived where they should, so it is "
        "uncertain what the number measures.",
        "Do not use the number. Read the verification message and the log of the switch, then "
        "measure again.",
        invalidates=True,
    ),
    Mark(
        "corrupt-frames",
        "Frames arrived damaged",
        "Frames arrived with a header, checksum or payload that differs from the sent frame.",
        "Do not use the number. Look for a fault in the switch, its offloads or the memory.",
        invalidates=True,
    ),
    Mark(
        "nothing-arrived",
        "No frame arrived",
        "No frame reached the receiver in the measured window, so there is no rate to report.",
        "Do not use the number. Read the log and the counters of the switch, then measure again.",
        invalidates=True,
    ),
    Mark(
        "partial",
        "A fault ended part of the trial",
        "The port of a traffic application failed, lost its peer, or accepted no frame for a "
        "second, so the figure covers only the rest of the trial.",
        "Do not use the number. Section faults of the record, which the report shows with the "
        "trial, names the port and the fault. Correct it, then measure again.",
        invalidates=True,
    ),
    Mark(
        "counters-disagree",
        "No counter explains some missing or additional frames",
        "By the counters of the switch and of the applications, more than 0.01 % of the sent "
        "frames disappeared, or appeared, at a step of the path where no counter explains it.",
        "Read the step in section reconciliation of the record, which the report shows with the "
        "trial. Perhaps the switch did not lose these frames. Additional frames are copies.",
    ),
    Mark(
        "contradictory-counts",
        "Counters contradict each other",
        "An application received more frames (copies not counted) than were sent to it, or frames "
        "with numbers that were never sent. So frames of another sender were counted.",
        "Do not use the number. Section contradictions of the record, which the report shows with "
        "the trial, names the counters. Look for another sender on this path, then measure again.",
        invalidates=True,
    ),
    Mark(
        "uncertain-loss",
        "The loss is known only between two bounds",
        "Frames arrived with sequence numbers that were a million or more above or below those of "
        "the other frames. Whether they are copies or late frames cannot be decided; the loss does "
        "not count them as arrived.",
        "Read the loss as an upper bound. Section uncertain_losses of the record, which the "
        "report shows with the trial, has both bounds. Look for a loop, or a switch that repeats "
        "old frames.",
    ),
    Mark(
        "copied-frames",
        "Frames arrived more than once",
        "The number of copies is more than 0.1 % of the sent frames. The forwarded load counts "
        "every copy, so it is above the load without copies.",
        "Use the loss, which counts each frame once. Find out why frames are copied (a loop, "
        "flooding, a mirror) before you compare the rate.",
    ),
    Mark(
        "function-violated",
        "The switch did not perform its function on every frame",
        "Frames of the load arrived with another next hop or header than the function demands, or "
        "frames that had to be dropped arrived, or the tables of the switch changed during the "
        "traffic.",
        "Do not use the number. Section function of the record has the counts; find out which "
        "frames the switch treats differently under load.",
        invalidates=True,
    ),
    Mark(
        "lossy-receiver-socket",
        "The socket of the receiver dropped frames",
        "The kernel dropped frames at the socket of the receiver, behind the switch. So a part of "
        "the loss, or all of it, is not a loss of the switch.",
        "Enlarge the socket buffer (net.core.rmem_max), use a faster I/O, or lower the rate.",
    ),
    Mark(
        "contradicts-trials",
        "The figure is above the figures of its trials",
        "The figure of the method breaks a rule that every true figure obeys, for example that no "
        "bound is above the highest rate that its trials forwarded.",
        "Do not use the number. The notes of the method name the rule. Look at its trials, and "
        "report the record as a defect.",
        invalidates=True,
    ),
    Mark(
        "noise-decided",
        "Noise of the machine set the bounds, not the switch",
        "Near the limit, some trials at the same load met the goal and others did not. The range "
        "of such loads is wider than the required width, so the bounds depend on chance.",
        "Use the range in the record instead of the bounds. Stop other programs, use longer "
        "trials, or require a larger width (`goals: quick` requires 1 %).",
    ),
    Mark(
        "out-of-budget",
        "Time ended before the method did",
        "The time limit ended before the method was complete. The result is true, but less narrow "
        "than required.",
        "Raise method_budget, or use wider bounds or fewer repetitions.",
    ),
    Mark(
        "two-bands",
        "The values fall into two groups",
        "The values fall into two groups with no value between them, so their mean describes "
        "neither group.",
        "Look at the single values. Find out what changes (placement, offloads, background load) "
        "and measure each state separately.",
    ),
    Mark(
        "short-window",
        "Too little time was measured",
        "After the removal of warm-up and cool-down, too few samples were left for a steady mean.",
        "Measure longer: raise the duration of the trial.",
    ),
    Mark(
        "no-baseline",
        "The limit of the generator is not known",
        "There is no trial without a switch (direct) at the same test point and port kind, "
        "neither in this run nor in the cache of this machine. So it is not known how close the "
        "generator was to its own limit.",
        "Leave out --no-baseline, or run: switchmark trial direct --method calibrate. Ports "
        "that exist only with their switch (container networks, existing networks, macvlan, "
        "SR-IOV, VALE) have no baseline.",
    ),
    Mark(
        "mixed-connect-modes",
        "Switches were compared in different connect modes",
        "Switches at this test point choose the output port by different rules (cross-connect, "
        "learning, static-mac), which is different work.",
        "Set one connect_mode for the campaign, or compare only rows of the same mode.",
    ),
    Mark(
        "shared",
        "Other senders used the network",
        "Before the trial, while the bench sent nothing, other senders had packets on the path: "
        "more than a twentieth of the load of the trial.",
        "Read the number as the performance of the network beside these senders. Section crossing "
        "of the record has their rate. Measure at another time, or repeat.",
    ),
    Mark(
        "network-changed",
        "The network changed during the run",
        "Devices, settings or firewall rules on the path differ from those of the first trial of "
        "the run, so the trials measured different networks.",
        "Do not use the number. Find out what changes the network (section crossing of the record, "
        "`switchmark path`), then measure again.",
        invalidates=True,
    ),
    Mark(
        "mixed-socket-buffers",
        "Sockets had buffers of different sizes",
        "The kernel granted different sizes of socket buffers to the applications of the compared "
        "trials. Only root gets more than net.core.rmem_max and wmem_max.",
        "Measure all with --set socket_buffers=unforced, or raise both limits. Section granted of "
        "the record has the sizes.",
    ),
    Mark(
        "mixed-scheduling",
        "Programs ran in different scheduling classes",
        "In the compared trials, applications or processes of switches ran in different "
        "scheduling classes or with different priorities, so they were not interrupted equally "
        "often.",
        "Start the bench in the same way each time, without nice or chrt. Section granted of the "
        "record has the classes.",
    ),
    Mark(
        "slow-engine-build",
        "The traffic engine was not built for measurements",
        "The engine was built without optimisation, or with sanitizers or coverage, which can "
        "halve every figure.",
        "Do not use the number. Build the engine with `./quickstart --setup-only`, or set "
        "SWITCHMARK_TRAFFIC to such a build, then measure again.",
        invalidates=True,
    ),
    Mark(
        "limit-not-in-force",
        "The CPU limit was not in force",
        "The switch used more CPU time than its limit permits, or the kernel had another limit "
        "than the one that was set.",
        "Do not use the number. Look at section cpu_quota of the record, and for a program that "
        "changes control groups.",
        invalidates=True,
    ),
    Mark(
        "clocks-uncertain",
        "One-way times are shorter than the uncertainty of the clocks",
        "The uncertainty of the offset between the clocks of the two hosts is larger than the "
        "median one-way time, so that time is little more than an upper bound. Round trips use "
        "one clock only.",
        "Use the round trip, or the delay variation, which needs no offset. For one-way times, "
        "give the hosts a faster control connection, or use a load at which frames wait longer.",
    ),
    Mark(
        "coarse-clock",
        "The clock has coarse steps",
        "The clock of a traffic application has steps that are longer than a hundredth of the "
        "median time, so percentiles and delay variation are rounded to these steps.",
        "Compare means, or times that differ by many steps. The ready line of each application in "
        "the record has the step (clock_step_ns).",
    ),
    Mark(
        "software-emulated",
        "A virtual machine ran without hardware support",
        "A virtual machine of the trial, or the virtual machine in which the bench runs, was "
        "emulated in software (no KVM), which is many times slower.",
        "Use the result only as proof of function. Measure on a machine with KVM.",
        invalidates=True,
    ),
    Mark(
        "leftovers",
        "Something of the trial could not be removed",
        "After the measurement was complete, a program, namespace, container or device of the "
        "trial could not be ended or removed, so it was present in later trials.",
        "Read the reason at the end of the explanation in the record. The run tries again at its "
        "end; `switchmark clean` removes what remains.",
    ),
)

MARKS: dict[str, Mark] = {mark.name: mark for mark in _TABLE}


def explain(name: str) -> str:
    """Return meaning and remedy of a mark. Raises ValueError for an unknown mark."""
    if name not in MARKS:
        raise ValueError(f"unknown trust mark {name!r}: add it to switchmark/record/marks.py")
    return MARKS[name].explanation


def marks_are_valid(names: Iterable[str]) -> bool:
    """Return True if a number with these marks may be used."""
    return not any(name in MARKS and MARKS[name].invalidates for name in names)


def markdown_table() -> str:
    """Return the table of docs/results.md."""
    lines = ["| mark | what it means | what to do | number usable |", "|---|---|---|---|"]
    for mark in _TABLE:
        usable = "no" if mark.invalidates else "yes"
        lines.append(f"| `{mark.name}` | {mark.meaning} | {mark.remedy} | {usable} |")
    return "\n".join(lines)
