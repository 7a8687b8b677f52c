"""Probes beside a load: the times come from the probes alone, the load is only counted.

A client or sender offers an untimed load, and beside it a stream of single time-stamped frames.
Both have their own sequence numbers. A server echoes the probes and counts the load; a receiver
times the probes one way. This measures latency at loads whose frames cannot all be timed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from switchmark.engine import loads
from switchmark.engine.events import ProbeStream
from switchmark.engine.loads import Load
from switchmark.engine.process import EngineProcess
from switchmark.errors import TrialFailed
from switchmark.model.trial import Trial
from switchmark.record import LoadBeside
from switchmark.trial.verification import PairEnds


def probes_of(engines: Iterable[EngineProcess]) -> list[ProbeStream]:
    """Return the probe stream in the result of each engine. Raises `TrialFailed`."""
    streams = [engine.result.probe for engine in engines]
    if None in streams:
        raise TrialFailed("a traffic application gave no figures of its probes")
    return [stream for stream in streams if stream is not None]


def probe_load(sent: Sequence[ProbeStream], received: Sequence[ProbeStream]) -> Load:
    """Return the load of the probes of all pairs: frames sent, received and lost. For round trips,
    the received frames are the answers."""
    each = [loads.load("the probes", a, b) for a, b in zip(sent, received, strict=True)]
    return loads.total(each)


def load_beside(trial: Trial, pairs: Sequence[PairEnds]) -> LoadBeside:
    """The load that ran beside the probes of a latency trial, total over all streams."""
    each = [loads.load("the load", pair.a.result, pair.b.result) for pair in pairs]
    whole = loads.total(each)
    return LoadBeside(
        probe_rate_pps=float((trial.probe_rate_pps or 0) * trial.streams),
        intended_pps=loads.asked_pps(trial, trial.streams),
        offered_pps=whole.offered_pps,
        loss_ratio=whole.loss_ratio,
    )
