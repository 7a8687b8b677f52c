"""What a measurement returns: its figure, and what the figure was made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from switchmark.engine.event_parts.counters import FrameCounters
from switchmark.record import Figures, SteadyRun, Trim
from switchmark.trial.cost.cpu import ApplicationCpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The measured part of one trial: its figures, and what they were made of."""

    figures: Figures
    trim: Trim | None
    steady: SteadyRun | None = None
    kept_samples: int  # of the receiver (or client) that has fewest
    sample_noise_pps: float = 0.0  # the largest deviation that bursts alone give to samples
    source_counters: FrameCounters  # summed over senders (or clients), kept window
    sink_counters: FrameCounters  # summed over receivers, kept window; all 0 for latency
    sent_frames: int = 0  # by all sources, in the whole trial
    socket_drops: int = 0  # at the applications' own sockets, in the whole trial
    on_schedule: bool  # every paced source kept its schedule
    stretch: float = 0.0  # by so much of its duration a source ran too long, at most
    passed_frames: int = 0  # through the switch, both ways
    cpu: list[ApplicationCpu] = field(default_factory=list)  # of every run of a method
    far_cpu: list[ApplicationCpu] = field(default_factory=list)  # the same on the other host
