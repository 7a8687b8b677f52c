"""Intended, offered, unique and forwarded load: the one place where they follow from counters.

Frames are those of whole trials, from the results: a frame is lost when it was offered and no
copy of it arrived, by sequence numbers. Rates are those of intervals, each by its true length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from switchmark.engine.events import (
    EngineCounters,
    FrameCounters,
    IntervalEvent,
    Loss,
    ProbeStream,
    Result,
)
from switchmark.errors import ContradictoryCounts, TrialFailed
from switchmark.model.trial import Trial

NO_FRAMES = FrameCounters(**dict.fromkeys(FrameCounters.model_fields, 0))


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a stream, or of several together, in a whole trial: frames sent and received."""

    intended_frames: int  # in the schedule; at rate max the offered frames
    offered_frames: int  # accepted by the ports
    unique_frames: int  # different frames that arrived: copies do not make up for losses
    offered_pps: float  # over the time in which each sender sent

    @property
    def lost_frames(self) -> int:
        """Frames that were offered and never arrived."""
        return self.offered_frames - self.unique_frames

    @property
    def loss_ratio(self) -> float:
        """Lost over offered frames; 0 when nothing was offered."""
        return self.lost_frames / self.offered_frames if self.offered_frames else 0.0


def loss_of(end: Result | ProbeStream) -> Loss:
    """The receiving end's account of the frames that were sent to it."""
    if end.loss is None:
        raise TrialFailed("a traffic application does not report its received frames")
    return end.loss


def load(label: str, sender: Result | ProbeStream, receiver: Result | ProbeStream) -> Load:
    """The load of a stream; for probes, from the results' parts about them. `label` names the
    stream.

    More different frames than were sent count as those that were sent: a receiver that knows how
    many these are reports the contradiction, which marks the trial (`doubts.py`). Raises
    `TrialFailed` if it does not know."""
    offered, loss = sender.totals.tx_offered, loss_of(receiver)
    unique = loss.received_unique
    if unique > offered and loss.sent == offered:
        unique = offered
    if unique > offered:
        raise ContradictoryCounts(
            f"counts of {label} contradict each other: {unique} different frames received, "
            f"{offered} sent"
        )
    return _load(sender, unique)


def _load(sender: Result | ProbeStream, unique_frames: int) -> Load:
    offered = sender.totals.tx_offered
    return Load(
        intended_frames=max(sender.totals.tx_intended, offered),
        offered_frames=offered,
        unique_frames=unique_frames,
        offered_pps=frame_rate(offered, sender.duration_ns if isinstance(sender, Result) else 0),
    )


@dataclass(frozen=True, slots=True)
class KeptLoss:
    """The loss among the frames that a stream's sender offered in its kept intervals."""

    lost_frames: int
    away_frames: int  # lost while the receiver was away from its core
    unique_frames: int

    @property
    def ratio(self) -> float:
        """Lost frames over expected frames."""
        expected = self.lost_frames + self.unique_frames
        return self.lost_frames / expected if expected else 0.0


def _are_contiguous(loss: Loss) -> bool:
    """Return True if the arrived frames have all sequence numbers from the first to the last."""
    if loss.first_sequence is None or loss.last_sequence is None:
        return False
    return loss.received_unique == loss.last_sequence - loss.first_sequence + 1


def kept_loss(
    whole: Load,
    receiver: Result,
    window: Sequence[IntervalEvent],
    sent: Sequence[IntervalEvent],
    received: Sequence[IntervalEvent],
) -> KeptLoss:
    """The loss of the frames that were offered in `window`, the kept part of the sender's intervals
    `sent`. The time of its detection does not matter: behind a full queue a gap shows seconds
    later.

    After each of its intervals a receiver has reached a sequence number, with counts of received
    and missing frames up to it. An interval that contains the window's first or last frame counts
    in part. Frames before the first that came, or after the last, are lost. If the intervals do not
    show where frames are missing (several queues, a server), the loss of the whole trial is
    returned. Intervals without missing frames show it if all arrived frames follow each other: then
    all lost frames were sent before the first or after the last of them."""
    totals, loss = receiver.totals, loss_of(receiver)
    shows_place = totals.rx_missing > 0 or _are_contiguous(loss)
    if not shows_place or loss.first_sequence is None or not window:
        return KeptLoss(whole.lost_frames, 0, whole.unique_frames)
    begun_ns = window[0].t_ns - window[0].duration_ns
    first = sum(one.tx_offered for one in sent if one.t_ns <= begun_ns)
    end = first + sum(one.tx_offered for one in window)
    copies = whole.unique_frames / totals.rx_frames if totals.rx_frames else 1.0
    steps = [(copies * one.rx_frames, one.rx_missing, one.rx_missed_away) for one in received]
    steps.append(  # after the last interval
        (
            whole.unique_frames - math.fsum(unique for unique, _, _ in steps),
            totals.rx_missing - sum(missing for _, missing, _ in steps),
            0,
        )
    )
    at: float = loss.first_sequence
    lost, away, unique = max(0.0, min(end, at) - first), 0.0, 0.0
    for got, missing, missed_away in steps:
        step = got + missing
        if step > 0:
            share = max(0.0, min(end, at + step) - max(first, at)) / step
        else:
            share = float(first <= at < end)
        lost, unique = lost + share * missing, unique + share * got
        away += share * missed_away
        at += step
    lost += max(0.0, end - max(first, at))
    lost_frames = max(0, round(lost))
    return KeptLoss(lost_frames, min(lost_frames, round(away)), max(0, round(unique)))


