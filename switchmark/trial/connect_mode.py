"""Checks with broadcast frames that the switch forwards by the connect mode of the trial.

A learning bridge sends a broadcast to every port, a cross-connect to one port, a static table to
none. The ports at which broadcasts arrive therefore show the mode, if there are enough ports. A
verification frame that follows them shows when to stop waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from switchmark.model.ports import ConnectMode
from switchmark.trial.verification import PairEnds

BROADCASTS = 3
PATIENCE_S = 5.0  # timeout for frames that should arrive
_POLL_S = 0.01


def wrong_mode(
    ends: Sequence[PairEnds], mode: ConnectMode, witness_frames: Callable[[], int | None]
) -> str:
    """Return how the switch forwards if it violates `mode`; an empty text otherwise."""
    sender, peer = ends[0].a, ends[0].b
    others = [end for pair in ends[1:] for end in (pair.a, pair.b)]

    def look() -> tuple[int, int, int | None]:
        strays = sum(one.counters().rx_foreign for one in others)
        return peer.counters().rx_verification, strays, witness_frames()

    before = look()
    sent = sender.verify_broadcast(BROADCASTS)
    marker = sender.verify(1)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        now = look()
        arrived, strays = now[0] - before[0], now[1] - before[1]
        watched = before[2] is not None and now[2] is not None
        flooded = (now[2] or 0) - (before[2] or 0) if watched else None
        problem = _problem(mode, sent, max(0, arrived - marker), strays, flooded, bool(others))
        is_shown = arrived >= marker and (mode is ConnectMode.STATIC_MAC or not problem)
        if is_shown or time.monotonic() > deadline:
            return problem
        time.sleep(_POLL_S)


def _problem(
    mode: ConnectMode, sent: int, arrived: int, strays: int, flooded: int | None, crowd: bool
) -> str:
    elsewhere = strays + (flooded or 0)
    if mode is ConnectMode.STATIC_MAC:
        passed = arrived + elsewhere
        return f"a table of addresses passed {passed} broadcast frames" if passed else ""
    if mode is ConnectMode.CROSS_CONNECT and elsewhere:
        return f"a cross-connect sent {elsewhere} broadcast frames to other ports than the peer"
    if arrived < sent:
        return f"of {sent} broadcast frames, {arrived} reached the peer"
    alone = flooded == 0 or (flooded is None and crowd and not strays)
    if mode is ConnectMode.LEARNING and alone:
        return "a learning switch sent broadcast frames to the peer alone"
    return ""
