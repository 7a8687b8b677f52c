"""Doubts about the counters of a result: counters that contradict each other, and frames that may
or may not have been lost. Such a result is kept, and marks of the trial explain it.
"""

from __future__ import annotations

from collections.abc import Iterator

from switchmark.engine.events import Loss, Result


def contradictions_of(result: Result) -> list[str]:
    """The counters of a result that cannot be true together, one line each."""
    return [
        f"{loss.received_unique} different frames of {stream} arrived, numbered up to "
        f"{loss.last_sequence}, of {loss.sent} that were sent"
        for stream, loss in _losses(result)
        if loss.sent is not None
        and (
            loss.received_unique > loss.sent
            or (loss.last_sequence is not None and loss.last_sequence >= loss.sent)
        )
    ]


def uncertain_losses_of(result: Result) -> list[str]:
    """The losses of a result that are only known between two bounds, one line each."""
    return [
        f"{loss.beyond_window} frames of {stream} arrived too late, and {loss.early} too early, to "
        f"distinguish them from copies: between {loss.lost_at_least} and {loss.lost} frames were "
        "lost"
        for stream, loss in _losses(result)
        if loss.beyond_window or loss.early
    ]


def _losses(result: Result) -> Iterator[tuple[str, Loss]]:
    """Each loss that a result has, with the name of its stream."""
    if result.loss is not None:
        yield "the load", result.loss
    if result.probe is not None and result.probe.loss is not None:
        yield "the probes", result.probe.loss
    for direction in result.directions or ():
        name = f"the direction from port {direction.from_} to {direction.to}"
        yield name, direction.loss
        if direction.probe is not None and direction.probe.loss is not None:
            yield f"the probes in {name}", direction.probe.loss
