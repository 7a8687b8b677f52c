"""Before each trial: teaches the switch the MAC addresses, and proves that frames reach their port.

A switch never learns a receiver that does not send, and floods every frame to it to all ports. This
fault of earlier tools makes every NvsN figure wrong. Therefore both ends send first. Then counted
frames must arrive at their port, and at no other port.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from switchmark.engine.events import EngineCounters
from switchmark.engine.process import EngineProcess, counters_of, verify_all
from switchmark.errors import TrialFailed
from switchmark.model.campaign import VerifyPolicy
from switchmark.record import Direction, Verification

TEACHING_FRAMES = 2
ARRIVAL_TIMEOUT_S = 3.0  # frames cross a switch in far less, when it has a core
CONVERGENCE_TIMEOUT_S = 3.0  # by then a switch must not flood to addresses that it has learnt
_CONVERGENCE_POLL_S = 0.05
_POLL_S = 0.01
_FIRST_POLL_S = 0.001  # most paths are up by then


@dataclass(frozen=True, slots=True)
class PairEnds:
    """The two applications of a pair; of a stream, its sender and its receiver."""

    a: EngineProcess
    b: EngineProcess
    direction: Direction = "forward"


def wait_reachable(pairs: Sequence[PairEnds], timeout_s: float) -> None:
    """Send learning frames both ways until each end has received frames of the other.

    This also waits for links that come up late (vhost-user handshakes). Raises `TrialFailed` with
    the pair and the direction in which no frame arrives."""
    deadline = time.monotonic() + timeout_s
    silent = {(pair.a.pair, end): pair for pair in pairs for end in ("a", "b")}
    pause_s = _FIRST_POLL_S
    while silent:
        still = {id(pair): pair for pair in silent.values()}.values()
        verify_all([end for pair in still for end in (pair.a, pair.b)], TEACHING_FRAMES)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _POLL_S)
        receivers = [pair.b if end == "a" else pair.a for (_, end), pair in silent.items()]
        counters = dict(zip(list(silent), counters_of(receivers), strict=True))
        silent = {key: pair for key, pair in silent.items() if not counters[key].rx_verification}
        if silent and time.monotonic() > deadline:
            number, end = next(iter(silent))
            raise TrialFailed(
                f"no frame of pair {number} reached its peer from end {end} within "
                f"{timeout_s:.1f} s: {_other_frames(counters[number, end])}"
            )


def _other_frames(received: EngineCounters) -> str:
    """Return why no expected frame arrived at a port, by all frames that it has received."""
    kinds = {
        "of another kind (tags, IP version, protocol)": received.rx_other,
        "for another address": received.rx_foreign,
        "damaged": received.rx_corrupt,
        "dropped by the port": received.rx_socket_drops,
    }
    came = [f"{count} {kind}" for kind, count in kinds.items() if count]
    if not came:
        return "the switch does not forward"
    return (
        f"other frames arrived: {', '.join(came)}; the switch does not forward the expected "
        "frames, or it or the port changes them"
    )


def verify(
    pairs: Sequence[PairEnds],
    policy: VerifyPolicy,
    witness_frames: Callable[[], int | None],
) -> Verification:
    """Send counted frames both ways through a switch that has learnt the addresses.

    The switch passes if every frame arrives, and none at the port of another pair or at the monitor
    port. `witness_frames` reads the count of the monitor port. A switch may flood for some time
    after it has learnt an address, since its cache of flows is updated half a second later or more,
    or may deliver late learning frames. The test is then repeated until the switch has converged,
    but not after a loss."""
    deadline = time.monotonic() + CONVERGENCE_TIMEOUT_S
    while True:
        result = _send_counted(pairs, policy, witness_frames)
        lost = result.frames_arrived < policy.min_arrived_ratio * result.frames_sent
        if result.passed or lost or time.monotonic() > deadline:
            return result
        time.sleep(_CONVERGENCE_POLL_S)


def _send_counted(
    pairs: Sequence[PairEnds],
    policy: VerifyPolicy,
    witness_frames: Callable[[], int | None],
) -> Verification:
    witness_before = witness_frames()
    before = _arrivals(pairs)
    sent = verify_all([end for pair in pairs for end in (pair.a, pair.b)], policy.frames)
    deadline = time.monotonic() + ARRIVAL_TIMEOUT_S
    while True:
        now = _arrivals(pairs)
        arrived = now[0] - before[0]
        if arrived >= sent or time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    witness_after = witness_frames()
    flooded = (
        witness_after - witness_before
        if witness_before is not None and witness_after is not None
        else None
    )
    return _judge(policy, sent, arrived, now[1] - before[1], flooded)


def _arrivals(pairs: Sequence[PairEnds]) -> tuple[int, int]:
    """Return the frames that reached their own end, and those of other pairs, over all ends."""
    counters = counters_of([end for pair in pairs for end in (pair.a, pair.b)])
    return sum(c.rx_verification for c in counters), sum(c.rx_foreign for c in counters)


def _judge(
    policy: VerifyPolicy, sent: int, arrived: int, strays: int, witness: int | None
) -> Verification:
    faults = []
    if arrived < policy.min_arrived_ratio * sent or arrived > sent:
        faults.append(f"{arrived} of {sent} frames arrived")
    if strays > policy.max_strays:
        faults.append(f"{strays} frames reached another pair's port (flooding)")
    if (witness or 0) > policy.max_strays:
        faults.append(f"{witness} frames left the switch's third port (flooding)")
    return Verification(
        frames_sent=sent,
        frames_arrived=arrived,
        strays=strays,
        witness_frames=witness,
        passed=not faults,
        message="; ".join(faults) or "every frame arrived at its port and at no other",
    )
