"""The unchanged snappi client drives the server's ports with real frames over a veth pair."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import snappi

from switchmark.engine.binary import find_engine
from tests.integration.otg_server import (
    A_MAC,
    B_MAC,
    ROOT,
    TOKEN,
    add_flow,
    capture,
    config_of,
    guard,
    inside,
    ip,
    mac,
    metrics,
    packets,
    serve,
    transmit,
    until_stopped,
)
from tests.integration.test_engine_schedule import fields
from tests.integration.waiting import until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from serve(tmp_path_factory.mktemp("otg"))


@pytest.fixture
def api(server: Any) -> Iterator[Any]:
    """A client in the server's namespace."""
    with inside(server):
        yield snappi.api(location=server.location)


def test_packet_count_by_value_values_and_steps(api: Any, server: Any) -> None:
    """Like the UDP tests of the conformance suite: counts are exact, every header is as
    requested."""
    if shutil.which("tcpdump") is None:
        pytest.skip("no program `tcpdump` (apt install tcpdump)")
    config = config_of(api, server, capture=True)
    flow = add_flow(config)
    flow.duration.fixed_packets.packets = 60
    flow.rate.pps = 600
    udp = flow.packet[-1]
    udp.src_port.values = [5010, 5015, 5020]
    udp.dst_port.decrement.start, udp.dst_port.decrement.step = 6010, 5
    udp.dst_port.decrement.count = 4
    api.set_config(config)
    assert api.get_config().serialize() == config.serialize()
    capture(api, "start")
    transmit(api)
    found = until_stopped(api)["f1"]
    capture(api, "stop")
    assert (found.frames_tx, found.frames_rx, found.loss) == (60, 60, 0)
    request = api.capture_request()
    request.port_name = "p2"
    data = api.get_capture(request)
    frames = [one for one in packets(data) if one[6:12] == mac(A_MAC)]
    assert len(frames) == 60
    assert {len(one) for one in frames} == {128}, "with FCS"
    assert {one[:6] for one in frames} == {mac(B_MAC)}
    ports = [struct.unpack("!HH", one[34:38]) for one in frames]
    assert ports == [([5010, 5015, 5020][n % 3], 6010 - 5 * (n % 4)) for n in range(60)]
    assert {one[12:14] + one[26:34] for one in frames} == {
        b"\x08\x00" + bytes([10, 1, 1, 1, 10, 1, 1, 2])
    }
    check_with_tcpdump(data, "10.1.1.1", 60)


def check_with_tcpdump(data: Any, source: Any, count: Any) -> None:
    """Check that tcpdump reads `count` datagrams from this address in order, with correct
    checksums."""
    command = ["tcpdump", "-r", "-", "-n", "-vv", "-tt", f"udp and src host {source}"]
    data.seek(0)
    output = subprocess.run(
        command, input=data.read(), capture_output=True, check=True
    ).stdout.decode()
    times = [float(line.split()[0]) for line in output.splitlines() if not line.startswith(" ")]
    assert len(times) == count and times == sorted(times)
    assert output.count("[udp sum ok]") == count, output
    assert "bad cksum" not in output


