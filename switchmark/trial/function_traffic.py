"""The load of a trial with network functions: flows from the neutral table, frames that must be
dropped beside them, and the fields that the receiver compares."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, replace

from switchmark.engine.loads import loss_of
from switchmark.engine.process import EngineProcess, tunnel_row
from switchmark.function.support.flows import FlowRows, denied_flows, load_flows
from switchmark.function.support.table import FunctionTable, Tunnel
from switchmark.model.choices import Dimension
from switchmark.model.node import NodePort
from switchmark.model.trial import Trial
from switchmark.trial.reconcile import CounterReading
from switchmark.trial.verification import PairEnds

DENIED_PPS = 200  # rate of the frames that must be dropped
MOST_DENIED = 1000  # different flows that must be dropped
TTL = 64  # TTL or hop limit when the tester sends


@dataclass(frozen=True, slots=True)
class FunctionCounts:
    """Frames that arrived although the function should have changed or dropped them, and the
    frames sent that had to be dropped."""

    wrong_next_hop: int = 0
    wrong_header: int = 0
    denied_sent: int = 0
    denied_arrived: int = 0

    def since(self, before: FunctionCounts) -> FunctionCounts:
        """Return the counts since an earlier reading."""
        return FunctionCounts(
            self.wrong_next_hop - before.wrong_next_hop,
            self.wrong_header - before.wrong_header,
            self.denied_sent - before.denied_sent,
            self.denied_arrived - before.denied_arrived,
        )

    @property
    def violations(self) -> int:
        """Frames that prove that the function was not performed."""
        return self.wrong_next_hop + self.wrong_header + self.denied_arrived


def function_counts(reading: CounterReading) -> FunctionCounts:
    """Return the counts of a reading, over all applications."""
    applications = reading.applications.values()
    return FunctionCounts(
        wrong_next_hop=sum(one.rx_wrong_next_hop for one in applications),
        wrong_header=sum(one.rx_wrong_header for one in applications),
        denied_sent=sum(reading.denied.values()),
        denied_arrived=sum(one.rx_denied for one in applications),
    )


def copy_counts(pairs: Sequence[PairEnds], monitors: Sequence[EngineProcess]) -> dict[str, int]:
    """Return the frames that were sent into the mirrored port, and the copies that arrived, as the
    record has them; empty if no copies were counted."""
    if not monitors or not monitors[0].has_result:
        return {}
    arrivals = loss_of(monitors[0].result)
    return {
        "copies_due": pairs[0].a.result.totals.tx_offered,
        "copies_arrived": arrivals.received_unique,
        "copies_doubled": arrivals.duplicates,
    }


def has_flow_table(trial: Trial) -> bool:
    """Return True if the flows of a trial come from the neutral table. Round trips use the
    addresses of the testers."""
    return not trial.function.is_plain and trial.dimension is Dimension.THROUGHPUT


def sender_args(table: FunctionTable) -> list[str]:
    """Return the options of an engine that sends the load."""
    denies = bool(table.tunnels) or any(not rule.permit for rule in table.rules)
    return ["--ttl", str(TTL), *(["--denied-rate", str(DENIED_PPS)] if denies else [])]


def receiver_args(table: FunctionTable, port: int) -> list[str]:
    """Return the options of an engine that receives the load at a port: the fields that frames must
    have when they leave the switch."""
    if not table.is_routed:
        return ["--expect-ttl", str(TTL)]
    return [
        "--next-hops", ",".join(hop.mac for hop in table.next_hops),
        "--expect-src-mac", table.ports[port].mac,
        "--expect-ttl", str(TTL - 1),
    ]  # fmt: skip


def tunnel_args(table: FunctionTable, port: int) -> list[str]:
    """Return the options of an engine at a port of function `vxlan`."""
    if not table.tunnels or port != table.underlay_port:
        return []
    tunnel = table.tunnels[0]
    return [
        "--encap", "vxlan",
        "--decap", "vxlan",
        "--outer-src-mac", tunnel.remote_mac,
        "--outer-dst-mac", tunnel.local_mac,
    ]  # fmt: skip


def engine_port(table: FunctionTable | None, index: int, port: NodePort) -> NodePort:
    """Return the port at this port of the switch, with the addresses of its engine: at the underlay
    port, the engine is the first station behind the tunnels."""
    if table is None or not table.tunnels or index != table.underlay_port:
        return port
    return replace(port, mac=table.tunnels[0].station_mac)


def tunnel_rows(table: FunctionTable, ingress: int) -> list[bytes]:
    """Return the tunnels as the engine has them, for frames that enter the switch at a port. The
    unknown tunnel, whose frames the switch must drop, comes last."""
    host_mac = table.ports[table.access_port].host_mac
    inward = ingress == table.access_port

    def row(tunnel: Tunnel) -> bytes:
        ends = [ipaddress.ip_address(text).packed for text in (tunnel.local, tunnel.remote)]
        macs = [tunnel.station_mac, host_mac]
        if not inward:
            ends.reverse()
            macs.reverse()
        return tunnel_row(tunnel.vni, ends[0], ends[1], macs[0], macs[1])

    return [row(tunnel) for tunnel in (*table.tunnels, table.unknown_tunnel)]


def load_tables(
    trial: Trial,
    table: FunctionTable,
    pairs: Sequence[PairEnds],
    monitors: Sequence[EngineProcess] = (),
) -> None:
    """Send its flows to each sender and receiver. The engines must be idle. `monitors` receive
    copies of frames of the first pair. With traffic both ways, the second end sends the reverse of
    the flows of the first one."""
    for pair in pairs:
        ingress = 2 * pair.a.pair
        rows = load_flows(table, trial.flows.number, [ingress + 1], seed=table.seed + pair.a.pair)
        denied = denied_flows(table, MOST_DENIED)
        for engine in (pair.a, pair.b, *(monitors if pair.a.pair == 0 else ())):
            is_reverse = engine is pair.b and trial.bidirectional
            if table.tunnels:
                tunnels = tunnel_rows(table, ingress + is_reverse)
                engine.send_table(b"".join(tunnels), len(tunnels), "tunnels")
            _send(engine, rows.reversed() if is_reverse else rows, trial)
            if denied is not None and (engine is pair.a or is_reverse):
                dropped = denied.reversed() if is_reverse else denied
                engine.send_table(dropped.to_bytes(), len(dropped), "denied")


def _send(engine: EngineProcess, rows: FlowRows, trial: Trial) -> None:
    engine.send_table(rows.to_bytes(), len(rows), zipf=trial.flows.zipf, seed=trial.flows.seed)
