"""Frames sent and received: of a port, of an interval and of a trial."""

from __future__ import annotations

from switchmark.engine.event_parts.part import Count, EventPart, Mac, MayLack


class SocketBuffers(EventPart):
    """The buffers that the kernel granted a socket."""

    asked_bytes: Count
    receive_bytes: Count
    send_bytes: Count
    busy_poll: bool


class EnginePort(EventPart):
    """One port of the engine."""

    index: Count
    backend: str
    spec: str
    mac: Mac
    driver: str
    mtu_bytes: Count
    buffers: MayLack[SocketBuffers] = None


class FrameCounters(EventPart):
    """Counters of frames, bytes and calls, sent and received."""

    tx_intended: Count
    tx_offered: Count
    tx_dropped: Count
    tx_late: Count
    tx_misfits: Count
    tx_bytes: Count
    tx_polls: Count
    ring_full_polls: Count
    rx_bytes: Count
    rx_frames: Count
    rx_foreign: Count
    rx_other: Count
    rx_runts: Count
    rx_jumbos: Count
    rx_tagged: Count
    rx_verification: Count
    rx_corrupt: Count
    rx_stale: Count
    rx_beyond_window: Count
    rx_early: Count
    rx_socket_drops: Count
    rx_missing: Count
    rx_missed_away: Count
    idle_polls: Count
    useful_polls: Count


class Totals(FrameCounters):
    """All counters of a trial."""

    useful_ticks: Count
    idle_ticks: Count
    cpu_ns: Count
    cpu_user_ns: Count
    cpu_system_ns: Count


class PortFrames(EventPart):
    """Counters of one port of a forwarder or reference."""

    rx_frames: Count
    rx_socket_drops: Count
    tx_offered: Count
    tx_dropped: Count


class IntervalPort(PortFrames):
    """Counters of one port in an interval."""

    up: bool


class Faults(EventPart):
    """Faults that a reference applied to the frames that leave by a port."""

    dropped: Count
    duplicated: Count
    reordered: Count
    corrupted: Count
    limited: Count
    overflowed: Count
    too_long: Count
    waiting: Count


class ResultPort(PortFrames):
    """Counters of one port in a trial."""

    faults: MayLack[Faults] = None


class SizeCount(EventPart):
    """The number of frames of one size that were sent."""

    frame_size_bytes: Count
    tx_frames: Count


class Residual(EventPart):
    """Frames that came while the port was drained, and when the last of them came."""

    frames: Count
    within_ns: Count