@pytest.mark.skipif(
    shutil.which("tshark") is None or shutil.which("tcpdump") is None,
    reason="tshark or tcpdump is not installed",
)
def test_tagged_capture_agrees_with_flow_and_port(api: Any, server: Any, tmp_path: Path) -> None:
    """tshark reads it, which shares no decoder with tcpdump, which wrote it."""
    config = config_of(api, server, capture=True)
    flow = add_flow(config, vlan=100)
    flow.size.increment.start, flow.size.increment.end, flow.size.increment.step = 100, 200, 50
    flow.duration.fixed_packets.packets = 60
    flow.rate.pps = 600
    api.set_config(config)
    capture(api, "start")
    transmit(api)
    found = until_stopped(api)["f1"]
    capture(api, "stop")
    port_request = api.metrics_request()
    port_request.port.port_names = ["p2"]
    (port,) = api.get_metrics(port_request).port_metrics
    request = api.capture_request()
    request.port_name = "p2"
    file = tmp_path / "p2.pcap"
    file.write_bytes(api.get_capture(request).read())
    columns = ("eth.src", "eth.dst", "vlan.id", "ip.src", "ip.dst", "frame.len", "frame.time_epoch")
    rows = fields(file, *columns, options=["-Y", f"eth.src == {A_MAC}"])
    assert len(rows) == found.frames_tx == found.frames_rx == port.frames_rx == 60
    assert {tuple(one[:5]) for one in rows} == {(A_MAC, B_MAC, "100", "10.1.1.1", "10.1.1.2")}
    assert Counter(one[5] for one in rows) == {"100": 20, "150": 20, "200": 20}
    times = [Decimal(one[6]) for one in rows]
    assert times == sorted(times)


def test_payload_of_the_client(api: Any, server: Any) -> None:
    """As in the first example of the API: the sender counts it, and it contains no stamp."""
    if shutil.which("tcpdump") is None:
        pytest.skip("no program `tcpdump` (apt install tcpdump)")
    config = config_of(api, server, capture=True)
    flow = add_flow(config)
    flow.tx_rx.port.rx_names = []
    flow.packet.custom()[-1].bytes = b"..QUICKSTART..".hex()
    flow.duration.fixed_packets.packets, flow.rate.pps = 20, 400
    api.set_config(config)
    capture(api, "start")
    transmit(api)
    found = until_stopped(api)["f1"]
    capture(api, "stop")
    assert (found.frames_tx, found.frames_rx) == (20, 0)
    request = api.capture_request()
    request.port_name = "p2"
    data = api.get_capture(request)
    frames = [one for one in packets(data) if one[6:12] == mac(A_MAC)]
    assert {one[42:-4] for one in frames} == {b"..QUICKSTART..".ljust(82, b"\0")}
    check_with_tcpdump(data, "10.1.1.1", 20)


def test_flows_in_both_directions_with_tags_ipv6_and_delays(api: Any, server: Any) -> None:
    config = config_of(api, server)
    tagged = add_flow(config, "tagged", vlan=100)
    for size, weight in ((68, 7), (570, 4), (1518, 1)):
        tagged.size.weight_pairs.custom.custom(size=size, weight=weight)
    six = add_flow(config, "six", six=True, turned=True)
    six.size.increment.start, six.size.increment.end, six.size.increment.step = 100, 200, 50
    many = add_flow(config, "many")
    many.packet[1].src.increment.start = "10.2.0.1"
    many.packet[1].src.increment.step = "0.0.0.1"
    many.packet[1].src.increment.count = 50
    many.size.random.min, many.size.random.max = 64, 512
    for flow in (tagged, six, many):
        flow.rate.pps = 2000
        flow.duration.fixed_seconds.seconds = 0.5
        flow.metrics.latency.enable = True
    api.set_config(config)
    transmit(api)
    found = until_stopped(api)
    assert set(found) == {"tagged", "six", "many"}
    for result in found.values():
        assert 0 < result.frames_tx <= 1000
        assert result.frames_rx == result.frames_tx
        assert result.loss == 0
        assert (
            0 < result.latency.minimum_ns <= result.latency.average_ns <= result.latency.maximum_ns
        )
    request = api.metrics_request()
    request.port.port_names = []
    ports = {result.name: result for result in api.get_metrics(request).port_metrics}
    assert ports["p1"].frames_tx == found["tagged"].frames_tx + found["many"].frames_tx
    assert ports["p1"].frames_rx == found["six"].frames_rx
    assert (ports["p2"].link, ports["p2"].transmit) == ("up", "stopped")
    mean = found["six"].bytes_tx / found["six"].frames_tx
    assert mean == pytest.approx(150, abs=1)


