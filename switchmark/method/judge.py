"""What limited a number, and how far it can be trusted: conclusions from measured evidence only.

The order of the questions matters: a load that was met limits nothing; frames lost in the
receiver's own socket are the receiver's fault; a figure close to what the bare wire gives
says more about the traffic applications than about the switch; only what is left is the
switch's. Every conclusion carries the figures it rests on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from switchmark.campaign.model import Trial
from switchmark.results.marks import explain
from switchmark.results.record import Limit, Placement, Throughput, Verdict, Verification

What = Literal["generator", "switch", "receiver", "link", "rate", "cpu-shared", "unknown"]

CEILING_SHARE = 0.90  # within 10 % of the bare wire: the applications, not the switch
LOAD_MET_SHARE = 0.995  # forwarded / intended from which a paced load counts as met
BACKPRESSURE_SHARE = 0.05  # transmit calls refused, from which the port pushed back
RECEIVER_BUSY_SHARE = 0.05  # fewer idle receive polls than this: the receiver never waited
UNSTABLE_STDEV = 0.10  # of the mean, over the kept samples
MIN_KEPT_SAMPLES = 5
LOSS_WORTH_NAMING = 0.001


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen in one trial, over the kept window unless the name says otherwise."""

    sender: dict[str, int]  # summed counters of all senders (or clients)
    receiver: dict[str, int]  # summed counters of all receivers
    baseline_pps: float | None  # forwarded load of the same trial over the bare wire
    kept_samples: int
    on_schedule: bool  # every paced sender kept its schedule
    in_kernel: bool  # the switch runs in its callers' context, without a process of its own
    cpu_wait_share: float  # largest share of time an application waited for a core


def limit(trial: Trial, seen: Throughput, evidence: Evidence) -> Limit:
    """Name what held the forwarded load where it is."""
    if seen.forwarded_pps <= 0:
        return Limit(what="unknown", evidence=["no frame arrived in the kept window"])
    if (
        seen.intended_pps
        and trial.switch != "direct"
        and seen.forwarded_pps >= LOAD_MET_SHARE * seen.intended_pps
    ):
        return Limit(what="rate", evidence=[_met(seen)])
    notes = _figures(seen, evidence)
    return Limit(what=_what(trial, seen, evidence), evidence=notes)


def _what(trial: Trial, seen: Throughput, evidence: Evidence) -> What:
    receiver_never_waits = _idle_share(evidence) < RECEIVER_BUSY_SHARE
    pushed_back = _refused_share(evidence) >= BACKPRESSURE_SHARE
    socket_drops = evidence.receiver.get("rx_socket_drops", 0)
    lossy = seen.loss_ratio >= LOSS_WORTH_NAMING
    if socket_drops > LOSS_WORTH_NAMING * max(1, evidence.sender.get("tx_offered", 0)):
        return "receiver"
    if trial.switch == "direct":
        return "receiver" if receiver_never_waits and (pushed_back or lossy) else "generator"
    if evidence.baseline_pps and seen.forwarded_pps >= CEILING_SHARE * evidence.baseline_pps:
        return "receiver" if receiver_never_waits and (pushed_back or lossy) else "generator"
    if receiver_never_waits and (pushed_back or lossy):
        return "receiver"
    if pushed_back or lossy:
        return "switch"
    if evidence.in_kernel and evidence.baseline_pps:
        # Its work is done inside the sender's own system call, so it shows neither as a full
        # ring nor as loss: only as the distance from the bare wire.
        return "switch"
    if not evidence.baseline_pps:
        return "unknown"
    return "generator"


def verdict(
    trial: Trial,
    bound: Limit | None,
    seen: Throughput | None,
    evidence: Evidence,
    placement: Placement,
    verification: Verification | None,
    *,
    mixed_connect_modes: bool,
) -> Verdict:
    """Collect the marks; a result is valid unless a mark says the figure itself is wrong."""
    marks: list[str] = []
    if placement.oversubscribed:
        marks.append("oversubscribed")
    if bound is not None and trial.switch != "direct":
        if bound.what == "generator":
            marks.append("generator-bound")
        elif bound.what == "receiver":
            marks.append("receiver-bound")
    if seen is not None:
        if seen.forwarded_stdev_pps > UNSTABLE_STDEV * max(seen.forwarded_pps, 1.0):
            marks.append("unstable")
        if evidence.kept_samples < MIN_KEPT_SAMPLES:
            marks.append("short-window")
    if not evidence.on_schedule:
        marks.append("schedule-missed")
    if evidence.receiver.get("rx_socket_drops", 0):
        marks.append("lossy-receiver-socket")
    if verification is not None and not verification.passed:
        flooded = verification.strays or verification.witness_frames
        marks.append("flooding" if flooded else "unverified")
    if trial.switch != "direct" and evidence.baseline_pps is None and seen is not None:
        marks.append("no-baseline")
    if mixed_connect_modes:
        marks.append("mixed-connect-modes")
    fatal = {"flooding", "unverified"} & set(marks)
    if seen is not None and seen.forwarded_pps <= 0:
        marks.append("nothing-arrived")
        fatal.add("nothing-arrived")
    return Verdict(valid=not fatal, marks=marks, explanations=[explain(mark) for mark in marks])


def _idle_share(evidence: Evidence) -> float:
    idle = evidence.receiver.get("idle_polls", 0)
    polls = idle + evidence.receiver.get("useful_polls", 0)
    return idle / polls if polls else 1.0


def _refused_share(evidence: Evidence) -> float:
    polls = evidence.sender.get("tx_polls", 0)
    return evidence.sender.get("ring_full_polls", 0) / polls if polls else 0.0


def _met(seen: Throughput) -> str:
    assert seen.intended_pps is not None
    share = seen.forwarded_pps / seen.intended_pps
    return f"forwarded {share:.2%} of the intended load: more could have been asked"


def _figures(seen: Throughput, evidence: Evidence) -> list[str]:
    notes = [
        f"{_refused_share(evidence):.0%} of transmit calls met a full ring",
        f"{_idle_share(evidence):.0%} of the receiver's polls found nothing",
        f"{seen.loss_ratio:.2%} of offered frames were lost",
    ]
    if evidence.baseline_pps:
        share = seen.forwarded_pps / evidence.baseline_pps
        notes.append(f"{share:.0%} of what the bare wire carries here")
    if drops := evidence.receiver.get("rx_socket_drops", 0):
        notes.append(f"{drops} frames were dropped at the receiver's own socket")
    if evidence.cpu_wait_share > 0.05:
        notes.append(f"an application waited for a core {evidence.cpu_wait_share:.0%} of the time")
    return notes
