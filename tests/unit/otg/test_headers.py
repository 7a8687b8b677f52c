"""Flows with VXLAN headers as command lines of the engine, and their counters."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import snappi

from switchmark.engine.process import tunnel_row
from switchmark.otg import types
from switchmark.otg.plan import FlowPlan, plan_flows
from switchmark.otg.ports import TrafficPort
from switchmark.otg.progress import CounterSums
from switchmark.otg.refusal import Refused

PORTS = {
    "eth1": TrafficPort("eth1", "raw:dev=eth1", None, shared=True),
    "eth2": TrafficPort("eth2", "raw:dev=eth2", None, shared=True),
}
INNER = ("02:00:00:00:00:01", "02:00:00:00:00:02")


@pytest.fixture
def config() -> Any:
    config = snappi.Api().config()
    config.ports.add(name="p1", location="eth1")
    config.ports.add(name="p2", location="eth2")
    config.layer1.add(name="l", port_names=["p1"]).speed = "speed_10_gbps"
    flow = config.flows.add(name="f")
    flow.tx_rx.port.tx_name, flow.tx_rx.port.rx_names = "p1", ["p2"]
    flow.size.fixed = 250
    outer, ip, udp, vxlan = flow.packet.ethernet().ipv4().udp().vxlan()
    outer.src.value, outer.dst.value = "02:00:00:00:0a:01", "02:00:00:00:0b:01"
    ip.src.value, ip.dst.value = "192.0.2.1", "192.0.2.2"
    udp.src_port.value, udp.dst_port.value = 50_000, 4789
    vxlan.vni.value = 42
    flow.packet.ethernet().ipv4().udp()
    inner, address, port = flow.packet[4], flow.packet[5], flow.packet[6]
    inner.src.value, inner.dst.value = INNER
    address.src.value, address.dst.value = "10.0.0.1", "10.0.0.2"
    port.src_port.value, port.dst_port.value = 1, 2
    return config


def planned(config: Any) -> FlowPlan:
    (plan,) = plan_flows(types.Config.model_validate_json(config.serialize()), PORTS)
    return plan


def option(arguments: Sequence[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def modified(arguments: Sequence[str]) -> dict[str, str]:
    pairs = [b for a, b in itertools.pairwise(arguments) if a == "--modify"]
    return dict(one.split("=", 1) for one in pairs)


def test_a_tunnel_is_sent_and_received_by_the_engine(config: Any) -> None:
    plan = planned(config)
    assert plan.replay is None
    assert plan.outer_bytes == 50
    assert option(plan.sender, "--encap") == option(plan.receiver, "--decap") == "vxlan"
    assert option(plan.sender, "--outer-src-mac") == "02:00:00:00:0a:01"
    assert option(plan.sender, "--outer-dst-mac") == "02:00:00:00:0b:01"
    tunnel = {"vni": "42", "outer-src-ip": "192.0.2.1", "outer-dst-ip": "192.0.2.2",
              "outer-src-port": "50000"}  # fmt: skip
    assert modified(plan.sender) == modified(plan.receiver) == tunnel
    assert option(plan.sender, "--src-ip") == option(plan.receiver, "--dst-ip") == "10.0.0.1"
    assert plan.tunnel_row == tunnel_row(0, bytes(4), bytes(4), INNER[1], INNER[0])
    assert plan.paths["modify vni"] == "flows[0].packet[3].vxlan.vni"
    assert plan.paths["modify outer-src-ip"] == "flows[0].packet[1].ipv4.src"


def test_fields_that_a_router_changes_are_sent_and_not_compared(config: Any) -> None:
    _, ip, udp, vxlan, inner, address, _ = config.flows[0].packet
    ip.time_to_live.value, ip.priority.dscp.phb.values = 9, [1, 2]
    udp.src_port.increment.start, udp.src_port.increment.count = 49_152, 99
    vxlan.vni.decrement.start, vxlan.vni.decrement.count = 7, 5
    inner.dst.values = [INNER[1], INNER[0]]
    address.src.increment.start, address.src.increment.count = "10.0.0.1", 3
    plan = planned(config)
    sent = modified(plan.sender)
    assert sent["outer-ttl"] == "9"
    assert sent["outer-dscp"] == "values,1,2"
    assert sent["dst-mac"] == f"values,{INNER[1]},{INNER[0]}"
    assert sent["src-ip"] == "increment,10.0.0.1,0.0.0.1,3", "not as flows of the engine"
    compared = modified(plan.receiver)
    assert compared["vni"] == "decrement,7,1,5"
    assert compared["outer-src-port"] == "increment,49152,1,99"
    assert not {"outer-ttl", "outer-dscp", "dst-mac"} & compared.keys()
    assert "--flows" not in plan.sender


def test_sizes_include_the_outer_headers(config: Any) -> None:
    size = config.flows[0].size
    assert option(planned(config).sender, "--packet-size") == "200"
    size.increment.start, size.increment.end, size.increment.step = 114, 514, 200
    plan = planned(config)
    assert option(plan.sender, "--packet-size") == "64+264+464"
    assert option(plan.receiver, "--packet-size") == "464"
    size.random.min, size.random.max = 120, 9018
    assert option(planned(config).sender, "--packet-size") == "random:70-8968"
    for bytes_, weight in ((114, 3), (250, 1)):
        size.weight_pairs.custom.custom(size=bytes_, weight=weight)
    assert option(planned(config).sender, "--packet-size") == "random:64*3+200*1"


@pytest.mark.parametrize(
    ("kind", "value", "frames_a_second"),
    [
        ("bps", 2_000_000, 2e6 / 8 / 250),
        ("kbps", 2_000, 2e6 / 8 / 250),
        ("gbps", 1, 1e9 / 8 / 250),
        ("percentage", 100, 1e10 / 8 / 270),
        ("percentage", 0.5, 5e7 / 8 / 270),
    ],
)
def test_bits_of_a_rate_include_the_outer_headers(
    config: Any, kind: str, value: float, frames_a_second: float
) -> None:
    """The engine divides bits of layer 2 by the mean size of the inner frames, here 200 bytes."""
    setattr(config.flows[0].rate, kind, value)
    text = option(planned(config).sender, "--rate")
    assert text.endswith("bps-l2")
    inner_bps = int(text.removesuffix("bps-l2"))
    assert inner_bps / 8 / 200 == pytest.approx(frames_a_second, rel=1e-6)


def test_frames_a_second_stay_as_they_are(config: Any) -> None:
    config.flows[0].rate.pps = 77
    assert option(planned(config).sender, "--rate") == "77"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.packet[2].dst_port.increment.set(4789, 1, 2), "dst_port: only the value 4789"),
        (lambda f: setattr(f.packet[3].reserved0, "value", 1), "vxlan.reserved0: only the value 0"),
        (lambda f: setattr(f.size, "fixed", 113), "flows[0].size.fixed: is 113"),
        (lambda f: setattr(f.size.weight_pairs, "predefined", "imix"), "size.weight_pairs"),
        (lambda f: f.packet.remove(1), "packet: supported in front of vxlan"),
    ],
)
def test_impossible_tunnels_are_refused_by_path(config: Any, change: Any, message: str) -> None:
    change(config.flows[0])
    with pytest.raises(Refused) as caught:
        planned(config)
    assert message in str(caught.value)


def test_a_missing_destination_port_is_refused(config: Any) -> None:
    text = config.serialize().replace('"value": 4789', '"value": 0')
    with pytest.raises(Refused, match=r"packet\[2\]\.udp\.dst_port: only the value 4789"):
        plan_flows(types.Config.model_validate_json(text), PORTS)


def test_frames_of_a_file_have_no_tunnel(config: Any) -> None:
    burst = config.flows[0].duration.burst
    burst.bursts, burst.packets, burst.inter_burst_gap.nanoseconds = 3, 7, 1000
    config.flows[0].rate.pps = 333
    with pytest.raises(Refused) as caught:
        planned(config)
    assert str(caught.value).startswith("flows[0].packet[3].vxlan: is not possible in frames")


def test_bytes_of_counters_include_the_outer_headers() -> None:
    sums = CounterSums("tx_offered", "tx_bytes", outer_bytes=50)
    interval: Any = SimpleNamespace(t_ns=5, tx_offered=10, tx_bytes=2000, duration_ns=1_000_000_000)
    sums.take([interval])
    assert (sums.last.size_bytes, sums.last.bytes_a_second) == (2500, 2500.0)
