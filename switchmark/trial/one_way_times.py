"""One-way times of streams, as their receivers took them: of every frame, or of probes beside a
load that is not timed.

Of bidirectional traffic both ways are timed at once; the record holds them together and apart,
since a switch may serve one of its ports before the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from switchmark.engine import loads
from switchmark.engine.event_parts.delays import TimedDelays
from switchmark.record import Direction, DirectionLatency, Latency
from switchmark.trial.beside import probe_load, probes_of
from switchmark.trial.delays import merge_latency, timed_by
from switchmark.trial.one_way import TimedRun, corrected
from switchmark.trial.verification import PairEnds


@dataclass(frozen=True, slots=True)
class _TimedStream:
    """What the receiver of one stream timed."""

    direction: Direction
    delays: TimedDelays
    lost_frames: int
    uncertainty_ns: int | None  # of two hosts' clocks; None: one clock timed it


def frame_times(streams: Sequence[PairEnds], timed: TimedRun | None) -> Latency:
    """One-way times of all frames; `timed` is the run between two hosts whose clocks were compared.
    Raises `TrialFailed` when no frame arrived, or none in one direction."""
    each = [loads.load(f"pair {one.a.pair}", one.a.result, one.b.result) for one in streams]
    lost = [
        load.lost_frames - lost_while_away([one], load.lost_frames)
        for one, load in zip(streams, each, strict=True)
    ]
    return _merge(streams, timed_by([one.b.result for one in streams]), lost, timed, "frame")


def probe_times(streams: Sequence[PairEnds], timed: TimedRun | None) -> Latency:
    """One-way times of the probes alone; see `frame_times`."""
    sent, arrived = probes_of(one.a for one in streams), probes_of(one.b for one in streams)
    lost = [probe_load([a], [b]).lost_frames for a, b in zip(sent, arrived, strict=True)]
    return _merge(streams, timed_by(arrived), lost, timed, "probe")


def lost_while_away(streams: Iterable[PairEnds], lost_frames: int) -> int:
    """How many of these lost frames were lost while a receiver was away from its core: never the
    switch's loss."""
    return min(lost_frames, sum(one.b.result.totals.rx_missed_away for one in streams))


def _merge(
    streams: Sequence[PairEnds],
    delays: Sequence[TimedDelays],
    lost: Sequence[int],
    timed: TimedRun | None,
    what: Literal["frame", "probe"],
) -> Latency:
    if timed is None:
        unsure: list[int | None] = [None] * len(streams)
    else:
        corrections = timed.end()
        delays = [corrected(one, by) for one, by in zip(delays, corrections, strict=True)]
        unsure = [one.uncertainty_ns for one in corrections]
    directions: list[Direction] = [one.direction for one in streams]
    parts = [_TimedStream(*one) for one in zip(directions, delays, lost, unsure, strict=True)]
    whole = _together(parts, f"no {what} arrived")
    ways = list(dict.fromkeys(directions))
    if len(ways) < 2:
        return whole
    apart = [
        DirectionLatency(
            direction=way,
            latency=_together(
                [one for one in parts if one.direction == way], f"no {what} arrived going {way}"
            ),
        )
        for way in ways
    ]
    return whole.model_copy(update={"directions": apart})


def _together(parts: Sequence[_TimedStream], nothing: str) -> Latency:
    lost = sum(one.lost_frames for one in parts)
    merged = merge_latency("one_way", [one.delays for one in parts], lost, nothing)
    unsure = [one.uncertainty_ns for one in parts if one.uncertainty_ns is not None]
    if not unsure:
        return merged
    return merged.model_copy(update={"clock_uncertainty_ns": float(max(unsure))})