def test_continuous_traffic_is_counted_and_stopped(api: Any, server: Any) -> None:
    config = config_of(api, server)
    add_flow(config).rate.pps = 5000
    idle = add_flow(config, "idle")
    idle.rate.percentage = 1  # a share of the device's speed
    api.set_config(config)
    transmit(api, names=["f1"])
    until(lambda: metrics(api)["f1"].frames_rx > 500, "frames", 60)
    until(lambda: metrics(api)["f1"].frames_rx_rate > 0, "their rate", 60)
    now = metrics(api)
    assert now["f1"].transmit == "started"
    assert now["idle"].frames_tx == 0
    transmit(api, "stop")
    found = until_stopped(api)
    assert found["f1"].frames_rx == found["f1"].frames_tx > 500
    results = json.load(urllib.request.urlopen(server.location + "/switchmark/results"))
    delays = results["f1"]["receiver"]["result"]["loss"]
    assert delays["received_unique"] == found["f1"].frames_rx
    assert results["f1"]["sender"]["intervals"]


def test_bursts_are_sent_as_bursts(api: Any, server: Any) -> None:
    config = config_of(api, server)
    flow = add_flow(config)
    flow.rate.pps = 100_000
    flow.duration.burst.bursts, flow.duration.burst.packets = 5, 4
    flow.duration.burst.inter_burst_gap.microseconds = 50_000
    api.set_config(config)
    transmit(api)
    found = until_stopped(api)["f1"]
    assert (found.frames_tx, found.frames_rx) == (20, 20)


def test_running_flow_never_received_more_than_sent(api: Any, server: Any) -> None:
    config = config_of(api, server)
    for name, turned in (("f1", False), ("f2", True)):
        flow = add_flow(config, name, turned=turned)
        flow.rate.pps = 20_000
        flow.duration.fixed_seconds.seconds = 1
    api.set_config(config)
    transmit(api)
    answers = []

    def stopped() -> Any:
        answers.append(metrics(api))
        return all(answer_of_flow.transmit == "stopped" for answer_of_flow in answers[-1].values())

    until(stopped, "the end of all flows", 60)
    for answer_of_flow in (
        answer_of_flow for answer in answers for answer_of_flow in answer.values()
    ):
        assert answer_of_flow.frames_rx <= answer_of_flow.frames_tx
        assert (answer_of_flow.bytes_tx, answer_of_flow.bytes_rx) == (
            128 * answer_of_flow.frames_tx,
            128 * answer_of_flow.frames_rx,
        )
    assert len({answer_of_flow["f1"].frames_rx for answer_of_flow in answers}) > 2, (
        "read while it ran"
    )


def test_receiver_goes_on_without_loss_after_a_link_fault(api: Any, server: Any) -> None:
    config = config_of(api, server)
    add_flow(config).rate.pps = 1000
    api.set_config(config)
    transmit(api)
    until(lambda: metrics(api)["f1"].frames_rx > 100, "frames", 60)
    for state in ("down", "up"):
        ip("-n", server.netns, "link", "set", server.b, state)

    def results() -> Any:
        return json.load(urllib.request.urlopen(server.location + "/switchmark/results"))["f1"]

    until(lambda: "receiver: " in (results()["fault"] or ""), "the fault of the receiver", 60)
    before = metrics(api)["f1"].frames_rx
    until(lambda: metrics(api)["f1"].frames_rx > before + 100, "frames after the fault", 60)
    request = api.control_state()
    request.traffic.flow_transmit.state = "stop"
    warnings = api.set_control_state(request).warnings
    assert any(one.startswith("flow f1: receiver: ") for one in warnings)
    found = metrics(api)["f1"]
    assert found.transmit == "stopped" and found.loss is None


