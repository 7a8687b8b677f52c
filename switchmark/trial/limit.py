"""The limit of a figure, concluded from measured evidence only.

The order of the questions matters: a load that was met limits nothing; frames lost in the
receiver's own socket are the receiver's fault; a figure close to the bare wire's says more about
the traffic applications than about the switch; the switch is named only when nothing else explains
the figure. A baseline that was clearly slower than the switch is not a ceiling, and nothing is
concluded from it. Every conclusion carries the figures it rests on.
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

What = Literal["generator", "switch", "receiver", "link", "rate", "cpu-shared", "unknown"]
CEILING_SHARE = 0.90  # within 10 % of the bare wire: the applications, not the switch
BEATEN_SHARE = 1.10  # figure over baseline from which the baseline is not a ceiling
LOAD_MET_SHARE = 0.995  # share of a paced load from which it counts as met
RECEIVER_BUSY_SHARE = 0.05  # fewer idle receive polls than this: the receiver never waited
LOSS_WORTH_NAMING = 0.001
HELD_BACK_SHARE = 0.90  # forwarded / offered in one window, below which frames were held or lost
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
    seen = figures.throughput
    assert seen is not None, "a trial has a throughput or a latency"
    if seen.forwarded_pps <= 0:
        return Limit(factor="unknown", evidence=["no frame arrived in the kept window"])
    notes = _figures(seen, evidence)
    if seen.intended_pps and load_was_met(seen):
        share = seen.forwarded_pps / seen.intended_pps
        met = f"forwarded {share:.2%} of the intended load: more could have been asked"
        if share < LOAD_MET_SHARE:
            met += f" (one burst more in the kept window is {seen.burst_pps:.0f} frames/s)"
        return Limit(factor="rate", evidence=[met, *notes])
    what = _what(trial, seen, evidence)
    waits = what != "link" and _waits_for_core(evidence)
    return Limit(factor="cpu-shared" if waits else what, evidence=notes)


def load_was_met(seen: Throughput) -> bool:
    """Return True if a paced load was carried: it arrived in the kept window, where one burst of
    each stream may be missing at its ends, and no more of the whole trial was lost."""
    if not seen.intended_pps or seen.loss_ratio > 1 - LOAD_MET_SHARE:
        return False
    return seen.forwarded_pps + (seen.burst_pps or 0.0) >= LOAD_MET_SHARE * seen.intended_pps


def rate_was_met(seen: Transfer) -> bool:
    """Return True if an application got its paced rate through."""
    return bool(seen.intended_per_s) and (
        seen.completed_per_s >= LOAD_MET_SHARE * (seen.intended_per_s or 0.0)
    )


def _transfer_limit(trial: Trial, seen: Transfer, evidence: Evidence) -> Limit:
    """Return the limit of an application's throughput. A kernel's connection loses nothing that
    would name a place, so the distance from the bare wire alone names the switch."""
    if seen.completed_per_s <= 0:
        return Limit(factor="unknown", evidence=["nothing arrived in the kept window"])
    notes = []
    wire = evidence.baseline.transfer_per_s
    if wire:
        share = seen.completed_per_s / wire
        notes.append(f"{share:.0%} of what the bare wire carries here{_from(evidence)}")
        if share > BEATEN_SHARE:
            notes.append("a slower wire is no ceiling")
    if evidence.cpu_wait_share > CPU_WAIT_SHARE:
        notes.append(_waited(evidence))
    if evidence.switch_wait_share > SWITCH_WAIT_WORTH_NAMING:
        notes.append(_switch_waited(evidence))
    if rate_was_met(seen):
        share = seen.completed_per_s / (seen.intended_per_s or 1.0)
        met = f"{share:.2%} of the intended rate was completed: more could have been asked"
        return Limit(factor="rate", evidence=[met, *notes])
    what: What = "unknown"
    dropped, lost = evidence.socket_drops, seen.loss_ratio * evidence.sent_frames
    if evidence.switch_wait_share >= MOSTLY_WAITED:
        what = "cpu-shared"
    elif dropped > LOSS_WORTH_NAMING * evidence.sent_frames and 2 * dropped >= lost:
        what = "receiver"
        notes.append(f"full sockets dropped {dropped} datagrams")
    elif trial.switch == WIRE or (wire and CEILING_SHARE * wire <= seen.completed_per_s):
        beaten = wire is not None and seen.completed_per_s > BEATEN_SHARE * wire
        what = "unknown" if beaten else "generator"
    elif wire:
        what = "switch"
    return Limit(factor=what, evidence=notes or ["no bare-wire baseline was measured"])


def method_limit(trial: Trial, found: MethodResult, evidence: Evidence) -> Limit:
    """Return the limit of the headline of a method of many trials (docs/methods.md). Frames that
    the switches passed on and the cable between them lost are charged to the link, also where there
    is no switch."""
    bound = _method_limit(trial, found, evidence)
    lost = sum(one.lost_frames for one in found.trials)
    open_ = (
        bound.factor == "switch"
        or (bound.factor == "unknown" and not found.bounds)
        or trial.switch == WIRE
    )
    if open_ and evidence.cable_lost and 2 * evidence.cable_lost >= lost:
        cable = f"{evidence.cable_lost} frames were lost on the cable between the hosts"
        return Limit(factor="link", evidence=[*bound.evidence, cable])
    if bound.factor == "switch" and evidence.switch_wait_share >= MOSTLY_WAITED:
        return bound.model_copy(update={"factor": "cpu-shared"})
    return bound


def _method_limit(trial: Trial, found: MethodResult, evidence: Evidence) -> Limit:
    headline = found.figure(found.headline) if found.headline else None
    notes = [f"{len(found.trials)} trials, ended by: {found.stopped}"]
    wire = evidence.baseline.forwarded_pps
    pps = headline.value if headline and headline.unit == "pps" else None
    if wire and pps:
        notes.append(f"{pps / wire:.0%} of what the bare wire carries here{_from(evidence)}")
    if _lost_to_receiver(found):
        notes.append("the receivers' own sockets dropped half or more of what was lost")
        return Limit(factor="receiver", evidence=notes)
    if trial.switch == WIRE:
        return Limit(factor="generator", evidence=notes)
    if wire and pps and CEILING_SHARE * wire <= pps <= BEATEN_SHARE * wire:
        return Limit(factor="generator", evidence=notes)
    if evidence.switch_wait_share > SWITCH_WAIT_WORTH_NAMING:
        notes.append(_switch_waited(evidence))
    if found.bounds:
        decided = found.bounds[0].decided_by
        notes.append(f"{found.bounds[0].goal} was decided by: {decided}")
        limits: dict[str, What] = {
            "switch": "switch", "sender": "generator", "cores": "cpu-shared"
        }  # fmt: skip
        return Limit(factor=limits.get(decided, "unknown"), evidence=notes)
    usual = METHODS[found.method].limited_by
    if pps is None or usual != "switch":
        return Limit(factor="rate" if usual == "rate" else "unknown", evidence=notes)
    return Limit(factor="switch" if wire or not evidence.in_kernel else "unknown", evidence=notes)


def _lost_to_receiver(found: MethodResult) -> bool:
    lost = sum(trial.lost_frames for trial in found.trials)
    dropped = sum(trial.socket_drops for trial in found.trials)
    return dropped > 0 and 2 * dropped >= lost


def _what(trial: Trial, seen: Throughput, evidence: Evidence) -> What:
    lost = sum(pair.lost_frames or 0 for pair in seen.pairs)
    on_cable = evidence.cable_lost and 2 * evidence.cable_lost >= lost
    if on_cable and seen.loss_ratio >= LOSS_WORTH_NAMING:
        return "link"
    ceiling = _ceiling_pps(seen, evidence)
    pushed_back = evidence.refused_share >= RING_FULL_SHARE
    # A queue that has not filled yet has lost nothing: its frames count as held back.
    lossy = seen.loss_ratio >= LOSS_WORTH_NAMING or _held_back(seen)
    downstream_full = pushed_back or lossy
    receiver_full = downstream_full and evidence.idle_share < RECEIVER_BUSY_SHARE
    if receiver_full or evidence.socket_drops > LOSS_WORTH_NAMING * evidence.sent_frames:
        return "receiver"
    if trial.switch != WIRE and evidence.baseline.met_its_load and seen.intended_pps:
        # The applications carry this load without a switch, so the switch did not take the rest.
        return "switch"
    if trial.switch == WIRE or (ceiling and seen.forwarded_pps >= CEILING_SHARE * ceiling):
        return "generator"
    # An in-kernel switch works inside the sender's own system call, so it shows neither as a
    # full ring nor as loss: only as the distance from the bare wire.
    if downstream_full or (evidence.in_kernel and ceiling):
        return "switch"
    return "generator" if ceiling else "unknown"


def _held_back(seen: Throughput) -> bool:
    return seen.forwarded_pps + (seen.burst_pps or 0.0) < HELD_BACK_SHARE * seen.offered_pps


def _waits_for_core(evidence: Evidence) -> bool:
    """Return True if most missing frames were lost by receivers that were away from their cores;
    or, where more were not sent than lost, came too late from senders that had waited for theirs,
    or were refused while the switch waited for its own. A switch that waited half of the time
    carried half of what it can."""
    if evidence.switch_wait_share >= MOSTLY_WAITED:
        return True
    lost, dropped = evidence.receiver.rx_missing, evidence.sender.tx_dropped
    wanted = evidence.sender.tx_offered + dropped
    if max(lost, dropped) < LOSS_WORTH_NAMING * wanted:
        return False
    if lost >= dropped:
        return 2 * evidence.receiver.rx_missed_away >= lost
    late = evidence.sender.tx_late
    came_late = late if evidence.cpu_wait_share > CPU_WAIT_SHARE else 0
    stalled = min(dropped - late, round(evidence.switch_wait_share * wanted))
    return 2 * (came_late + stalled) >= dropped


def _ceiling_pps(seen: Throughput, evidence: Evidence) -> float | None:
    """The rate that the applications reach over the bare wire; None when it is not known."""
    wire = evidence.baseline.forwarded_pps
    return wire if wire and seen.forwarded_pps <= BEATEN_SHARE * wire else None


def _latency_limit(trial: Trial, seen: Latency, evidence: Evidence) -> Limit:
    """Return the limit of a round trip: the applications' own part (the floor), or the switch."""
    median = seen.percentiles_ns["50"]
    floor = evidence.baseline.rtt_median_ns
    notes = [f"median round trip {median / 1e3:.1f} us"]
    if floor:
        notes.append(f"the bare wire's median is {floor / 1e3:.1f} us{_from(evidence)}")
    if evidence.cpu_wait_share > CPU_WAIT_SHARE:
        notes.append(_waited(evidence))
        return Limit(factor="cpu-shared", evidence=notes)
    if trial.switch == WIRE:
        return Limit(factor="generator", evidence=notes)
    if floor is None:
        return Limit(factor="unknown", evidence=[*notes, "no bare-wire baseline was measured"])
    if floor > BEATEN_SHARE * median:
        return Limit(
            factor="unknown",
            evidence=[*notes, "the wire was slower than the switch, so it gives no floor"],
        )
    return Limit(
        factor="generator" if floor >= CEILING_SHARE * median else "switch", evidence=notes
    )


