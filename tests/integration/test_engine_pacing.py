"""The sender keeps its schedule, or says by how much it did not.

Counts, not times: every frame that was due is sent or owned up to, and while nothing kept the
sender away for longer than its catch-up bound, all of them are sent, so that the mean is exact on
a busy machine, too. How late single frames are is bench/engine/pacing.py's to measure."""

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
    """Frames of the bursts at k * burst / rate that fall into this time."""
    return math.ceil(round(rate_pps * seconds / burst, 6)) * burst


def check_account(result: Event, intended: int) -> None:
    """The three loads fit together, and to what the pacing says of stalls."""
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


def test_all_that_is_due_is_sent_or_owned_up_to() -> None:
    with engine("sender", "--port", "null:", "--idle", "yield", "--session") as sender:
        try_loads(sender)


@pytest.mark.parametrize("io", BACKENDS)
def test_the_same_on_real_ports(wire: tuple[Node, Node], io: str) -> None:
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
    """A second at 10,000 frames a second, in which the sender was stopped for a while: it is tried
    again where the second had gone by before that."""
    while True:
        with engine("sender", "--port", "null:", "--rate", "10k", "--burst", "1", *options) as one:
            one.tell("start duration=1 interval=0.05")
            begun_ns = one.wait("started")["t_ns"]
            one.wait("interval")
            one.process.send_signal(signal.SIGSTOP)
            stopped_ns = time.monotonic_ns() - begun_ns
            time.sleep(STOPPED_S)
            one.process.send_signal(signal.SIGCONT)
            if stopped_ns < 1e9 * (0.95 - STOPPED_S):
                return one.wait("result")


def test_a_stall_beyond_the_bound_is_given_up_and_said() -> None:
    result = held_up("--idle", "yield")
    check_account(result, 10_000)
    pacing = result["pacing"]
    assert pacing["longest_stall_ns"] >= 0.99e9 * STOPPED_S
    assert pacing["skipped"] >= 10_000 * (STOPPED_S - 0.002)
    assert not pacing["on_schedule"]


def test_a_stall_within_the_bound_is_made_up_for() -> None:
    result = held_up("--idle", "yield", "--catch-up-us", "10000000")
    assert result["totals"]["tx_offered"] == result["totals"]["tx_intended"] == 10_000
    pacing = result["pacing"]
    assert pacing["skipped"] == pacing["longest_stall_ns"] == 0
    assert pacing["on_schedule"]
    assert pacing["late_max_ns"] >= 0.99e9 * STOPPED_S, "but the frames were late, and it says so"
