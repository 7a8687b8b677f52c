"""Whole trials through container networks: frames, TCP, and the proof in the record."""

from __future__ import annotations

import pytest

from switchmark.instrument.registry import INSTRUMENTS
from switchmark.record import Record
from tests.integration.main_job import SHORT, Bench, need, settings, went_well
from tests.integration.test_cni import PLUGINS
from tests.places import needs_namespaces

pytestmark = [
    pytest.mark.integration,
    needs_namespaces,
    pytest.mark.skipif(PLUGINS is None, reason="apt install containernetworking-plugins"),
]
OVER_TCP = ("duration=2s", "trim.warm_up=400ms", "trim.cool_down=200ms")


def measured(bench: Bench, switch: str, options: str, *more: str) -> Record:
    """One trial, finished, through a network of these options."""
    need((switch,), ("netns",))
    chosen = settings(f"switch_options={options}", "environment=netns", *more)
    code, _, err = bench.run_to_the_end("trial", switch, "--no-baseline", *chosen)
    assert went_well(code, err), err
    (record,) = bench.records()
    if record.status != "finished":
        pytest.skip(f"the machine is too busy: {record.message}")
    return record


@pytest.mark.parametrize("pairs", [1, 3])
def test_frames_through_a_bridge_of_cni(pairs: int, bench: Bench) -> None:
    record = measured(bench, "cni", "conflist:bridge", *SHORT, "rate=2k", f"pairs={pairs}")
    assert (record.connect_mode, record.port_kind) == ("network", "attachment")
    assert record.io == "udp-mmsg"
    assert record.verification is not None and record.verification.passed
    assert record.crossing is not None and len(record.crossing.devices) == 4 * pairs
    assert record.crossing.ttl_forth == 64 and not record.crossing.translated
    assert record.reconciliation is not None
    assert all(path.sent == path.switch_received for path in record.reconciliation.paths)


def test_streams_through_ptp_with_congestion_control(bench: Bench) -> None:
    """The route that sets the congestion control keeps the gateway of ptp."""
    if not INSTRUMENTS["iperf3"]().availability().available:
        pytest.skip("apt install iperf3")
    more = ("workload=tcp-stream", "congestion_control=reno", *OVER_TCP)
    record = measured(bench, "cni", "conflist:ptp", *more)
    assert record.crossing is not None and record.crossing.ttl_forth == 63
    assert record.transfer is not None and record.transfer.completed_per_s > 0
    assert record.transport is not None
    assert any(label.startswith("network/veth") for label in record.transport.offloads)


@pytest.mark.parametrize(
    ("switch", "options"), [("cni", "conflist:bridge"), ("docker-network", "driver:user-bridge")]
)
def test_a_stream_between_two_hosts_crosses_vxlan(switch: str, options: str, bench: Bench) -> None:
    more = ("workload=tcp-stream", "pairs=2", *OVER_TCP)
    record = measured(bench, switch, f"{options}+overlay:vxlan", *more)
    crossing = record.crossing
    assert crossing is not None and crossing.least_bytes > 0
    counted = {one.device: one.bytes for one in crossing.devices}
    for device in ("vxlan-a", "underlay-a", "underlay-b", "vxlan-b"):
        assert counted[device] >= 0.99 * crossing.least_bytes
    assert crossing.ttl_forth == (62 if switch == "cni" else 64)
    assert record.transfer is not None and len(record.transfer.pairs) == 2
    total = sum(pair.completed_per_s for pair in record.transfer.pairs)
    assert record.transfer.completed_per_s == pytest.approx(total)
    assert record.transport is not None
    assert {"network/vxlan-a", "network/vxlan-b"} <= set(record.transport.offloads)


@pytest.mark.parametrize("workload", ["tcp-stream", "tcp-crr", "frames"])
def test_a_published_port_through_the_proxy(workload: str, bench: Bench) -> None:
    load = {"tcp-stream": (), "tcp-crr": ("rate=200",), "frames": ("rate=1k",)}[workload]
    more = (f"workload={workload}", *load, *OVER_TCP)
    record = measured(bench, "docker-network", "publish:proxy+iptables:off", *more)
    crossing = record.crossing
    assert crossing is not None and crossing.relay is not None
    assert crossing.relay.bytes >= 0.99 * crossing.least_bytes > 0
    assert crossing.relay.forwarded_packets == 0 < crossing.relay.cpu_s
    assert crossing.dialled.startswith("192.0.2.2:") and crossing.translated
    assert crossing.answered_at != crossing.dialled
    assert "counters-disagree" not in (record.verdict.marks if record.verdict else [])
    if record.transport is not None:
        assert record.transport.switch_cpu is not None and record.transport.switch_cpu.seconds > 0


def test_requests_to_a_published_port(bench: Bench) -> None:
    if not INSTRUMENTS["sockperf"]().availability().available:
        pytest.skip("apt install sockperf")
    record = measured(bench, "docker-network", "publish:nat", "workload=tcp-rr", *OVER_TCP)
    assert record.crossing is not None and record.crossing.ttl_forth == 63
    assert record.transfer is not None and record.transfer.completed_per_s > 0
    assert record.switch_details["client"] == "outside the host"
