"""The unchanged snappi client drives our ports: real frames between two ends of a veth pair."""

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


def test_a_set_number_of_packets_by_value_values_and_steps(api: Any, server: Any) -> None:
    """As the conformance suite's UDP tests: counts are exact, every header is what was asked."""
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
    seen = [one for one in packets(data) if one[6:12] == mac(A_MAC)]
    assert len(seen) == 60
    assert {len(one) for one in seen} == {128}, "with FCS"
    assert {one[:6] for one in seen} == {mac(B_MAC)}
    ports = [struct.unpack("!HH", one[34:38]) for one in seen]
    assert ports == [([5010, 5015, 5020][n % 3], 6010 - 5 * (n % 4)) for n in range(60)]
    assert {one[12:14] + one[26:34] for one in seen} == {
        b"\x08\x00" + bytes([10, 1, 1, 1, 10, 1, 1, 2])
    }
    read_by_others(data, "10.1.1.1", 60)


def read_by_others(data: Any, source: Any, count: Any) -> None:
    """What tcpdump reads in the file: so many datagrams of this address, checksums right, one after
    the other."""
    words = ["tcpdump", "-r", "-", "-n", "-vv", "-tt", f"udp and src host {source}"]
    data.seek(0)
    told = subprocess.run(words, input=data.read(), capture_output=True, check=True).stdout.decode()
    times = [float(line.split()[0]) for line in told.splitlines() if not line.startswith(" ")]
    assert len(times) == count and times == sorted(times)
    assert told.count("[udp sum ok]") == count, told
    assert "bad cksum" not in told


@pytest.mark.skipif(
    shutil.which("tshark") is None or shutil.which("tcpdump") is None,
    reason="tshark or tcpdump is not installed",
)
def test_a_tagged_capture_is_what_flow_and_port_counted(
    api: Any, server: Any, tmp_path: Path
) -> None:
    """Read by tshark, which shares no decoder with tcpdump, which wrote it."""
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
    asked = api.metrics_request()
    asked.port.port_names = ["p2"]
    (port,) = api.get_metrics(asked).port_metrics
    request = api.capture_request()
    request.port_name = "p2"
    file = tmp_path / "p2.pcap"
    file.write_bytes(api.get_capture(request).read())
    columns = ("eth.src", "eth.dst", "vlan.id", "ip.src", "ip.dst", "frame.len", "frame.time_epoch")
    told = fields(file, *columns, options=["-Y", f"eth.src == {A_MAC}"])
    assert len(told) == found.frames_tx == found.frames_rx == port.frames_rx == 60
    assert {tuple(one[:5]) for one in told} == {(A_MAC, B_MAC, "100", "10.1.1.1", "10.1.1.2")}
    assert Counter(one[5] for one in told) == {"100": 20, "150": 20, "200": 20}
    times = [Decimal(one[6]) for one in told]
    assert times == sorted(times)


def test_a_payload_of_the_client_s_own(api: Any, server: Any) -> None:
    """As in the API's own first example: counted by the sender, and nobody's stamp in it."""
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
    seen = [one for one in packets(data) if one[6:12] == mac(A_MAC)]
    assert {one[42:-4] for one in seen} == {b"..QUICKSTART..".ljust(82, b"\0")}
    read_by_others(data, "10.1.1.1", 20)


def test_flows_both_ways_with_tags_ipv6_sizes_and_delays(api: Any, server: Any) -> None:
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
    for one in found.values():
        assert 0 < one.frames_tx <= 1000
        assert one.frames_rx == one.frames_tx
        assert one.loss == 0
        assert 0 < one.latency.minimum_ns <= one.latency.average_ns <= one.latency.maximum_ns
    asked = api.metrics_request()
    asked.port.port_names = []
    ports = {one.name: one for one in api.get_metrics(asked).port_metrics}
    assert ports["p1"].frames_tx == found["tagged"].frames_tx + found["many"].frames_tx
    assert ports["p1"].frames_rx == found["six"].frames_rx
    assert (ports["p2"].link, ports["p2"].transmit) == ("up", "stopped")
    mean = found["six"].bytes_tx / found["six"].frames_tx
    assert mean == pytest.approx(150, abs=1)


def test_continuous_traffic_is_seen_and_stopped(api: Any, server: Any) -> None:
    config = config_of(api, server)
    add_flow(config).rate.pps = 5000
    idle = add_flow(config, "idle")
    idle.rate.percentage = 1  # of what the device says
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


