"""The real engine over veth in network namespaces, against independent observers."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram

from tests.integration.engine_tools import (
    Node,
    PacketCounter,
    engine,
    needs_engine,
    port,
    renumbered,
    run_pair,
    veth_pair,
)
from tests.integration.machine import needs_root
from tests.integration.waiting import until

pytestmark = [*needs_engine, needs_root]

IO = ["raw", "raw-mmsg", "udp", "udp-mmsg", "raw-mmsg-block", "udp-block"]
SLEEP = ["--idle", "sleep"]


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Node, Node]]:
    with veth_pair("w") as nodes:
        yield nodes


@pytest.mark.alone
@pytest.mark.parametrize("io", IO)
@pytest.mark.parametrize("size", [64, 1518])
def test_counts_agree_with_an_independent_counter(
    wire: tuple[Node, Node], io: str, size: int
) -> None:
    args = [
        "--rate",
        "10k",
        "--burst",
        "4",
        "--frame-size",
        str(size),
        "--stream",
        "77",
        "--touch",
        "--catch-up-us",
        "1M",
    ]
    with PacketCounter(wire[1], stream=77) as counter:
        sent, received = run_pair(wire, io, args)
        counted = counter.done()
    offered = sent["totals"]["tx_offered"]
    assert offered + sent["totals"]["tx_dropped"] == sent["totals"]["tx_intended"] == 5000
    # Skipped frames were skipped because the sender had no core for a second.
    assert offered == 5000 or sent["pacing"]["longest_stall_ns"] > 1_000_000_000
    assert counted.frames == offered
    assert counted.sizes == {size: offered}
    assert counted.sequences == dict.fromkeys(range(offered), 1)
    assert received["totals"]["rx_frames"] == offered
    assert received["totals"]["rx_bytes"] == offered * size == sent["totals"]["tx_bytes"]
    assert received["totals"]["rx_corrupt"] == 0
    assert received["totals"]["rx_socket_drops"] == 0
    loss = received["loss"]
    assert (loss["lost"], loss["duplicates"], loss["reordered"]) == (0, 0, 0)
    assert (loss["first_sequence"], loss["last_sequence"]) == (0, offered - 1)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
@pytest.mark.parametrize("touch", [[], ["--touch"]])
@pytest.mark.parametrize("size", [64, 65, 512, 1518])
def test_tshark_decodes_what_was_sent(
    wire: tuple[Node, Node], tmp_path: Path, size: int, touch: list[str]
) -> None:
    a, b = wire
    capture = tmp_path / "frames.pcap"
    fields = [
        "eth.src",
        "eth.dst",
        "ip.src",
        "ip.dst",
        "udp.srcport",
        "udp.dstport",
        "ip.checksum.status",
        "udp.checksum.status",
        "frame.len",
        "ip.ttl",
    ]
    tcpdump = subprocess.Popen(
        [
            "ip",
            "netns",
            "exec",
            b.namespace,
            "tcpdump",
            "-i",
            b.device,
            "-w",
            str(capture),
            "-U",
            "-c",
            "20",
            "udp and dst port 13994",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert tcpdump.stderr is not None
        while "listening" not in (line := tcpdump.stderr.readline()):
            assert line, "tcpdump ended"
        with engine(
            "sender",
            "--port",
            port("raw-mmsg", a),
            "--rate",
            "100",
            "--burst",
            "1",
            "--frame-size",
            str(size),
            "--src-port",
            "4001",
            "--dst-port",
            "13994",
            "--duration",
            "0.2",
            "--catch-up-us",
            "1M",
            *SLEEP,
            *touch,
            node=a,
        ) as sender:
            sender.tell("start")
            sent, _ = sender.finish("wait")
        assert sent["totals"]["tx_offered"] == 20
        tcpdump.wait(timeout=30)
    finally:
        tcpdump.kill()
        tcpdump.wait()
        assert tcpdump.stderr is not None
        tcpdump.stderr.close()
    decoded = subprocess.run(
        [
            "tshark",
            "-r",
            str(capture),
            "-o",
            "ip.check_checksum:TRUE",
            "-o",
            "udp.check_checksum:TRUE",
            "-T",
            "fields",
            *(w for f in fields for w in ("-e", f)),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout.splitlines()
    expected = "\t".join(
        [a.mac, b.mac, a.address, b.address, "4001", "13994", "1", "1", str(size - 4), "64"]
    )
    assert decoded == [expected] * 20


def capture_one(wire: tuple[Node, Node], *args: str) -> bytes:
    a, b = wire
    with (
        PacketCounter(b, stream=5) as counter,
        engine(
            "sender",
            "--port",
            port("raw", a),
            "--rate",
            "100",
            "--burst",
            "1",
            "--stream",
            "5",
            "--duration",
            "0.02",
            "--catch-up-us",
            "1M",
            *SLEEP,
            *args,
            node=a,
        ) as sender,
    ):
        sender.tell("start")
        sent, _ = sender.finish("wait")
        until(lambda: counter.seen.frames == sent["totals"]["tx_offered"] > 0, "all sent frames")
        return counter.done().first


@pytest.mark.parametrize("io", ["raw", "raw-mmsg"])
def test_injected_faults_are_counted_exactly(wire: tuple[Node, Node], io: str) -> None:
    a, b = wire
    frame = capture_one(wire)
    order = list(range(2000))
    for lost in (10, 11, 500, 1500):
        order.remove(lost)
    order.insert(100, 42)  # a duplicate
    order.insert(1200, 1100)  # another duplicate
    late = order.pop(300)
    order.insert(310, late)  # overtaken by ten frames
    with engine("receiver", "--port", port(io, b), "--stream", "5", *SLEEP, node=b) as receiver:
        receiver.tell("start")
        receiver.wait("started")
        with a.packet_socket() as injector:
            for sequence in order:
                injector.send(renumbered(frame, sequence))
            corrupt = bytearray(renumbered(frame, 3000))
            corrupt[50] ^= 0x10
            for _ in range(7):
                injector.send(bytes(corrupt))
            for _ in range(3):
                injector.send(renumbered(frame, 1, stream=6))
            for _ in range(2):
                injector.send(frame[:12] + b"\x88\xb5" + bytes(46))
        result, code = receiver.finish("stop")
    assert code == 0
    loss, totals = result["loss"], result["totals"]
    assert totals["rx_frames"] == len(order)
    assert loss["received_unique"] == 1996
    assert loss["expected"] == 2000
    assert loss["lost"] == 4
    assert loss["duplicates"] == 2
    assert loss["reordered"] == 1
    assert loss["max_reorder_extent"] == 10
    assert (loss["first_sequence"], loss["last_sequence"]) == (0, 1999)
    assert totals["rx_corrupt"] == 7
    assert totals["rx_foreign"] == 3
    assert totals["rx_other"] == 2


def test_corruption_of_a_touched_payload_is_detected(wire: tuple[Node, Node]) -> None:
    a, b = wire
    frame = bytearray(capture_one(wire, "--touch", "--frame-size", "512"))
    with engine(
        "receiver", "--port", port("raw", b), "--stream", "5", "--touch", *SLEEP, node=b
    ) as receiver:
        receiver.tell("start")
        receiver.wait("started")
        with a.packet_socket() as injector:
            injector.send(bytes(frame))
            for offset in range(60, 508, 7):
                frame[offset] ^= 1
                injector.send(bytes(frame))
                frame[offset] ^= 1
            frame[100:102], frame[200:202] = frame[200:202], frame[100:102]
            injector.send(bytes(frame))  # only the digest detects this, not the UDP checksum
        result, _ = receiver.finish("stop")
    assert result["totals"]["rx_frames"] == 1
    assert result["totals"]["rx_corrupt"] == 64 + 1


# The largest buffer holds 128 MiB; the kernel takes at least 512 B of it for each frame.
MORE_THAN_A_BUFFER = 300_000


@pytest.mark.alone
@pytest.mark.parametrize("io", ["raw-mmsg", "udp-mmsg"])
def test_drops_of_its_socket_are_reported(wire: tuple[Node, Node], io: str) -> None:
    a, b = wire
    with (
        engine("receiver", "--port", port(io, b), "--interval", "0.2", *SLEEP, node=b) as receiver,
        engine("sender", "--port", port(io, a), "--idle", "yield", node=a) as sender,
    ):
        receiver.tell("start")
        receiver.wait("started")
        receiver.process.send_signal(signal.SIGSTOP)
        sender.tell("start")
        sender.wait_sent(MORE_THAN_A_BUFFER)  # a busy machine may take long
        result, _ = sender.finish("stop")
        sent = result["totals"]["tx_offered"]
        receiver.process.send_signal(signal.SIGCONT)
        silent = 0
        while silent < 2:  # until its socket is empty
            count = len(receiver.all("interval")) + 1
            silent = silent + 1 if receiver.wait("interval", count)["rx_frames"] == 0 else 0
        received, _ = receiver.finish("stop")
    assert received["drained"] is True
    totals = received["totals"]
    assert totals["rx_frames"] + totals["rx_socket_drops"] == sent
    assert totals["rx_socket_drops"] > 0


@pytest.mark.alone
@pytest.mark.parametrize("io", IO)
def test_round_trips_are_plausible(wire: tuple[Node, Node], io: str) -> None:
    a, b = wire
    with (
        engine("server", "--port", port(io, b), *SLEEP, "--touch", node=b) as server,
        engine(
            "client",
            "--port",
            port(io, a),
            *SLEEP,
            "--touch",
            "--rate",
            "2k",
            "--burst",
            "1",
            "--frame-size",
            "128",
            "--duration",
            "0.5",
            "--catch-up-us",
            "1M",
            *("--patience", "2s"),  # a server without a core is late but loses nothing
            node=a,
        ) as client,
    ):
        server.tell("start")
        server.wait("started")
        client.tell("start")
        result, code = client.finish("wait")
        assert code == 0
        echoed, code = server.finish("stop")
        assert code == 0
    offered = result["totals"]["tx_offered"]
    latency = result["latency"]
    assert offered == 1000
    assert result["loss"]["lost"] == 0
    assert result["loss"]["received_unique"] == offered == latency["count"]
    assert echoed["totals"]["rx_frames"] == echoed["totals"]["tx_offered"] == offered
    assert result["totals"]["rx_corrupt"] == echoed["totals"]["rx_corrupt"] == 0
    assert latency["kind"] == "rtt"
    assert 1_000 < latency["min_ns"] <= latency["percentiles"]["50"] < 20_000_000
    actual = HdrHistogram.decode(latency["from_actual"])
    intended = HdrHistogram.decode(latency["from_intended"])
    assert actual.get_total_count() == intended.get_total_count() == offered
    for name, value in latency["percentiles"].items():
        # The package rounds the rank to the nearest, the engine up: they differ by at most one
        # sample.
        lower = actual.get_value_at_percentile(float(name) - 100 / offered)
        upper = actual.get_value_at_percentile(min(100.0, float(name) + 100 / offered))
        assert lower * 0.999 <= value <= upper * 1.001
        assert latency["intended"]["percentiles"][name] >= value * 0.999
    assert latency["intended"]["mean_ns"] >= latency["mean_ns"]