def test_replayed_capture_gives_the_same_frames(api: Any, server: Any, tmp_path: Path) -> None:
    if shutil.which("tcpdump") is None:
        pytest.skip("no program `tcpdump` (apt install tcpdump)")
    config = config_of(api, server, capture=True)
    flow = add_flow(config)
    flow.size.increment.start, flow.size.increment.end, flow.size.increment.step = 64, 1518, 727
    flow.duration.fixed_packets.packets, flow.rate.pps = 30, 600
    api.set_config(config)
    capture(api, "start")
    transmit(api)
    until_stopped(api)
    capture(api, "stop")
    request = api.capture_request()
    request.port_name = "p2"
    file = tmp_path / "p2.pcap"
    data = api.get_capture(request)
    file.write_bytes(data.read())
    data.seek(0)
    original = [one[:-4] for one in packets(data)]
    copy = tmp_path / "sent.pcap"
    arguments = ["sender", "--port", f"pcap:write={copy}", "--replay", str(file), "--start", "now"]
    ended = subprocess.run(
        [find_engine(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    with copy.open("rb") as sent:
        assert list(packets(sent)) == original
    assert {len(one) for one in original} >= {60, 787, 1514}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c, f: f.packet.tcp(), "flows[0].packet[3].tcp: is not supported"),
        (
            lambda c, f: setattr(f.packet[1].fragment_offset, "value", 3),
            "flows[0].packet[1].ipv4.fragment_offset: is not supported",
        ),
        (lambda c, f: setattr(f.size, "fixed", 40), "flows[0].size.fixed: is 40"),
        (lambda c, f: c.devices.device(name="d"), "devices: is not supported"),
        (
            lambda c, f: setattr(f.tx_rx.port, "rx_names", ["p1", "p2"]),
            "flows[0].tx_rx.port.rx_names: one receiving port",
        ),
        (
            lambda c, f: setattr(f.duration.continuous, "gap", 50),
            "flows[0].duration.continuous.gap: only 12 is supported",
        ),
        (
            lambda c, f: setattr(c.ports[0], "location", "nix"),
            "ports[0].location: nix is not offered",
        ),
        (
            lambda c, f: (setattr(c.ports[0], "location", "x1"), add_flow(c, "f2")),
            "flows[1].tx_rx.port.tx_name: af_xdp gives port p1 to one flow",
        ),
    ],
)
def test_unsupported_field_is_refused_with_its_path(
    api: Any, server: Any, change: Any, message: Any
) -> None:
    config = config_of(api, server)
    change(config, add_flow(config))
    with pytest.raises(Exception, match=re.escape(message)):
        api.set_config(config)


def test_other_paths_and_states_are_refused(api: Any, server: Any) -> None:
    with pytest.raises(Exception, match="/config/append: is not supported"):
        api.append_config(api.config_append())
    request = api.control_state()
    request.protocol.all.state = "start"
    with pytest.raises(Exception, match="protocol: is not supported"):
        api.set_control_state(request)


def test_remote_access_uses_tls_and_a_token(tmp_path: Path) -> None:
    """Requests without a token are refused."""
    secured, _ = guard(tmp_path)
    for server in serve(tmp_path, *secured):
        port = server.location.rpartition(":")[2]

        def version(user: Any, port: Any = port) -> Any:
            client = snappi.api(location=f"https://{user}127.0.0.1:{port}", verify=False)
            return client.get_version().sdk_version

        with inside(server):
            assert version(f"otg:{TOKEN}@").startswith("1.")
            for stranger in ("otg:wrong@", ""):
                with pytest.raises(Exception, match="token is missing or wrong"):
                    version(stranger)
    refused = subprocess.run(
        [sys.executable, "-m", "switchmark.cli.main", "otg", "--port", "lo", "--listen",
         "0.0.0.0:0"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "give --certificate, --key and --token-file" in refused.stderr


def test_reader_of_packets_reads_all() -> None:
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    packet = struct.pack("<IIII", 0, 0, 3, 3) + b"abc"
    assert list(packets(io.BytesIO(head + packet + packet))) == [b"abc", b"abc"]
