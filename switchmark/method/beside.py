"""Probes beside a load: the times come from the probes alone, the load is only counted.

Client and sender offer an untimed load and a stream of single time-stamped frames beside it, each
with its own sequence numbers; a server echoes the probes and counts the load, a receiver times
the probes one way. So latency is measured at loads of which not every frame could be timed, or
sent singly, without changing them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from switchmark.campaign.model import Trial
from switchmark.errors import TrialFailed
from switchmark.method.verification import PairEnds
from switchmark.results.record import LoadBeside

Result = Mapping[str, Any]


def probe_results(results: Sequence[Result]) -> list[Result]:
    """The parts of these results that are about the probes."""
    found = [result.get("probe") for result in results]
    if any(one is None for one in found):
        raise TrialFailed("a traffic application gave no figures of its probes")
    return [one for one in found if one is not None]


def probes_lost(sent: Sequence[Result], received: Sequence[Result]) -> int:
    """Probes that were sent and never arrived (round trips: never came back)."""
    offered = sum(one["totals"]["tx_offered"] for one in sent)
    arrived = sum(one["loss"]["received_unique"] for one in received)
    if arrived > offered:
        raise TrialFailed(f"counts contradict each other: {arrived} of {offered} probes arrived")
    return int(offered - arrived)


def load_beside(trial: Trial, pairs: Sequence[PairEnds]) -> LoadBeside:
    """What became of the load beside the probes of a latency trial, total over all pairs."""
    clients = [pair.a.result or {} for pair in pairs]
    servers = [pair.b.result or {} for pair in pairs]
    offered = sum(one["totals"]["tx_offered"] for one in clients)
    arrived = sum((one.get("loss") or {}).get("received_unique", 0) for one in servers)
    if arrived > offered:
        raise TrialFailed(
            f"counts contradict each other: {arrived} frames of the load arrived, {offered} sent"
        )
    return LoadBeside(
        probe_rate_pps=float((trial.probe_rate_pps or 0) * trial.pairs),
        intended_pps=float(trial.rate_pps * trial.pairs) if trial.rate_pps else None,
        offered_pps=math.fsum(
            one["totals"]["tx_offered"] * 1e9 / max(1, one["duration_ns"]) for one in clients
        ),
        loss_ratio=(offered - arrived) / offered if offered else 0.0,
    )
