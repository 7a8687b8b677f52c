"""Applications really run: TCP through switches of the kernel and through a program on veth."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from switchmark.certify.support.rig import plan_for
from switchmark.host.kernel.device_settings import enable_offloads
from switchmark.host.kernel.namespaces import inside
from switchmark.host.session import open_session
from switchmark.instrument.registry import INSTRUMENTS
from switchmark.instrument.support import nginx
from switchmark.model.trial import Trial
from switchmark.record import Record
from switchmark.switch.registry import SWITCHES
from switchmark.switch.support.base import Switch
from switchmark.trial import tcp_path, workload_run
from switchmark.trial.evidence import Baseline
from switchmark.trial.run import run_trial
from tests.integration.main_job import need
from tests.integration.switch_rig import own_state_dir
from tests.places import needs_namespaces

pytestmark = [pytest.mark.alone, pytest.mark.integration, needs_namespaces]

STREAM = {
    "workload": "tcp-stream",
    "generator": "iperf3",
    "duration": "2s",
    "trim.warm_up": "400ms",
    "trim.cool_down": "200ms",
}
LARGEST_PACKET = 1514


@pytest.fixture(autouse=True)
def state_dir() -> Iterator[None]:
    with own_state_dir():
        yield


def have(*names: str) -> None:
    for name in names:
        if not (found := INSTRUMENTS[name]().availability()).available:
            pytest.skip(f"{name}: {found.reason}; {found.remedy}")


def measured(switch: str, **settings: str) -> Record:
    """The record of one trial, as the bench runs it."""
    need((switch,), ("netns",))
    with open_session(measuring=False) as session:
        return run_trial(
            session,
            plan_for(SWITCHES[switch](), **settings),
            campaign="workloads",
            run_id="abc123",
            baseline=Baseline(),
            provenance={},
            observe=lambda _: None,
        )


@pytest.mark.parametrize(("offload", "is_whole"), [("on", True), ("off", False)])
def test_tcp_passes_a_bridge_with_and_without_offloads(offload: str, is_whole: bool) -> None:
    """With offloads the kernel passes segments on whole, without them each packet fits the MTU. The
    payload that iperf3 read came to the device."""
    have("iperf3")
    record = measured("linux-bridge", offload=offload, congestion_control="reno", **STREAM)
    assert record.status == "finished", record.message
    assert record.transfer is not None and record.transport is not None
    assert record.transfer.goodput_bps == record.transfer.completed_per_s > 0
    path = record.transport
    assert path.bytes_forth >= path.payload_forth > 0
    assert set(path.checksum_errors.values()) == {0}
    assert record.instrument is not None and record.instrument.agrees
    assert path.client_cpu is not None and path.server_cpu is not None
    assert path.switch_cpu is None, "a bridge has no process"
    assert set(path.congestion_control.values()) == {"reno"}
    assert len(path.offloads) == 4, "both ends, and both ports of the bridge"
    for device in path.offloads.values():
        assert device["tx-checksumming"] == device["tcp-segmentation-offload"] == is_whole
    assert path.bytes_per_packet_forth is not None
    assert (path.bytes_per_packet_forth > LARGEST_PACKET) == is_whole


@pytest.mark.parametrize("switch", ["macvlan", "direct"])
def test_requests_are_answered_through_other_switches(switch: str) -> None:
    """sockperf begins about two seconds after its start, so the trial is long."""
    have("sockperf")
    record = measured(
        switch,
        workload="tcp-rr",
        generator="sockperf",
        dimension="latency",
        rate="200",
        duration="5s",
    )
    assert record.status == "finished", record.message
    assert record.latency is not None and record.transport is not None
    assert record.latency.count > 0
    path = record.transport
    assert path.requests_answered is not None and path.requests_sent is not None
    assert 0 < path.requests_answered <= path.requests_sent
    assert path.payload_back == 64 * path.requests_answered


def test_tcp_passes_a_switch_that_reads_frames() -> None:
    """Checksums stay filled in, and the record states why offloads are off."""
    have("iperf3")
    record = measured("ovs-netdev", **STREAM)
    assert record.status == "finished", record.message
    assert record.transfer is not None and record.transport is not None
    assert record.transfer.completed_per_s > 0
    assert "ovs-netdev reads frames" in record.transport.offload_note
    assert set(record.transport.checksum_errors.values()) == {0}
    assert record.transport.switch_cpu is not None and record.transport.switch_cpu.seconds > 0
    size = record.transport.bytes_per_packet_forth
    assert size is not None and size <= LARGEST_PACKET


@pytest.mark.parametrize(
    "switch", ["af-packet", "vpp", "basicfwd", "testpmd", "ovs-dpdk", "bess", "fastclick", "snabb"]
)
def test_tcp_passes_switches_that_poll(switch: str) -> None:
    """Their ports for applications are devices of the kernel, whose checksums are filled in."""
    record = measured(switch, workload="tcp-rr", rate="100", duration="2s")
    assert record.status == "finished", record.message
    path = record.transport
    assert path is not None and path.requests_answered
    assert set(path.checksum_errors.values()) == {0}
    assert f"{switch} reads frames" in path.offload_note
    assert path.switch_cpu is not None and path.switch_cpu.seconds > 0


def test_with_usual_offloads_tcp_would_not_pass_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same trial with the offloads of a new veth: the kernel drops segments because of their
    checksums, and the trial fails instead of giving a figure."""
    have("iperf3")
    errors: list[int] = []

    def set_all(trial: Trial, switch: Switch, devices: Sequence[tcp_path.PathDevice]) -> str:
        for each in devices:
            inside(each.netns, partial(enable_offloads, each.device))
        return ""

    def close(run: workload_run.WorkloadRun) -> None:
        ends = list(map(tcp_path.read_end, run._nodes, run._far_ends))
        errors.append(sum(one.protocol["Tcp.InCsumErrors"] for one in ends))
        original(run)

    original = workload_run.WorkloadRun.close
    monkeypatch.setattr(tcp_path, "set_offloads", set_all)
    monkeypatch.setattr(workload_run, "GRACE_S", 3.0)
    monkeypatch.setattr(workload_run.WorkloadRun, "close", close)
    record = measured("ovs-netdev", **STREAM)
    assert record.status == "failed" and "iperf3" in record.message
    assert errors and errors[0] > 0, "segments with wrong checksums arrived"