def _figures(seen: Throughput, evidence: Evidence) -> list[str]:
    notes = [f"{percent(seen.loss_ratio)} of offered frames were lost"]
    if evidence.counts_polls:  # foreign instruments do not count their calls
        notes = [
            f"{whole_percent(evidence.refused_share)} of transmit calls met a full ring",
            f"{whole_percent(evidence.idle_share)} of the receiver's polls found nothing",
            *notes,
        ]
    if _held_back(seen):
        share = seen.forwarded_pps / seen.offered_pps
        notes.append(f"{share:.0%} of the offered load came through in its time")
    if evidence.baseline.forwarded_pps:
        share = seen.forwarded_pps / evidence.baseline.forwarded_pps
        notes.append(f"{share:.0%} of what the bare wire carries here{_from(evidence)}")
        if share > BEATEN_SHARE:
            notes.append("a slower wire is no ceiling")
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
    """Where the baseline was measured, when it was not in this run."""
    return f" ({evidence.baseline.source})" if evidence.baseline.source else ""


def _switch_waited(evidence: Evidence) -> str:
    return f"the switch was kept from its core {evidence.switch_wait_share:.0%} of the time"


def _waited(evidence: Evidence) -> str:
    return f"an application waited for a core {evidence.cpu_wait_share:.0%} of the time"
