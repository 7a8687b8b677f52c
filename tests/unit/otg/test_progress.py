"""Counters of running flows, and warnings of engines that failed or were late."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from switchmark.errors import SwitchmarkError
from switchmark.otg import types
from switchmark.otg.answers import flow_metrics
from switchmark.otg.progress import CounterSums, Moment, in_step
from switchmark.otg.traffic import SAMPLE_S, RunningFlow, Traffic, rest_after

COUNTERS = (
    "tx_intended", "tx_offered", "tx_bytes", "tx_late", "rx_frames", "rx_bytes", "rx_socket_drops",
    "rx_missed_away", "rx_other",
)  # fmt: skip
PLAN = SimpleNamespace(
    name="f", tx_name="p1", rx_name="p2", counts_loss=True, is_timed=False, outer_bytes=0
)


class Engine:
    """An engine with the output that a test gives."""

    def __init__(self, role: Any) -> None:
        self.role, self.stopped = role, None
        self.exits_at_once = True
        self.is_asked_to_exit = self.is_closed = False
        self.intervals: list[Any] = []
        self._printed = None

    @property
    def has_result(self) -> Any:
        return self._printed is not None

    @property
    def result(self) -> Any:
        return self._printed

    def prints(self, t_ns: Any, **counters: Any) -> None:
        part = {**dict.fromkeys(COUNTERS, 0), **counters}
        part.setdefault("lost_link", None)
        self.intervals.append(SimpleNamespace(t_ns=t_ns, duration_ns=100_000_000, **part))

    def ends(
        self, reason: str = "duration", fault: Any = None, unique: int = 0, **counters: Any
    ) -> None:
        totals = SimpleNamespace(**{**dict.fromkeys(COUNTERS, 0), **counters})
        loss = SimpleNamespace(received_unique=unique)
        self._printed = SimpleNamespace(
            reason=reason, fault=fault, partial=fault is not None, totals=totals, loss=loss
        )

    def pump(self, timeout_s: Any) -> Any:
        return False

    def request_stop(self, sent: Any = None) -> None:
        self.stopped = sent

    def request_exit(self) -> None:
        self.is_asked_to_exit = True

    def process_ids(self) -> Any:
        return [] if self.is_asked_to_exit and self.exits_at_once else [1]

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def flow() -> Any:
    return RunningFlow(PLAN, Engine("sender"), Engine("receiver"))


def metric(flow: Any) -> Any:
    return flow_metrics(types.FlowMetricsRequest(), [PLAN], {"f": flow})[0]


def test_in_step_returns_the_last_moment_the_sender_passed() -> None:
    sent = [Moment(0), Moment(100, 10), Moment(200, 20), Moment(300, 30)]
    received = [Moment(0), Moment(150, 14), Moment(250, 24), Moment(350, 34)]
    assert in_step(sent, received) == (Moment(300, 30), Moment(250, 24))
    assert in_step(sent[:3], received) == (Moment(200, 20), Moment(150, 14))
    assert in_step(sent[:1], received) == (Moment(0), Moment(0))
    assert in_step(sent, received[:1]) == (Moment(0), Moment(0))


def test_counter_sums_add_each_interval_once() -> None:
    progress = CounterSums("tx_offered", "tx_bytes")
    engine = Engine("sender")
    engine.prints(100, tx_offered=10, tx_bytes=640)
    progress.take(engine.intervals)
    engine.prints(200, tx_offered=20, tx_bytes=1280)
    progress.take(engine.intervals)
    progress.take(engine.intervals)
    assert progress.last == Moment(200, 30, 1920, 200.0, 12800.0)


def test_running_flow_has_not_received_more_than_it_sent(flow: Any) -> None:
    flow.sender.prints(100, tx_offered=10)
    flow.receiver.prints(120, rx_frames=12)
    flow.receiver.prints(220, rx_frames=10)
    flow.take()
    assert (metric(flow).frames_tx, metric(flow).frames_rx) == (0, 0)
    flow.sender.prints(200, tx_offered=10)
    flow.take()
    assert (metric(flow).frames_tx, metric(flow).frames_rx) == (20, 12)


def test_failed_receiver_has_no_rate_and_no_loss(flow: Any) -> None:
    flow.sender.prints(100, tx_offered=10)
    flow.receiver.prints(90, rx_frames=9)
    flow.receiver.prints(110, rx_frames=2)
    flow.receiver.ends("failure", "recvmmsg: Network is down", unique=11, rx_frames=11)
    flow.take()
    metrics = metric(flow)
    assert (metrics.transmit, metrics.frames_tx, metrics.frames_rx) == ("started", 10, 9)
    assert metrics.frames_rx_rate == 0 < metrics.frames_tx_rate
    assert flow.fault == "receiver: recvmmsg: Network is down"
    flow.sender.ends(tx_intended=100, tx_offered=100)
    assert flow.take()
    metrics = metric(flow)
    assert (metrics.transmit, metrics.frames_tx, metrics.frames_rx) == ("stopped", 100, 11)
    assert (metrics.loss, metrics.frames_rx_rate, metrics.frames_tx_rate) == (None, 0, 0)
    assert flow.warnings == ["receiver: recvmmsg: Network is down; the loss is unknown"]


def test_lost_link_is_a_fault_while_the_flow_runs(flow: Any) -> None:
    flow.sender.prints(100, tx_offered=10)
    flow.receiver.prints(90, rx_frames=9)
    flow.receiver.prints(190, rx_frames=0, lost_link=True)
    assert not flow.take()
    assert flow.fault == "receiver: its peer or device went away during the flow"
    assert metric(flow).transmit == "started"
    ends = {"tx_intended": 20, "tx_offered": 20, "rx_frames": 15, "unique": 15}
    flow.sender.ends(**ends)
    flow.receiver.ends(fault="port 0: went away and came back", **ends)
    assert flow.take() and metric(flow).loss is None
    assert flow.warnings == [f"{flow.fault}; the loss is unknown"]


def test_both_ends_name_a_lost_link(flow: Any) -> None:
    """The end that noticed the fault first hid the fault of the other end."""
    flow.sender.prints(100, tx_offered=0, lost_link=True)
    assert not flow.take()
    assert flow.fault == "sender: its peer or device went away during the flow"
    flow.receiver.prints(90, rx_frames=0, lost_link=True)
    assert not flow.take()
    faults = [f"{role}: its peer or device went away during the flow"
              for role in ("sender", "receiver")]  # fmt: skip
    assert flow.fault == "; ".join(faults)
    assert flow.warnings == [f"{fault}; the loss is unknown" for fault in faults]


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_partial_result_is_a_fault(flow: Any, role: Any) -> None:
    """A device went away and came back, and the flow continued."""
    ends = {"tx_intended": 10, "tx_offered": 10, "rx_frames": 10, "unique": 10}
    flow.sender.ends(fault="went away" if role == "sender" else None, **ends)
    flow.receiver.ends(fault="went away" if role == "receiver" else None, **ends)
    assert flow.take()
    assert (flow.fault, metric(flow).loss) == (f"{role}: went away", None)


def test_other_frames_may_explain_loss(flow: Any) -> None:
    flow.sender.ends(tx_intended=100, tx_offered=100)
    flow.receiver.ends(rx_other=100)
    assert flow.take()
    assert metric(flow).loss == 100
    (warning,) = flow.warnings
    assert warning.startswith("100 frames are missing, and 100 other frames arrived (rx_other): ")


def test_drops_of_the_receiver_port_are_not_loss(flow: Any) -> None:
    flow.sender.ends(tx_intended=1000, tx_offered=1000)
    flow.receiver.ends(unique=400, rx_frames=400, rx_socket_drops=450, rx_missed_away=50)
    flow.take()
    assert metric(flow).loss == 10.0
    assert flow.warnings[0].startswith("500 of 600 missing frames were dropped by the receiver")


def test_complete_flow_has_its_loss_and_no_warning(flow: Any) -> None:
    flow.sender.ends(tx_intended=1000, tx_offered=1000)
    flow.take()
    assert flow.receiver.stopped == 1000
    flow.receiver.ends(unique=999, rx_frames=1003)
    assert flow.take()
    assert (metric(flow).loss, metric(flow).frames_rx) == (pytest.approx(0.1), 1003)
    assert flow.warnings == []


def test_take_does_not_wait_for_engines_that_exit(flow: Any) -> None:
    """The counters of other flows would be old meanwhile. The flow runs until both have exited,
    because its next start needs their ports."""
    flow.sender.exits_at_once = False
    flow.sender.ends(tx_intended=10, tx_offered=10)
    flow.receiver.ends(unique=10, rx_frames=10)
    assert not flow.take() and not flow.take()
    assert all(engine.is_asked_to_exit and not engine.is_closed for engine in flow.engines)
    metrics = metric(flow)
    assert (metrics.transmit, metrics.frames_tx, metrics.frames_rx) == ("started", 10, 10)
    flow.sender.exits_at_once = True
    assert flow.take()
    assert all(engine.is_closed for engine in flow.engines)
    assert (metric(flow).transmit, metric(flow).loss) == ("stopped", 0)


def test_engines_that_do_not_exit_are_closed(flow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    flow.sender.exits_at_once = False
    flow.sender.ends(tx_intended=10, tx_offered=10)
    flow.receiver.ends(unique=10, rx_frames=10)
    assert not flow.take()
    monkeypatch.setattr("switchmark.otg.traffic.EXIT_TIMEOUT_S", -1.0)
    assert flow.take()
    assert flow.sender.is_closed and flow.receiver.is_closed


@pytest.mark.parametrize(
    ("late", "reason"),
    [(20, "the sender had no core in time"), (0, "the port did not take them")],
)
def test_missed_rate_warning_has_share_and_reason(flow: Any, late: Any, reason: Any) -> None:
    flow.sender.ends(tx_intended=1000, tx_offered=980, tx_late=late)
    flow.receiver.ends(unique=980, rx_frames=980)
    flow.take()
    assert flow.warnings == [
        "the rate was missed by 2 %: 20 of 1000 frames did not leave when they were due: " + reason
    ]
    assert metric(flow).loss == 0


class Driver(Engine):
    """An engine whose port may be in the fanout group of another device."""

    args = ("sender", "--port", "dpdk:af-packet=e1")

    def __init__(self, error: Any) -> None:
        super().__init__("sender")
        self.error = error

    def wait_ready(self, timeout_s: Any) -> None:
        if self.error:
            raise SwitchmarkError(self.error)


def test_engine_with_a_used_fanout_group_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number of the group depends on the process ID, so another process has another group."""
    collides = "could not set PACKET_FANOUT on AF_PACKET socket for e1: Invalid argument"
    first, second = Driver(collides), Driver("")
    monkeypatch.setattr(Traffic, "_engine", lambda self, plan, role, args: second)
    flow = RunningFlow(PLAN, first, None)
    Traffic(session=None)._wait_ready(flow)
    assert flow.sender is second and first.is_closed
    flow = RunningFlow(PLAN, Driver("no hugepages"), None)
    with pytest.raises(SwitchmarkError, match="no hugepages"):
        Traffic(session=None)._wait_ready(flow)


def test_rest_of_the_watch_has_a_limit() -> None:
    """Metrics were up to 15 s old after rounds of 5 s without a core."""
    assert rest_after(0.0) == pytest.approx(0.02)
    assert rest_after(0.02) == pytest.approx(0.06)
    assert rest_after(5.0) == SAMPLE_S


@pytest.mark.parametrize(
    ("flows", "interval"), [(1, "0.1"), (32, "0.1"), (33, "0.2"), (256, "0.8")]
)
def test_intervals_of_many_flows_are_longer(flows: Any, interval: Any) -> None:
    """512 engines with intervals of 0.1 s printed more lines than a busy server could read."""
    options = Traffic(session=None)._common_options(flows)
    assert options[options.index("--interval") + 1] == interval
