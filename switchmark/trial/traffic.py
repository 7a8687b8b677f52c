"""Runs traffic: sinks begin before sources, and end after them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

from switchmark.engine.process import EngineProcess, start_all
from switchmark.errors import TrialFailed

RESULT_GRACE_S = 8.0  # only an engine that hangs takes so long
LATE_RESULT_S = 1.0
TICK_S = 0.05  # longest wait between two ticks
BEGIN_LEAD_S, BEGIN_LEAD_EACH_S = 0.1, 0.02  # time to start all ends of a bidirectional trial
BEGIN_TRIES, BEGIN_PATIENCE = 4, 4  # most starts; factor on the lead time from start to start
Tick = Callable[[], None]  # called many times a second while traffic runs; an error ends it


def run_traffic(
    sources: Sequence[EngineProcess],
    sinks: Sequence[EngineProcess],
    duration_s: float,
    tick: Tick,
    *,
    source_options: Sequence[Mapping[str, str | float]] = (),
    sink_options: Mapping[str, str | float] | None = None,
) -> None:
    """Start every sink, then every source; wait for the sources to end, then stop the sinks.

    A duplex application is a source and a sink: it listens from its start on, and all begin to send
    at the same moment. The options override the command line for this trial; `source_options` has
    an entry for each source."""
    both = {id(source) for source in sources} & {id(sink) for sink in sinks}
    sinks = [sink for sink in sinks if id(sink) not in both]
    start_all(sinks, [{"duration": 0, **(sink_options or {})}] * len(sinks))
    patience = max(engine.patience for engine in (*sources, *sinks))
    each_options: list[Mapping[str, str | float]] = []
    for number, source in enumerate(sources):
        options = dict(source_options[number]) if source_options else {}
        if id(source) in both:
            options |= sink_options or {}
        each_options.append({"duration": _exact(duration_s), **options})
    if both:
        _start_together(sources, each_options, patience)
    else:
        start_all(sources, each_options)
    waiting = list(sources)
    # The limit counts time and also empty polls, since this process may itself not have run.
    deadline = time.monotonic() + duration_s + RESULT_GRACE_S * patience
    polls_left = math.ceil((duration_s + RESULT_GRACE_S * patience) / TICK_S)
    while waiting and polls_left > 0 and time.monotonic() < deadline:
        polls_left -= not waiting[0].pump(TICK_S)
        for engine in [*waiting[1:], *sinks]:
            engine.pump(0)
        waiting = [source for source in waiting if not source.has_result]
        begun = time.monotonic()
        tick()
        deadline += time.monotonic() - begun  # a tick may take long, and restart a switch
    # The time may have passed while this process did not run, which proves nothing.
    for source in waiting:
        source.wait_result(LATE_RESULT_S)
    stop_all(sinks, sources)


def stop_all(sinks: Sequence[EngineProcess], sources: Sequence[EngineProcess]) -> None:
    """End the sinks' trial once all frames sent to them have arrived or are lost."""
    for sink in sinks:
        senders = [one for one in sources if one.pair == sink.pair]
        are_done = senders and all(one.has_result for one in senders)
        sink.request_stop(sent_frames(senders) if are_done else None)
    for sink in sinks:
        sink.wait_result(RESULT_GRACE_S)


def _start_together(
    engines: Sequence[EngineProcess],
    each_options: Sequence[Mapping[str, str | float]],
    patience: float,
) -> None:
    """Start applications that send and listen, all at one moment. If an application gets the
    command too late, it was not listening when the others began; all are then started again with
    more time. Raises `TrialFailed` after `BEGIN_TRIES` starts."""
    lead_s = (BEGIN_LEAD_S + len(engines) * BEGIN_LEAD_EACH_S) * patience
    for _ in range(BEGIN_TRIES):
        at_ns = time.monotonic_ns() + round(lead_s * 1e9)
        start_all(engines, [{**options, "at": at_ns} for options in each_options])
        if all(engine.started_ns <= at_ns for engine in engines):
            return
        for engine in engines:
            engine.give_up_trial(RESULT_GRACE_S)
        lead_s *= BEGIN_PATIENCE
    raise TrialFailed(
        "the applications were not all listening when the first began to send, in "
        f"{BEGIN_TRIES} starts: the machine is too busy"
    )


def _exact(duration_s: float) -> str | float:
    """Return the duration to the nanosecond, without an exponent. The engine reads neither
    exponents nor more digits, but short bursts last microseconds and a geometric mean has many
    digits."""
    return duration_s if duration_s == round(duration_s, 6) >= 1e-3 else f"{duration_s:.9f}"


def sent_frames(sources: Sequence[EngineProcess]) -> int:
    """Return the number of frames that the sources offered in the whole trial."""
    return sum(one.result.totals.tx_offered for one in sources)
