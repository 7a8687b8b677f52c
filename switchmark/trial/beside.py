"""Probes beside a load: the times come from the probes alone, the load is only counted.

Client and sender offer an untimed load and a stream of single time-stamped frames beside it, each
with its own sequence numbers; a server echoes the probes and counts the load, a receiver times
the probes one way. So latency is measured at loads of which not every frame could be timed, or
sent singly, without changing them.
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
    """The probe stream in each of these results."""
    found = [engine.result.probe for engine in engines]
    if any(one is None for one in found):
        raise TrialFailed("a traffic application gave no figures of its probes")
    return [one for one in found if one is not None]


def probe_load(sent: Sequence[ProbeStream], received: Sequence[ProbeStream]) -> Load:
    """The load of the probes of all pairs: sent, received, lost (of round trips: what came
    back)."""
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
