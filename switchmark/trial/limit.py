"""The limit of a figure, concluded from measured evidence only.

The order of the checks matters. If the load was met, the rate is the limit. If frames were lost in
the receiver's own socket, the receiver is the limit. A figure close to the baseline shows the limit
of the traffic applications. The switch is named only if nothing else explains the figure. A
baseline that was clearly slower than the switch is not a ceiling, and is ignored. Each conclusion
is stored with its evidence.
"""

from __future__ import annotations

from typing import Literal

from switchmark.formatting import percent, whole_percent
from switchmark.method.registry import METHODS
from switchmark.method.support.measurer import RING_FULL_SHARE
from switchmark.model.choices import WIRE
from switchmark.model.trial import Trial
from switchmark.record import Figures, Latency, Limit, MethodResult, Throughput, Transfer
from switchmark.trial.evidence import Evidence

Factor = Literal["generator", "switch", "receiver", "link", "rate", "cpu-shared", "unknown"]
CEILING_SHARE = 0.90  # from this share of the baseline on, the applications are the limit
BEATEN_SHARE = 1.10  # from this share of the baseline on, the baseline is not a ceiling
LOAD_MET_SHARE = 0.995  # from this share on, a paced load counts as met
RECEIVER_BUSY_SHARE = 0.05  # with fewer idle receive polls, the receiver never waited
LOSS_WORTH_NAMING = 0.001
HELD_BACK_SHARE = 0.90  # forwarded / offered in one window; below, frames were queued or lost
CPU_WAIT_SHARE = 0.10
SWITCH_WAIT_WORTH_NAMING = 0.01
MOSTLY_WAITED = 0.5


def limit(trial: Trial, figures: Figures, evidence: Evidence) -> Limit:
    """Return the limit of the trial's figure, with the evidence."""
    if figures.method is not None:
        return method_limit(trial, figures.method, evidence)
    if figures.latency is not None:
        return _latency_limit(trial, figures.latency, evidence)
    if figures.transfer is not None:
        return _transfer_limit(trial, figures.transfer, evidence)
    throughput = figures.throughput
    assert throughput is not None, "a trial has a throughput or a latency"
    if throughput.forwarded_pps <= 0:
        return Limit(factor="unknown", evidence=["no frame arrived in the kept window"])
    notes = _figures(throughput, evidence)
    if throughput.intended_pps and load_was_met(throughput):
        share = throughput.forwarded_pps / throughput.intended_pps
        met = f"forwarded {share:.2%} of the intended load; a higher load may also be forwarded"
        if share < LOAD_MET_SHARE:
            met += f" (one burst more in the kept window is {throughput.burst_pps:.0f} frames/s)"
        return Limit(factor="rate", evidence=[met, *notes])
    factor = _factor(trial, throughput, evidence)
    waits = factor != "link" and _waits_for_core(evidence)
    return Limit(factor="cpu-shared" if waits else factor, evidence=notes)


def load_was_met(throughput: Throughput) -> bool:
    """Return True if a paced load was forwarded: the loss of the whole trial is low enough, and the
    load arrived in the kept window, except for one burst of each stream at its ends."""
    if not throughput.intended_pps or throughput.loss_ratio > 1 - LOAD_MET_SHARE:
        return False
    return (
        throughput.forwarded_pps + (throughput.burst_pps or 0.0)
        >= LOAD_MET_SHARE * throughput.intended_pps
    )


def rate_was_met(transfer: Transfer) -> bool:
    """Return True if an application reached its paced rate."""
    return bool(transfer.intended_per_s) and (
        transfer.completed_per_s >= LOAD_MET_SHARE * (transfer.intended_per_s or 0.0)
    )


def _transfer_limit(trial: Trial, transfer: Transfer, evidence: Evidence) -> Limit:
    """Return the limit of an application's throughput. A TCP connection of the kernel shows no
    place of loss, so only the distance from the baseline shows that the switch is the limit."""
    if transfer.completed_per_s <= 0:
        return Limit(factor="unknown", evidence=["nothing arrived in the kept window"])
    notes = []
    baseline = evidence.baseline.transfer_per_s
    if baseline:
        share = transfer.completed_per_s / baseline
        notes.append(f"{share:.0%} of the baseline{_from(evidence)}")
        if share > BEATEN_SHARE:
            notes.append("a slower baseline is not a ceiling")
    if evidence.cpu_wait_share > CPU_WAIT_SHARE:
        notes.append(_waited(evidence))
    if evidence.switch_wait_share > SWITCH_WAIT_WORTH_NAMING:
        notes.append(_switch_waited(evidence))
    if rate_was_met(transfer):
        share = transfer.completed_per_s / (transfer.intended_per_s or 1.0)
        met = f"{share:.2%} of the intended rate was completed; a higher rate may also be possible"
        return Limit(factor="rate", evidence=[met, *notes])
    factor: Factor = "unknown"
    dropped, lost = evidence.socket_drops, transfer.loss_ratio * evidence.sent_frames
    if evidence.switch_wait_share >= MOSTLY_WAITED:
        factor = "cpu-shared"
    elif dropped > LOSS_WORTH_NAMING * evidence.sent_frames and 2 * dropped >= lost:
        factor = "receiver"
        notes.append(f"full sockets dropped {dropped} datagrams")
    elif trial.switch == WIRE or (
        baseline and CEILING_SHARE * baseline <= transfer.completed_per_s
    ):
        beaten = baseline is not None and transfer.completed_per_s > BEATEN_SHARE * baseline
        factor = "unknown" if beaten else "generator"
    elif baseline:
        factor = "switch"
    return Limit(factor=factor, evidence=notes or ["no baseline was measured"])


