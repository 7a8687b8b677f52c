"""More faults that BPF injects: random loss, and a switch that recovers slowly after an
overload."""

from __future__ import annotations

from switchmark.certify.support.frame_faults import DROP, PRIVATE, Fault
from switchmark.switch.support import bpf

HELPER_RANDOM = 7
BEGUN, FRAMES, UNTIL = PRIVATE, PRIVATE + 8, PRIVATE + 16


def dropped_at_random(share: float) -> Fault:
    """Drop each frame with this probability; the kernel draws the random number."""
    return Fault(1, (
        bpf.call(HELPER_RANDOM),
        bpf.jump_if_at_least(0, round(share * 2**32), "pass"),
        bpf.set_to(0, DROP),
        bpf.leave(),
    ))  # fmt: skip


def held_after_overload(window_ns: int, limit: int, hold_ns: int) -> Fault:
    """Drop all frames for `hold_ns` after more than `limit` frames came in a window."""
    return Fault(1, (
        bpf.call(bpf.HELPER_TIME_NS),
        bpf.move(9, 0),
        bpf.load(64, 1, 7, BEGUN),
        bpf.move(2, 9),
        bpf.subtract(2, 1),
        bpf.jump_if_at_least(2, window_ns, "new window"),
        bpf.jump("count"),
        bpf.store(64, 7, BEGUN, 9).at("new window"),
        bpf.set_to(1, 0),
        bpf.store(64, 7, FRAMES, 1),
        bpf.load(64, 1, 7, FRAMES).at("count"),
        bpf.add(1, 1),
        bpf.store(64, 7, FRAMES, 1),
        bpf.jump_if_at_least(1, limit + 1, "overload"),
        bpf.jump("look"),
        bpf.move(1, 9).at("overload"),
        bpf.add(1, hold_ns),
        bpf.store(64, 7, UNTIL, 1),
        bpf.load(64, 1, 7, UNTIL).at("look"),
        bpf.jump_if_greater(1, 9, "drop"),
        bpf.jump("pass"),
        bpf.set_to(0, DROP).at("drop"),
        bpf.leave(),
    ))  # fmt: skip