def test_bursts_leave_as_bursts(api: Any, server: Any) -> None:
    config = config_of(api, server)
    flow = add_flow(config)
    flow.rate.pps = 100_000
    flow.duration.burst.bursts, flow.duration.burst.packets = 5, 4
    flow.duration.burst.inter_burst_gap.microseconds = 50_000
    api.set_config(config)
    transmit(api)
    found = until_stopped(api)["f1"]
    assert (found.frames_tx, found.frames_rx) == (20, 20)


def test_a_running_flow_never_has_more_received_than_sent(api: Any, server: Any) -> None:
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
        return all(one.transmit == "stopped" for one in answers[-1].values())

    until(stopped, "the end of all flows", 60)
    for one in (one for answer in answers for one in answer.values()):
        assert one.frames_rx <= one.frames_tx
        assert (one.bytes_tx, one.bytes_rx) == (128 * one.frames_tx, 128 * one.frames_rx)
    assert len({one["f1"].frames_rx for one in answers}) > 2, "read while it ran"


def test_a_receiver_whose_device_went_down_invents_no_loss(api: Any, server: Any) -> None:
    config = config_of(api, server)
    add_flow(config).rate.pps = 1000
    api.set_config(config)
    transmit(api)
    until(lambda: metrics(api)["f1"].frames_rx > 100, "frames", 60)
    for state in ("down", "up"):
        ip("-n", server.netns, "link", "set", server.b, state)

    def results() -> Any:
        return json.load(urllib.request.urlopen(server.location + "/switchmark/results"))["f1"]

    until(lambda: results()["fault"] is not None, "the fault", 60)
    assert "receiver: " in results()["fault"]
    assert metrics(api)["f1"].frames_rx_rate == 0
    asked = api.control_state()
    asked.traffic.flow_transmit.state = "stop"
    warnings = api.set_control_state(asked).warnings
    assert any(one.startswith("flow f1: receiver: ") for one in warnings)
    found = metrics(api)["f1"]
    assert found.transmit == "stopped" and found.loss is None


def test_a_capture_that_is_replayed_gives_the_same_frames(
    api: Any, server: Any, tmp_path: Path
) -> None:
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
    wanted = [one[:-4] for one in packets(data)]
    copy = tmp_path / "sent.pcap"
    words = ["sender", "--port", f"pcap:write={copy}", "--replay", str(file), "--start", "now"]
    ended = subprocess.run(
        [find_engine(), *words], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    with copy.open("rb") as sent:
        assert list(packets(sent)) == wanted
    assert {len(one) for one in wanted} >= {60, 787, 1514}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c, f: f.packet.tcp(), "flows[0].packet[3].tcp: is not supported"),
        (
            lambda c, f: setattr(f.packet[1].fragment_offset, "value", 3),
            "flows[0].packet[1].ipv4.fragment_offset: is not supported",
        ),
        (lambda c, f: setattr(f.size, "fixed", 40), "flows[0].size.fixed: 40 cannot be"),
        (lambda c, f: c.devices.device(name="d"), "devices: is not supported"),
        (
            lambda c, f: setattr(f.tx_rx.port, "rx_names", ["p1", "p2"]),
            "flows[0].tx_rx.port.rx_names: one receiving port",
        ),
        (
            lambda c, f: setattr(f.duration.continuous, "gap", 50),
            "flows[0].duration.continuous.gap: 12 is supported",
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
def test_what_is_not_supported_is_refused_by_its_path(
    api: Any, server: Any, change: Any, words: Any
) -> None:
    config = config_of(api, server)
    change(config, add_flow(config))
    with pytest.raises(Exception, match=re.escape(words)):
        api.set_config(config)


def test_other_paths_and_states_are_refused(api: Any, server: Any) -> None:
    with pytest.raises(Exception, match="/config/append: is not supported"):
        api.append_config(api.config_append())
    asked = api.control_state()
    asked.protocol.all.state = "start"
    with pytest.raises(Exception, match="protocol: is not supported"):
        api.set_control_state(asked)


def test_beyond_loopback_with_tls_and_a_token(tmp_path: Path) -> None:
    """And without a token nobody gets in."""
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


def test_packets_reader_reads_what_it_should() -> None:
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    one = struct.pack("<IIII", 0, 0, 3, 3) + b"abc"
    assert list(packets(io.BytesIO(head + one + one))) == [b"abc", b"abc"]
