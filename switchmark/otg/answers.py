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
    request: types.FlowMetricsRequest | None,
    plans: Iterable[FlowPlan],
    running: Mapping[str, RunningFlow],
) -> list[types.FlowMetric]:
    """Return the metrics of each requested flow, in the order of the request or, if it has no
    names, of the configuration."""
    known = {plan.name: plan for plan in plans}
    names = _requested_names(request.flow_names if request else None, known, "flow")
    columns = request.metric_names if request else None
    return [
        _select_columns(
            _flow_metric(known[name], running.get(name)), columns, ("name", "port_tx", "port_rx")
        )
        for name in names
    ]


def _flow_metric(plan: FlowPlan, flow: RunningFlow | None) -> types.FlowMetric:
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
    """Return the loss in percent, by sequence numbers, without copies and without the frames that
    the receiver's own port dropped; None while the flow runs, and if one of its engines failed."""
    if flow.receiver is None or not flow.is_whole:
        return None
    lost, _ = flow.missing()
    sent = flow.sender.result.totals.tx_offered
    return 100.0 * lost / sent if sent else None


def _latency(flow: RunningFlow) -> types.MetricLatency | None:
    """Return the one-way latency; None until the flow has ended."""
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
    request: types.PortMetricsRequest | None,
    config: types.Config,
    ports: Mapping[str, TrafficPort],
    running: Iterable[RunningFlow],
    capturing: Iterable[str],
) -> list[types.PortMetric]:
    """Return the metrics of each requested port: the frames that flows sent and received there."""
    known = {port.name: ports[port.location or ""] for port in config.ports or ()}
    names = _requested_names(request.port_names if request else None, known, "port")
    flows, captured = list(running), set(capturing)
    columns = request.column_names if request else None
    return [
        _select_columns(
            _port_metric(name, known[name], flows, name in captured), columns, ("name",)
        )
        for name in names
    ]


def _port_metric(
    name: str, port: TrafficPort, flows: Iterable[RunningFlow], is_capturing: bool
) -> types.PortMetric:
    leaving = [flow for flow in flows if flow.plan.tx_name == name]
    sent = [flow.counts()[0] for flow in leaving]
    received = [flow.counts()[1] for flow in flows if flow.plan.rx_name == name]
    return types.PortMetric(
        name=name,
        location=port.location,
        link="up" if port.is_up else "down",
        capture="started" if is_capturing else "stopped",
        frames_tx=sum(moment.frames for moment in sent),
        frames_rx=sum(moment.frames for moment in received),
        bytes_tx=sum(moment.size_bytes for moment in sent),
        bytes_rx=sum(moment.size_bytes for moment in received),
        frames_tx_rate=sum(moment.frames_a_second for moment in sent),
        frames_rx_rate=sum(moment.frames_a_second for moment in received),
        bytes_tx_rate=sum(moment.bytes_a_second for moment in sent),
        bytes_rx_rate=sum(moment.bytes_a_second for moment in received),
        transmit="started" if any(not flow.ended for flow in leaving) else "stopped",
    )


def _requested_names(
    names: Iterable[str] | None, known: Mapping[str, object], kind: str
) -> list[str]:
    """Return the names of a request, or all; raise `Refused` for an unknown name."""
    requested = list(names or known)
    for name in requested:
        if name not in known:
            raise Refused(f"{kind}.{kind}_names: there is no {kind} {name}")
    return requested


T = TypeVar("T", bound=types.Part)


def _select_columns(metric: T, columns: Iterable[str] | None, always: Iterable[str]) -> T:
    """Return the metric with the requested columns and those of `always`; with all columns if the
    request names none."""
    names = set(columns or ())
    if not names:
        return metric
    names |= set(always)
    return metric.model_copy(
        update={name: None for name in type(metric).model_fields if name not in names}
    )
