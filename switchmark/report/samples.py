"""The samples of one trial over time, for its plot: loads per second, trimmed parts marked.

Many samples are combined into at most `MAX_POINTS` for display, with a note. Each drawn value is
frames divided by time, so no frame is missing or counted twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmark.record import EngineRun, Record
from switchmark.report import plot
from switchmark.report.figures import Drawing
from switchmark.workload.registry import WORKLOADS

MAX_POINTS = 240

# role -> (counter, name of the line, color, dash)
_OFFERED = ("tx_offered", "offered", "@muted", "dot")
_FORWARDED = ("rx_frames", "forwarded", "@ink", "solid")
_BITS = 8  # bits of a byte
_OF_APPLICATIONS: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "client": (
        ("written_bytes", "written", "@muted", "dot"),
        ("requests", "requests sent", "@muted", "dot"),
    ),
    "server": (
        ("read_bytes", "read", "@ink", "solid"),
        ("answers", "answers", "@ink", "solid"),
    ),
}
_LINES: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "sender": (_OFFERED,),
    "receiver": (_FORWARDED,),
    "duplex": (_OFFERED, _FORWARDED),
    "tester": (_OFFERED, _FORWARDED),
    "client": (
        ("tx_offered", "requests sent", "@muted", "dot"),
        ("rx_frames", "replies received", "@ink", "solid"),
    ),
}


def samples_figure(record: Record) -> Drawing | None:
    """Draw loads over time, summed over pairs; None for a trial without samples."""
    starts = [i.t_ns - i.duration_ns for engine in record.engines for i in engine.intervals]
    if not starts:
        return None
    origin_ns = min(starts)
    traces, drawn_together = [], False
    lines_of, scale, unit = _drawn_as(record)
    for role, lines in lines_of.items():
        engines = [e for e in record.engines if e.role == role and e.intervals]
        for counter, name, color, dash in lines if engines else ():
            if record.transport is not None and counter not in engines[0].intervals[0].counters:
                continue
            edges, rates, reduced = _rates(engines, counter)
            drawn_together |= reduced
            traces.append(
                plot.scatter(
                    "lines+markers" if len(rates) <= 60 else "lines",
                    [round(float(t - origin_ns) / 1e9, 4) for t in edges],
                    plot.rounded(rates, scale),
                    name,
                    plot.hover(f"%{{x:.2f}} s: {name} %{{y:.4g}} {unit}"),
                    line={"color": color, "dash": dash, "width": 2},
                    marker={"size": 5, "symbol": "circle" if dash == "solid" else "square"},
                )
            )
    if not traces:
        return None
    end_ns = max(i.t_ns for engine in record.engines for i in engine.intervals)
    layout = {
        "xaxis": plot.axis("seconds since the first sample", zeroline=False),
        "yaxis": plot.axis(unit, rangemode="tozero"),
        "shapes": _trimmed(record, origin_ns, end_ns),
        "legend": plot.LEGEND_ABOVE | {"y": 1.02},
    }
    note = "Shaded: left out as warm-up and cool-down." if layout["shapes"] else ""
    if drawn_together:
        note += f" Drawn as {MAX_POINTS} means for display; the record holds every sample."
    return Drawing("Samples", traces, layout, 260, note.strip())


def _drawn_as(
    record: Record,
) -> tuple[dict[str, tuple[tuple[str, str, str, str], ...]], float, str]:
    """Return the lines of the plot, the scale of their counters, and the resulting unit."""
    if record.transport is None:
        return _LINES, 1e6, "Mpps"
    if WORKLOADS[record.trial.workload].is_stream:
        return _OF_APPLICATIONS, 1e9 / _BITS, "Gbit/s"
    return _OF_APPLICATIONS, 1.0, "requests/s"


def _rates(
    engines: Sequence[EngineRun], counter: str
) -> tuple[NDArray[np.int64], NDArray[np.float64], bool]:
    """Return the ends of the drawn spans and the rate in each, summed over engines.

    A single engine with few samples is drawn unchanged. Otherwise the cumulative count of each
    engine is interpolated at common times, because the samples of engines begin at different times.
    """
    if len(engines) == 1 and len(engines[0].intervals) <= MAX_POINTS:
        intervals = engines[0].intervals
        ends = np.array([i.t_ns for i in intervals], dtype=np.int64)
        counts = np.array([i.counters.get(counter, 0) for i in intervals], dtype=np.float64)
        spans = np.array([max(i.duration_ns, 1) for i in intervals], dtype=np.float64)
        return ends, counts * 1e9 / spans, False
    begin = max(e.intervals[0].t_ns - e.intervals[0].duration_ns for e in engines)
    end = min(e.intervals[-1].t_ns for e in engines)
    most = max(len(e.intervals) for e in engines)
    grid = np.linspace(begin, max(end, begin + 1), min(most, MAX_POINTS) + 1).astype(np.int64)
    total = np.zeros(len(grid))
    for engine in engines:
        first = engine.intervals[0]
        times = [first.t_ns - first.duration_ns, *(i.t_ns for i in engine.intervals)]
        running = np.cumsum([0, *(i.counters.get(counter, 0) for i in engine.intervals)])
        # Offsets from the start: monotonic nanoseconds are too large for exact floats.
        total += np.interp(grid - begin, np.array(times, dtype=np.int64) - begin, running)
    return grid[1:], np.diff(total) * 1e9 / np.maximum(np.diff(grid), 1), most > MAX_POINTS


def _trimmed(record: Record, origin_ns: int, end_ns: int) -> list[dict[str, Any]]:
    if record.trim is None:
        return []
    window = (record.trim.kept_from_ns - origin_ns, record.trim.kept_to_ns - origin_ns)
    spans = [(0, window[0]), (window[1], end_ns - origin_ns)]
    return [plot.band(low / 1e9, high / 1e9) for low, high in spans if high > low]