@pytest.mark.parametrize("workload", ["tcp-rr", "tcp-crr", "http"])
def test_the_engine_answers_each_request_that_was_due(workload: str) -> None:
    """At a low rate all requests are answered, and delays count from the time when each was due."""
    if workload == "http" and not (found := nginx.availability()).available:
        pytest.skip(f"nginx: {found.reason}; {found.remedy}")
    record = measured(
        "linux-bridge", workload=workload, dimension="latency", rate="100", duration="2s",
        connections="4", response_size="3000",
    )  # fmt: skip
    assert record.status == "finished", record.message
    assert record.trial.generator == "switchmark" and record.instrument is None
    assert record.latency is not None and record.transport is not None
    assert record.latency.count + record.latency.lost == 200
    assert record.latency.intended_histogram is not None
    assert record.latency.intended_percentiles_ns is not None
    assert record.latency.intended_percentiles_ns["50"] >= record.latency.min_ns
    path = record.transport
    assert path.requests_answered == record.latency.count
    assert path.payload_back >= 3000 * record.latency.count


def test_the_engine_counts_the_payload_of_a_stream() -> None:
    record = measured("direct", workload="tcp-stream", rate="40Mbps", streams="2", duration="2s")
    assert record.status == "finished", record.message
    assert record.transfer is not None and record.transport is not None
    assert record.transfer.intended_per_s == 40_000_000
    assert 0 < record.transport.payload_forth <= record.transport.bytes_forth
    assert record.transport.server_cpu is not None and record.transport.server_cpu.seconds > 0


@pytest.mark.parametrize("generator", ["switchmark", "iperf3"])
def test_datagrams_are_counted_in_bits_of_payload(generator: str) -> None:
    """The payload that the server read came to its device."""
    if generator != "switchmark":
        have(generator)
    record = measured(
        "linux-bridge", workload="udp-stream", generator=generator, rate="5Mbps",
        datagram_size="1000", duration="2s",
    )  # fmt: skip
    assert record.status == "finished", record.message
    assert record.transfer is not None and record.transport is not None
    path = record.transport
    assert path.protocol == "udp" and path.payload_forth % 1000 == 0
    assert 0 < path.payload_forth <= path.bytes_forth
    assert record.transfer.unit == "bit/s" and record.transfer.goodput_bps
    assert path.bytes_per_packet_forth is not None and path.bytes_per_packet_forth < LARGEST_PACKET
    assert set(path.checksum_errors.values()) == {0}


def test_udp_requests_are_answered_or_lost() -> None:
    record = measured(
        "linux-bridge", workload="udp-rr", dimension="latency", rate="100", duration="2s",
        request_size="200",
    )  # fmt: skip
    assert record.status == "finished", record.message
    assert record.latency is not None and record.transport is not None
    path = record.transport
    assert path.requests_answered == record.latency.count > 0
    assert path.requests_sent == record.latency.count + record.latency.lost
    assert path.payload_back == 200 * record.latency.count
    assert record.latency.intended_histogram is not None


