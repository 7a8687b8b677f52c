"""Port and flow metrics in the published types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from switchmark.otg import types
from switchmark.otg.plan import FlowPlan
from switchmark.otg.ports import TrafficPort
from switchmark.otg.refusal import Refused
from switchmark.otg.traffic import RunningFlow


def flow_metrics(
    asked: types.FlowMetricsRequest | None,
    plans: Iterable[FlowPlan],
    running: Mapping[str, RunningFlow],
) -> list[types.FlowMetric]:
    """The metrics of each flow, in the order of the configuration."""
    known = {plan.name: plan for plan in plans}
    wanted = _wanted(asked.flow_names if asked else None, known, "flow")
    found = [_of_flow(known[name], running.get(name)) for name in wanted]
    columns = asked.metric_names if asked else None
    return [_only(one, columns, ("name", "port_tx", "port_rx")) for one in found]


def _of_flow(plan: FlowPlan, flow: RunningFlow | None) -> types.FlowMetric:
    if flow is None:
        return types.FlowMetric(
            name=plan.name, port_tx=plan.tx_name, port_rx=plan.rx_name, transmit="stopped",
            frames_tx=0, frames_rx=0, bytes_tx=0, bytes_rx=0, frames_tx_rate=0, frames_rx_rate=0,
        )  # fmt: skip
    sent, received = flow.counts()
    return types.FlowMetric(
        name=plan.name,
        port_tx=plan.tx_name,
        port_rx=plan.rx_name,
        transmit="stopped" if flow.ended else "started",
        frames_tx=sent.frames,
        frames_rx=received.frames,
        bytes_tx=sent.size_bytes,
        bytes_rx=received.size_bytes,
        frames_tx_rate=sent.frames_a_second,
        frames_rx_rate=received.frames_a_second,
        loss=_loss_percent(flow) if plan.counts_loss else None,
        latency=_latency(flow) if plan.is_timed else None,
    )


def _loss_percent(flow: RunningFlow) -> float | None:
    """The loss in percent, by sequence numbers, without copies and without what the receiver's own
    port dropped; None while the flow runs, and for a flow of which an engine failed."""
    if flow.receiver is None or not flow.is_whole:
        return None
    lost, _ = flow.missing()
    sent = flow.sender.result.totals.tx_offered
    return 100.0 * lost / sent if sent else None


def _latency(flow: RunningFlow) -> types.MetricLatency | None:
    """The one-way latency, when the flow has ended."""
    if flow.receiver is None or not flow.is_whole:
        return None
    delays = flow.receiver.result.latency
    if delays is None or not delays.count:
        return None
    return types.MetricLatency(
        minimum_ns=float(delays.min_ns),
        maximum_ns=float(delays.max_ns),
        average_ns=float(delays.mean_ns),
    )


def port_metrics(
    asked: types.PortMetricsRequest | None,
    config: types.Config,
    ports: Mapping[str, TrafficPort],
    running: Iterable[RunningFlow],
    capturing: Iterable[str],
) -> list[types.PortMetric]:
    """The metrics of each port: what its flows sent and received there."""
    known = {port.name: ports[port.location or ""] for port in config.ports or ()}
    wanted = _wanted(asked.port_names if asked else None, known, "port")
    flows, captured = list(running), set(capturing)
    found = [_of_port(name, known[name], flows, name in captured) for name in wanted]
    columns = asked.column_names if asked else None
    return [_only(one, columns, ("name",)) for one in found]


def _of_port(
    name: str, port: TrafficPort, flows: Iterable[RunningFlow], captures: bool
) -> types.PortMetric:
    leaving = [flow for flow in flows if flow.plan.tx_name == name]
    sent = [flow.counts()[0] for flow in leaving]
    received = [flow.counts()[1] for flow in flows if flow.plan.rx_name == name]
    return types.PortMetric(
        name=name,
        location=port.location,
        link="up" if port.is_up else "down",
        capture="started" if captures else "stopped",
        frames_tx=sum(one.frames for one in sent),
        frames_rx=sum(one.frames for one in received),
        bytes_tx=sum(one.size_bytes for one in sent),
        bytes_rx=sum(one.size_bytes for one in received),
        frames_tx_rate=sum(one.frames_a_second for one in sent),
        frames_rx_rate=sum(one.frames_a_second for one in received),
        bytes_tx_rate=sum(one.bytes_a_second for one in sent),
        bytes_rx_rate=sum(one.bytes_a_second for one in received),
        transmit="started" if any(not flow.ended for flow in leaving) else "stopped",
    )


def _wanted(names: Iterable[str] | None, known: Mapping[str, object], kind: str) -> list[str]:
    asked = list(names or known)
    for name in asked:
        if name not in known:
            raise Refused(f"{kind}.{kind}_names: there is no {kind} {name}")
    return asked


T = TypeVar("T", bound=types.Part)


def _only(one: T, columns: Iterable[str] | None, always: Iterable[str]) -> T:
    """The columns that were asked for; all where none was."""
    names = set(columns or ())
    if not names:
        return one
    return one.model_copy(
        update={name: None for name in type(one).model_fields if name not in names | set(always)}
    )
