"""The sender keeps its schedule, or reports the difference.

The checks use counts, not times: every due frame is sent or reported as skipped. If no pause was
longer than the catch-up bound, all are sent, so that the mean is exact also on a busy machine.
bench/engine/pacing.py measures how late single frames are."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator

import pytest

from tests.integration.engine_tools import (
    Engine,
    Event,
    Node,
    engine,
    needs_engine,
    port,
    veth_pair,
)
from tests.places import NAMESPACES, reason_to_skip

pytestmark = [pytest.mark.alone, *needs_engine]
BOUND_NS = 1_000_000  # the default of --catch-up-us
STOPPED_S = 0.06
LOADS = [(1_000, 1), (100_000, 1), (400_000, 32)]  # frames a second, burst
BACKENDS = ["raw", "raw-mmsg", "packet_mmap", "io_uring", "af_xdp"]


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Node, Node]]:
    if (reason := reason_to_skip(*NAMESPACES)) is not None:
        pytest.skip(reason)
    with veth_pair("pc") as pair:
        yield pair


def due(rate_pps: int, burst: int, seconds: float) -> int:
    """Return the number of frames of the bursts at k * burst / rate that fall into this time."""
    return math.ceil(round(rate_pps * seconds / burst, 6)) * burst


def check_account(result: Event, intended: int) -> None:
    """Check that the three loads agree with each other and with the reported stalls."""
    totals, pacing = result["totals"], result["pacing"]
    assert totals["tx_intended"] == intended
    assert totals["tx_offered"] + totals["tx_dropped"] == intended
    assert totals["tx_dropped"] == pacing["skipped"]
    assert pacing["catch_up_bound_ns"] == BOUND_NS
    assert pacing["on_schedule"] == (1000 * pacing["skipped"] <= intended)
    if pacing["longest_stall_ns"] == 0:
        assert totals["tx_offered"] == intended
    else:
        assert pacing["longest_stall_ns"] > BOUND_NS
        assert pacing["skipped"] > 0


def try_loads(sender: Engine, seconds: float = 0.3) -> None:
    for number, (rate, burst) in enumerate(LOADS):
        sender.tell(f"start rate={rate} burst={burst} duration={seconds}")
        check_account(sender.wait("result", number + 1), due(rate, burst, seconds))


def test_every_due_frame_is_sent_or_reported_as_skipped() -> None:
    with engine("sender", "--port", "null:", "--idle", "yield", "--session") as sender:
        try_loads(sender)


@pytest.mark.parametrize("io", BACKENDS)
def test_real_ports_send_or_report_every_due_frame(wire: tuple[Node, Node], io: str) -> None:
    """With a receiver that shares the machine."""
    a, b = wire
    with (
        engine("receiver", "--port", port("raw-mmsg", b), "--idle", "yield", node=b) as receiver,
        engine(
            "sender", "--port", port(io, a), "--idle", "yield", "--session", node=a
        ) as sender,
    ):  # fmt: skip
        receiver.tell("start")
        receiver.wait("started")
        try_loads(sender, 0.2)


def held_up(*options: str) -> Event:
    """Return the result of a second at 10,000 frames a second in which the sender was stopped.

    It is repeated if the second was over before the stop."""
    while True:
        with engine(
            "sender", "--port", "null:", "--rate", "10k", "--burst", "1", *options
        ) as sender:
            sender.tell("start duration=1 interval=0.05")
            begun_ns = sender.wait("started")["t_ns"]
            sender.wait("interval")
            sender.process.send_signal(signal.SIGSTOP)
            stopped_ns = time.monotonic_ns() - begun_ns
            time.sleep(STOPPED_S)
            sender.process.send_signal(signal.SIGCONT)
            if stopped_ns < 1e9 * (0.95 - STOPPED_S):
                return sender.wait("result")


def test_stall_beyond_the_bound_is_skipped_and_reported() -> None:
    result = held_up("--idle", "yield")
    check_account(result, 10_000)
    pacing = result["pacing"]
    assert pacing["longest_stall_ns"] >= 0.99e9 * STOPPED_S
    assert pacing["skipped"] >= 10_000 * (STOPPED_S - 0.002)
    assert not pacing["on_schedule"]


def test_stall_within_the_bound_is_made_up_for() -> None:
    result = held_up("--idle", "yield", "--catch-up-us", "10000000")
    assert result["totals"]["tx_offered"] == result["totals"]["tx_intended"] == 10_000
    pacing = result["pacing"]
    assert pacing["skipped"] == pacing["longest_stall_ns"] == 0
    assert pacing["on_schedule"]
    assert pacing["late_max_ns"] >= 0.99e9 * STOPPED_S, "the frames were late, which is reported"
