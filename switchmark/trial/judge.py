"""The marks of a result, which follow from measured evidence."""

from __future__ import annotations

import math

from switchmark.method.registry import METHODS
from switchmark.method.support.claims import broken_claims
from switchmark.model.choices import PLAIN, WIRE
from switchmark.model.trial import Trial
from switchmark.record import (
    Figures,
    Limit,
    MethodResult,
    Placement,
    Throughput,
    TrialVerdict,
    Verification,
)
from switchmark.record.marks import explain, marks_are_valid
from switchmark.statistics.outliers import TWO_BANDS
from switchmark.trial.evidence import Evidence
from switchmark.trial.limit import LOSS_WORTH_NAMING

UNSTABLE_STDEV = 0.10  # standard deviation of the kept samples, as a share of the mean
MIN_KEPT_SAMPLES = 5
AWAY_WORTH_NAMING = 0.0001
DISTURBED_CORES = 0.10  # cores that other programs used meanwhile
COARSE_STEP = 0.01  # largest step of a clock, as a share of the median time
STRETCHED = 0.02  # share of its duration by which a trial lasted too long


def verdict(
    trial: Trial,
    bound: Limit,
    figures: Figures,
    evidence: Evidence,
    placement: Placement,
    verification: Verification,
    *,
    mixed_connect_modes: bool,
) -> TrialVerdict:
    """Collect the marks; a result is valid unless a mark says the figure itself is wrong."""
    switched = trial.switch != WIRE
    baseline = evidence.baseline
    throughput, transfer = figures.throughput, figures.transfer
    finds_outages = trial.method != PLAIN and METHODS[trial.method].finds_outages
    steady = trial.schedule.is_steady  # the load of other schedules changes on purpose
    flooded = not verification.passed and bool(verification.strays or verification.witness_frames)
    sent = evidence.sender.tx_offered
    flooded_later = evidence.stray_frames > LOSS_WORTH_NAMING * max(1, sent)
    checks = {
        "oversubscribed": placement.oversubscribed,
        "generator-bound": switched and bound.factor == "generator",
        "receiver-bound": switched and bound.factor == "receiver",
        "receiver-away": _lost_while_away(evidence),
        "unstable": (
            throughput is not None
            and steady
            and _deviation_pps(throughput, evidence) > UNSTABLE_STDEV * throughput.forwarded_pps
        )
        or (
            transfer is not None
            and transfer.stdev_per_s > UNSTABLE_STDEV * transfer.completed_per_s
        ),
        "two-bands": steady and evidence.two_bands,
        "short-window": (throughput is not None or transfer is not None)
        and evidence.kept_samples < MIN_KEPT_SAMPLES,
        "disturbed": evidence.others_cores > DISTURBED_CORES,
        "throttled": evidence.throttled,
        "schedule-missed": not evidence.on_schedule,
        "lossy-receiver-socket": evidence.socket_drops > 0,
        "duration-stretched": evidence.stretch > STRETCHED,
        "wrong-connect-mode": bool(verification.wrong_mode),
        "flooding": flooded or flooded_later,
        "unverified": not verification.passed and not flooded and not verification.wrong_mode,
        "partial": bool(evidence.faults) and not finds_outages,
        "counters-disagree": not evidence.counters_agree,
        "contradictory-counts": bool(evidence.contradictions),
        "uncertain-loss": bool(evidence.uncertain_losses),
        "no-baseline": switched
        and baseline.forwarded_pps is None
        and baseline.transfer_per_s is None
        and baseline.rtt_median_ns is None,
        "mixed-connect-modes": switched and mixed_connect_modes,
        "corrupt-frames": evidence.corrupt_frames > 0
        or (throughput is not None and any(pair.corrupt for pair in throughput.pairs)),
        "function-violated": evidence.function_violations > 0,
        "copied-frames": throughput is not None
        and sum(pair.duplicates or 0 for pair in throughput.pairs)
        > LOSS_WORTH_NAMING * max(1, evidence.sent_frames),
        "nothing-arrived": (throughput is not None and throughput.forwarded_pps <= 0)
        or (transfer is not None and transfer.completed_per_s <= 0),
        "limit-not-in-force": not evidence.limit_in_force,
        "slow-engine-build": not evidence.engines_are_fast,
        "software-emulated": evidence.emulated,
        "clocks-uncertain": figures.clocks_uncertain,
        "shared": evidence.shared,
        "network-changed": evidence.network_changed,
        "coarse-clock": evidence.clock_step_ns > COARSE_STEP * figures.least_median_ns,
    }
    if figures.method is not None:
        checks |= method_checks(figures.method, evidence.sender.tx_offered)
    marks = [mark for mark, holds in checks.items() if holds]
    return TrialVerdict(
        valid=marks_are_valid(marks),
        marks=marks,
        explanations=[explain(mark) for mark in marks],
    )


def _deviation_pps(throughput: Throughput, evidence: Evidence) -> float:
    """Return the standard deviation of the samples, without the part that bursts can cause."""
    return math.sqrt(max(0.0, throughput.forwarded_stdev_pps**2 - evidence.sample_noise_pps**2))


def method_checks(found: MethodResult, sent: int) -> dict[str, bool]:
    """Return the checks that only a method of many trials needs."""
    return {
        "contradicts-trials": bool(broken_claims(found)),
        "noise-decided": any(one.decided_by == "noise" for one in found.bounds),
        "out-of-budget": found.stopped == "budget",
        "two-bands": any(note.startswith(TWO_BANDS) for note in found.notes),
        "nothing-arrived": sent > 0 and all(trial.forwarded_pps <= 0 for trial in found.trials),
        "corrupt-frames": any(trial.corrupt for trial in found.trials),
        "copied-frames": any(
            trial.duplicates > LOSS_WORTH_NAMING * trial.offered_frames for trial in found.trials
        ),
    }


def _lost_while_away(evidence: Evidence) -> bool:
    away = evidence.receiver.rx_missed_away
    worth = AWAY_WORTH_NAMING * evidence.sender.tx_offered
    return away > worth and 2 * away >= evidence.receiver.rx_missing