@pytest.mark.parametrize("generator", ["redis-benchmark", "memtier"])
def test_redis_answers_with_the_value(generator: str) -> None:
    have(generator)
    record = measured(
        "linux-bridge", workload="redis", generator=generator, duration="4s", connections="4",
        response_size="1000",
    )  # fmt: skip
    assert record.status == "finished", record.message
    assert record.transfer is not None and record.transport is not None
    assert record.transfer.transactions_per_s == record.transfer.completed_per_s > 0
    path = record.transport
    assert path.requests_answered
    assert path.bytes_back > path.payload_back == 1000 * path.requests_answered
    assert record.instrument is not None and record.instrument.agrees
    assert set(path.congestion_control) == {"tx0", "rx0"}


STALL_S, RATE = 0.4, 1000
LATE_NS = 50_000_000


@pytest.mark.parametrize(
    ("workload", "generator", "stall_after_s", "duration"),
    [
        ("tcp-rr", "switchmark", 1.0, "3s"),
        ("http", "switchmark", 1.0, "3s"),
        ("tcp-rr", "sockperf", 4.0, "6s"),
        ("dns", "dnsperf", 1.0, "3s"),
        ("udp-rr", "switchmark", 1.0, "3s"),
        ("udp-rr", "sockperf", 4.0, "6s"),
        pytest.param("http", "wrk2", 11.5, "14s", marks=pytest.mark.slow),
    ],
)
def test_a_stall_of_the_server_is_in_the_delays(
    workload: str,
    generator: str,
    stall_after_s: float,
    duration: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server stops for 400 ms while 1000 requests/s are due: about 350 of them are later than
    50 ms. A tool that waits for the answer before it sends again would report a few."""
    if workload == "http" and not (found := nginx.availability()).available:
        pytest.skip(f"nginx: {found.reason}; {found.remedy}")
    if generator != "switchmark":
        have(generator)
    stalls: list[float] = []

    def look(run: workload_run.WorkloadRun) -> None:
        original(run)
        due = run.begun_ns and time.monotonic_ns() - run.begun_ns > stall_after_s * 1e9
        if due and not stalls:
            stalls.append(STALL_S)
            for signal_number, pause_s in ((signal.SIGSTOP, STALL_S), (signal.SIGCONT, 0)):
                for pid in run._launched.server_ids():
                    os.kill(pid, signal_number)
                time.sleep(pause_s)

    original = workload_run.WorkloadRun._look
    monkeypatch.setattr(workload_run.WorkloadRun, "_look", look)
    record = measured(
        "direct", workload=workload, generator=generator, dimension="latency",
        rate=str(RATE), duration=duration,
    )  # fmt: skip
    assert record.status == "finished", record.message
    assert stalls and record.latency is not None
    delays = record.latency.intended_histogram or record.latency.histogram
    late_share = 0.5 * STALL_S * RATE / delays.count
    (value,) = delays.percentiles_ns([f"{100 * (1 - late_share):.4g}"]).values()
    assert value > LATE_NS


@pytest.mark.parametrize(
    ("settings", "tools"),
    [
        ({"workload": "tcp-rr", "rate": "300"}, ()),
        ({"workload": "tcp-rr", "rate": "300", "dimension": "latency"}, ()),
        ({"workload": "udp-stream", "rate": "2Mbps"}, ()),
        ({"workload": "http", "rate": "200"}, ("h2load",)),
        ({"workload": "tcp-stream", "generator": "iperf3"}, ("iperf3",)),
    ],
)
def test_pairs_run_at_the_same_time(settings: dict[str, str], tools: tuple[str, ...]) -> None:
    have(*tools)
    more = {name: value for name, value in STREAM.items() if name not in ("workload", "generator")}
    record = measured("linux-bridge", **more | settings, pairs="3")
    assert record.status == "finished", record.message
    runs = [(one.role, one.node) for one in record.engines]
    assert len(set(runs)) == 6 and {role for role, _ in runs} == {"client", "server"}
    path = record.transport
    assert path is not None and len(path.offloads) == 12, "both ends and ports of each pair"
    if "dimension" in settings:
        assert record.latency is not None and record.latency.count == path.requests_answered
        return
    transfer = record.transfer
    assert transfer is not None and [one.pair for one in transfer.pairs] == [0, 1, 2]
    assert all(one.completed_per_s > 0 for one in transfer.pairs)
    total = sum(one.completed_per_s for one in transfer.pairs)
    assert transfer.completed_per_s == pytest.approx(total)
    begun = [one.began_after_ns for one in transfer.pairs]
    assert begun == sorted(begun) and begun[0] == 0
    if "rate" in settings:
        assert transfer.intended_per_s == 3 * record.trial.rate_pps