def method_limit(trial: Trial, result: MethodResult, evidence: Evidence) -> Limit:
    """Return the limit of the headline of a method of many trials (docs/methods.md). The link is
    the limit if the cable between two hosts lost most frames, also without a switch."""
    bound = _method_limit(trial, result, evidence)
    lost = sum(one.lost_frames for one in result.trials)
    open_ = (
        bound.factor == "switch"
        or (bound.factor == "unknown" and not result.bounds)
        or trial.switch == WIRE
    )
    if open_ and evidence.cable_lost and 2 * evidence.cable_lost >= lost:
        cable = f"{evidence.cable_lost} frames were lost on the cable between the hosts"
        return Limit(factor="link", evidence=[*bound.evidence, cable])
    if bound.factor == "switch" and evidence.switch_wait_share >= MOSTLY_WAITED:
        return bound.model_copy(update={"factor": "cpu-shared"})
    return bound


def _method_limit(trial: Trial, result: MethodResult, evidence: Evidence) -> Limit:
    headline = result.figure(result.headline) if result.headline else None
    notes = [f"{len(result.trials)} trials, ended by: {result.stopped}"]
    baseline_pps = evidence.baseline.forwarded_pps
    pps = headline.value if headline and headline.unit == "pps" else None
    if baseline_pps and pps:
        notes.append(f"{pps / baseline_pps:.0%} of the baseline{_from(evidence)}")
    if _lost_to_receiver(result):
        notes.append("the receivers' own sockets dropped at least half of the lost frames")
        return Limit(factor="receiver", evidence=notes)
    if trial.switch == WIRE:
        return Limit(factor="generator", evidence=notes)
    if baseline_pps and pps and CEILING_SHARE * baseline_pps <= pps <= BEATEN_SHARE * baseline_pps:
        return Limit(factor="generator", evidence=notes)
    if evidence.switch_wait_share > SWITCH_WAIT_WORTH_NAMING:
        notes.append(_switch_waited(evidence))
    if result.bounds:
        decided = result.bounds[0].decided_by
        notes.append(f"{result.bounds[0].goal} was decided by: {decided}")
        limits: dict[str, Factor] = {
            "switch": "switch", "sender": "generator", "cores": "cpu-shared"
        }  # fmt: skip
        return Limit(factor=limits.get(decided, "unknown"), evidence=notes)
    usual = METHODS[result.method].limited_by
    if pps is None or usual != "switch":
        return Limit(factor="rate" if usual == "rate" else "unknown", evidence=notes)
    return Limit(
        factor="switch" if baseline_pps or not evidence.in_kernel else "unknown", evidence=notes
    )


def _lost_to_receiver(result: MethodResult) -> bool:
    lost = sum(trial.lost_frames for trial in result.trials)
    dropped = sum(trial.socket_drops for trial in result.trials)
    return dropped > 0 and 2 * dropped >= lost


def _factor(trial: Trial, throughput: Throughput, evidence: Evidence) -> Factor:
    lost = sum(pair.lost_frames or 0 for pair in throughput.pairs)
    on_cable = evidence.cable_lost and 2 * evidence.cable_lost >= lost
    if on_cable and throughput.loss_ratio >= LOSS_WORTH_NAMING:
        return "link"
    ceiling = _ceiling_pps(throughput, evidence)
    pushed_back = evidence.refused_share >= RING_FULL_SHARE
    # A queue that is not full yet has lost nothing; its frames count as held back.
    lossy = throughput.loss_ratio >= LOSS_WORTH_NAMING or _held_back(throughput)
    downstream_full = pushed_back or lossy
    receiver_full = downstream_full and evidence.idle_share < RECEIVER_BUSY_SHARE
    if receiver_full or evidence.socket_drops > LOSS_WORTH_NAMING * evidence.sent_frames:
        return "receiver"
    if trial.switch != WIRE and evidence.baseline.met_its_load and throughput.intended_pps:
        # The applications reach this load without a switch, so the switch is the limit.
        return "switch"
    if trial.switch == WIRE or (ceiling and throughput.forwarded_pps >= CEILING_SHARE * ceiling):
        return "generator"
    # A switch in the kernel works inside the sender's system call, so it causes neither a full ring
    # nor loss. Only the distance from the baseline shows it.
    if downstream_full or (evidence.in_kernel and ceiling):
        return "switch"
    return "generator" if ceiling else "unknown"