def total_kept(losses: Sequence[KeptLoss]) -> KeptLoss:
    """The sum of these losses."""
    return KeptLoss(
        lost_frames=sum(one.lost_frames for one in losses),
        away_frames=sum(one.away_frames for one in losses),
        unique_frames=sum(one.unique_frames for one in losses),
    )


def load_so_far(sender: Result, received: Iterable[IntervalEvent]) -> Load:
    """The load of a stream whose receiver goes on, by its intervals until now: frames on their way
    count as lost, since nobody waited for them."""
    return _load(sender, min(sender.totals.tx_offered, sum(one.rx_frames for one in received)))


def total(loads: Sequence[Load]) -> Load:
    """The sum of these loads."""
    return Load(
        intended_frames=sum(one.intended_frames for one in loads),
        offered_frames=sum(one.offered_frames for one in loads),
        unique_frames=sum(one.unique_frames for one in loads),
        offered_pps=math.fsum(one.offered_pps for one in loads),
    )


def asked_pps(trial: Trial, streams: int) -> float | None:
    """The load that the rate of a trial asks of so many streams together, in frames/s; None: as
    much as the ports take."""
    return None if trial.rate_pps is None else float(trial.rate_pps * streams)


def stream_intended_pps(trial: Trial, sent: Iterable[IntervalEvent]) -> float | None:
    """The load that the schedule of a trial asks of a stream; where it changes, by the sender's own
    account."""
    if trial.schedule.is_steady:
        return asked_pps(trial, 1)
    if trial.rate_pps is None and not trial.schedule.has_own_rate:
        return None
    return intended_pps(sent)


def total_intended_pps(trial: Trial, each: Iterable[float | None]) -> float | None:
    """Return the intended load of a trial from that of `each` stream."""
    if trial.schedule.is_steady:
        return asked_pps(trial, trial.streams)
    loads = [load_pps for load_pps in each if load_pps is not None]
    return math.fsum(loads) if loads else None


def frame_rate(frames: int, duration_ns: int) -> float:
    """So many frames in this time, in frames/s; 0 for no time."""
    return frames * 1e9 / duration_ns if duration_ns else 0.0


def intended_pps(intervals: Iterable[IntervalEvent]) -> float:
    """The rate that the sender's schedule asked for, in frames/s."""
    return _per_s(intervals, lambda one: one.tx_intended)


def offered_pps(intervals: Iterable[IntervalEvent]) -> float:
    """The rate that the sender's port accepted, in frames/s."""
    return _per_s(intervals, lambda one: one.tx_offered)


def forwarded_pps(intervals: Iterable[IntervalEvent]) -> float:
    """The rate that arrived at the receiver, in frames/s."""
    return _per_s(intervals, lambda one: one.rx_frames)


def forwarded_l2_bps(intervals: Iterable[IntervalEvent]) -> float:
    """The bits a second of the frames that arrived, with FCS."""
    return 8 * _per_s(intervals, lambda one: one.rx_bytes)


def _per_s(intervals: Iterable[IntervalEvent], count: Callable[[IntervalEvent], int]) -> float:
    """The mean rate: all frames over the true length of all intervals."""
    frames = duration_ns = 0
    for interval in intervals:
        frames += count(interval)
        duration_ns += interval.duration_ns
    return frame_rate(frames, duration_ns)


def sum_of(counters: Iterable[FrameCounters]) -> FrameCounters:
    """The sum of each counter."""
    each = list(counters)
    sums = {name: sum(getattr(one, name) for one in each) for name in FrameCounters.model_fields}
    return FrameCounters.model_construct(**sums)


def sending_half(counters: FrameCounters) -> FrameCounters:
    """The sender's counters of an application that sends and receives. Its received frames are
    counted among the receivers, and must not be counted twice."""
    sender_counters = counters.model_dump(
        include={name for name in FrameCounters.model_fields if name.startswith("tx_")}
        | {"ring_full_polls"}
    )
    return NO_FRAMES.model_copy(update=sender_counters)


def arrived(counted: EngineCounters) -> int:
    """All frames that reached an application. (`rx_socket_drops` reached its port, but not the
    application: they count as lost on the way out.)"""
    return (
        counted.rx_stream
        + counted.rx_verification
        + counted.rx_foreign
        + counted.rx_other
        + counted.rx_wrong_next_hop
        + counted.rx_wrong_header
        + counted.rx_denied
        + counted.rx_corrupt
        + counted.rx_stale
        + counted.rx_beyond_window
        + counted.rx_early
    )