def _held_back(throughput: Throughput) -> bool:
    return (
        throughput.forwarded_pps + (throughput.burst_pps or 0.0)
        < HELD_BACK_SHARE * throughput.offered_pps
    )


def _waits_for_core(evidence: Evidence) -> bool:
    """Return True if a process that waited for its core explains most missing frames.

    If more frames were lost than not sent, receivers that were away from their cores explain them.
    Otherwise senders or the switch do, which waited for theirs. A switch that waited half of the
    time reached half of its rate, so it is then always the explanation."""
    if evidence.switch_wait_share >= MOSTLY_WAITED:
        return True
    lost, dropped = evidence.receiver.rx_missing, evidence.sender.tx_dropped
    due_frames = evidence.sender.tx_offered + dropped
    if max(lost, dropped) < LOSS_WORTH_NAMING * due_frames:
        return False
    if lost >= dropped:
        return 2 * evidence.receiver.rx_missed_away >= lost
    late = evidence.sender.tx_late
    came_late = late if evidence.cpu_wait_share > CPU_WAIT_SHARE else 0
    stalled = min(dropped - late, round(evidence.switch_wait_share * due_frames))
    return 2 * (came_late + stalled) >= dropped


def _ceiling_pps(throughput: Throughput, evidence: Evidence) -> float | None:
    """Return the rate that the applications reach without a switch; None if it is not known."""
    baseline_pps = evidence.baseline.forwarded_pps
    return (
        baseline_pps
        if baseline_pps and throughput.forwarded_pps <= BEATEN_SHARE * baseline_pps
        else None
    )


def _latency_limit(trial: Trial, latency: Latency, evidence: Evidence) -> Limit:
    """Return the limit of a round trip: the applications' own part (the floor), or the switch."""
    median = latency.percentiles_ns["50"]
    floor = evidence.baseline.rtt_median_ns
    notes = [f"median round trip {median / 1e3:.1f} us"]
    if floor:
        notes.append(f"the median of the baseline is {floor / 1e3:.1f} us{_from(evidence)}")
    if evidence.cpu_wait_share > CPU_WAIT_SHARE:
        notes.append(_waited(evidence))
        return Limit(factor="cpu-shared", evidence=notes)
    if trial.switch == WIRE:
        return Limit(factor="generator", evidence=notes)
    if floor is None:
        return Limit(factor="unknown", evidence=[*notes, "no baseline was measured"])
    if floor > BEATEN_SHARE * median:
        return Limit(
            factor="unknown",
            evidence=[*notes, "the baseline was slower than the switch, so it gives no floor"],
        )
    return Limit(
        factor="generator" if floor >= CEILING_SHARE * median else "switch", evidence=notes
    )


def _figures(throughput: Throughput, evidence: Evidence) -> list[str]:
    notes = [f"{percent(throughput.loss_ratio)} of offered frames were lost"]
    if evidence.counts_polls:  # foreign generators do not count their calls
        notes = [
            f"{whole_percent(evidence.refused_share)} of transmit calls met a full ring",
            f"{whole_percent(evidence.idle_share)} of the receiver's polls found nothing",
            *notes,
        ]
    if _held_back(throughput):
        share = throughput.forwarded_pps / throughput.offered_pps
        notes.append(f"{share:.0%} of the offered load arrived within the window")
    if evidence.baseline.forwarded_pps:
        share = throughput.forwarded_pps / evidence.baseline.forwarded_pps
        notes.append(f"{share:.0%} of the baseline{_from(evidence)}")
        if share > BEATEN_SHARE:
            notes.append("a slower baseline is not a ceiling")
    if evidence.cable_lost:
        notes.append(f"{evidence.cable_lost} frames were lost on the cable between the hosts")
    if evidence.socket_drops:
        notes.append(f"{evidence.socket_drops} frames were dropped at the receiver's own socket")
    if lost := evidence.receiver.rx_missed_away:
        notes.append(f"{lost} frames were lost while the receiver was away from its core")
    if dropped := evidence.sender.tx_dropped:
        late = evidence.sender.tx_late
        notes.append(
            f"{dropped} frames were not sent: the port refused {dropped - late}, "
            f"the sender came late for {late}"
        )
    if evidence.cpu_wait_share > CPU_WAIT_SHARE:
        notes.append(_waited(evidence))
    if evidence.switch_wait_share > SWITCH_WAIT_WORTH_NAMING:
        notes.append(_switch_waited(evidence))
    return notes


def _from(evidence: Evidence) -> str:
    """Return the origin of the baseline if it is not from this run."""
    return f" ({evidence.baseline.source})" if evidence.baseline.source else ""


def _switch_waited(evidence: Evidence) -> str:
    return f"the switch was kept from its core {evidence.switch_wait_share:.0%} of the time"


def _waited(evidence: Evidence) -> str:
    return f"an application waited for a core {evidence.cpu_wait_share:.0%} of the time"
