"""The real engine over veth in network namespaces, against independent witnesses."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram

from tests.integration.engine_tools import (
    Engine,
    Node,
    PacketCounter,
    engine,
    engine_path,
    port,
    renumbered,
    veth_pair,
)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(engine_path() is None, reason="switchmark-traffic is not built"),
]

IO = ["raw", "raw-mmsg", "udp", "udp-mmsg", "raw-mmsg-block", "udp-block"]
SLEEP = ["--idle", "sleep"]


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Node, Node]]:
    with veth_pair("w") as nodes:
        yield nodes


def run_pair(
    wire: tuple[Node, Node], io: str, args: list[str], duration: str = "0.5"
) -> tuple[dict, dict]:
    """One sender's and one receiver's result."""
    a, b = wire
    with (
        engine("receiver", "--port", port(io, b), *SLEEP, *args, node=b) as receiver,
        engine("sender", "--port", port(io, a), *SLEEP, *args, node=a) as sender,
    ):
        receiver.tell("start")
        receiver.wait("started")
        sender.tell(f"start duration={duration}")
        sent, code = sender.finish("wait")
        assert code == 0
        received, code = receiver.finish("stop")
        assert code == 0
    return sent, received


@pytest.mark.parametrize("io", IO)
@pytest.mark.parametrize("size", [64, 1518])
def test_counts_agree_with_an_independent_counter(
    wire: tuple[Node, Node], io: str, size: int
) -> None:
    args = ["--rate", "10k", "--burst", "4", "--frame-size", str(size), "--stream", "77", "--touch",
            "--catch-up-us", "1M"]  # fmt: skip
    with PacketCounter(wire[1], stream=77) as counter:
        sent, received = run_pair(wire, io, args)
        seen = counter.done()
    offered = sent["totals"]["tx_offered"]
    assert offered == sent["totals"]["tx_intended"] == 5000
    assert seen.frames == offered
    assert seen.sizes == {size: offered}
    assert seen.sequences == {i: 1 for i in range(offered)}
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
    fields = ["eth.src", "eth.dst", "ip.src", "ip.dst", "udp.srcport", "udp.dstport",
              "ip.checksum.status", "udp.checksum.status", "frame.len", "ip.ttl"]  # fmt: skip
    tcpdump = subprocess.Popen(
        ["ip", "netns", "exec", b.namespace, "tcpdump", "-i", b.device, "-w", str(capture),
         "-U", "-c", "20", "udp and dst port 13994"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert tcpdump.stderr is not None
        while "listening" not in tcpdump.stderr.readline():
            pass
        with engine("sender", "--port", port("raw-mmsg", a), "--rate", "100", "--burst", "1",
                    "--frame-size", str(size), "--src-port", "4001", "--dst-port", "13994",
                    "--duration", "0.2", "--catch-up-us", "1M", *SLEEP, *touch, node=a) as sender:  # fmt: skip
            sender.tell("start")
            sent, _ = sender.finish("wait")
        assert sent["totals"]["tx_offered"] == 20
        tcpdump.wait(timeout=10)
    finally:
        tcpdump.kill()
        tcpdump.wait()
        assert tcpdump.stderr is not None
        tcpdump.stderr.close()
    decoded = subprocess.run(
        ["tshark", "-r", str(capture), "-o", "ip.check_checksum:TRUE", "-o",
         "udp.check_checksum:TRUE", "-T", "fields", *(w for f in fields for w in ("-e", f))],
        check=True, capture_output=True, text=True, timeout=60,
    ).stdout.splitlines()  # fmt: skip
    wanted = "\t".join(
        [a.mac, b.mac, a.address, b.address, "4001", "13994", "1", "1", str(size - 4), "64"]
    )
    assert decoded == [wanted] * 20


def capture_one(wire: tuple[Node, Node], *args: str) -> bytes:
    a, b = wire
    with (
        PacketCounter(b, stream=5) as counter,
        engine("sender", "--port", port("raw", a), "--rate", "100", "--burst", "1", "--stream", "5",
               "--duration", "0.02", "--catch-up-us", "1M", *SLEEP, *args, node=a) as sender,
    ):  # fmt: skip
        sender.tell("start")
        sender.finish("wait")
        return counter.done().first


@pytest.mark.parametrize("io", ["raw", "raw-mmsg"])
def test_injected_faults_are_counted_exactly(wire: tuple[Node, Node], io: str) -> None:
    a, b = wire
    frame = capture_one(wire)
    order = list(range(2000))
    for lost in (10, 11, 500, 1500):
        order.remove(lost)
    order.insert(100, 42)  # a duplicate
    order.insert(1200, 1100)  # another
    late = order.pop(300)
    order.insert(310, late)  # overtaken by ten
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


def test_corruption_of_a_touched_payload_is_seen(wire: tuple[Node, Node]) -> None:
    a, b = wire
    frame = bytearray(capture_one(wire, "--touch", "--frame-size", "512"))
    with engine("receiver", "--port", port("raw", b), "--stream", "5", "--touch",
                *SLEEP, node=b) as receiver:  # fmt: skip
        receiver.tell("start")
        receiver.wait("started")
        with a.packet_socket() as injector:
            injector.send(bytes(frame))
            for offset in range(60, 508, 7):
                frame[offset] ^= 1
                injector.send(bytes(frame))
                frame[offset] ^= 1
            frame[100:102], frame[200:202] = frame[200:202], frame[100:102]
            injector.send(bytes(frame))  # the UDP checksum is blind to this, the digest is not
        result, _ = receiver.finish("stop")
    assert result["totals"]["rx_frames"] == 1
    assert result["totals"]["rx_corrupt"] == 64 + 1


@pytest.mark.parametrize("io", ["raw-mmsg", "udp-mmsg"])
def test_drops_of_the_own_socket_are_not_hidden(wire: tuple[Node, Node], io: str) -> None:
    a, b = wire
    with (
        engine("receiver", "--port", port(io, b), "--interval", "0.2", *SLEEP, node=b) as receiver,
        engine("sender", "--port", port(io, a), "--idle", "yield", node=a) as sender,
    ):
        receiver.tell("start")
        receiver.wait("started")
        receiver.process.send_signal(signal.SIGSTOP)
        sender.tell("start duration=2")  # fills any buffer that the receiver may have got
        result, _ = sender.finish("wait")
        sent = result["totals"]["tx_offered"]
        receiver.process.send_signal(signal.SIGCONT)
        silent = 0
        while silent < 2:  # it works off what its socket holds
            count = len(receiver.all("interval")) + 1
            silent = silent + 1 if receiver.wait("interval", count)["rx_frames"] == 0 else 0
        received, _ = receiver.finish("stop")
    assert received["drained"] is True
    totals = received["totals"]
    assert totals["rx_frames"] + totals["rx_socket_drops"] == sent
    assert totals["rx_socket_drops"] > 0


@pytest.mark.parametrize("io", IO)
def test_round_trips_are_plausible(wire: tuple[Node, Node], io: str) -> None:
    a, b = wire
    with (
        engine("server", "--port", port(io, b), *SLEEP, "--touch", node=b) as server,
        engine("client", "--port", port(io, a), *SLEEP, "--touch", "--rate", "2k", "--burst", "1",
               "--frame-size", "128", "--duration", "0.5", "--catch-up-us", "1M",
               node=a) as client,
    ):  # fmt: skip
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
        # The package rounds the rank to the nearest, the engine up: at most one sample apart.
        lower = actual.get_value_at_percentile(float(name) - 100 / offered)
        upper = actual.get_value_at_percentile(min(100.0, float(name) + 100 / offered))
        assert lower * 0.999 <= value <= upper * 1.001
        assert latency["intended"]["percentiles"][name] >= value * 0.999
    assert latency["intended"]["mean_ns"] >= latency["mean_ns"]


@pytest.mark.parametrize("role", ["sender", "receiver"])
@pytest.mark.parametrize("how", ["stop", "eof", "SIGTERM", "SIGINT"])
def test_every_ending_gives_a_result(wire: tuple[Node, Node], role: str, how: str) -> None:
    with engine(role, "--port", port("raw-mmsg", wire[0]), "--rate", "1k", "--interval", "0.1",
                *SLEEP, node=wire[0]) as running:  # fmt: skip
        running.tell("start")
        running.wait("interval", count=2)
        time.sleep(0.05)
        result, code = running.finish(how)
        intervals = running.all("interval")
    assert code == 0
    assert result["reason"] == {"SIGTERM": "signal", "SIGINT": "signal"}.get(how, how)
    assert running.events[-1]["event"] == "end of file"
    check_sums(intervals, result)
    if role == "sender":
        assert result["totals"]["tx_offered"] > 0


def check_sums(intervals: list[dict], result: dict) -> None:
    """The intervals, the last partial one among them, make up the totals."""
    assert [i["index"] for i in intervals] == list(range(len(intervals)))
    for name, total in result["totals"].items():
        if not name.startswith("cpu"):
            assert sum(i[name] for i in intervals) == total, name
    length = sum(i["duration_ns"] for i in intervals)
    assert length == pytest.approx(result["duration_ns"] + result["drain_ns"], abs=20_000_000)


@pytest.mark.parametrize("how", ["stop", "eof", "SIGTERM"])
def test_ending_while_idle_is_quiet(how: str) -> None:
    with engine("receiver", "--port", "null:") as running:
        if how == "eof":
            assert running.process.stdin is not None
            running.process.stdin.close()
        elif how == "stop":
            running.tell("stop")
        else:
            running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(timeout=5) == 0
        running.reader.join(timeout=5)
    assert [e["event"] for e in running.events] == ["ready", "end of file"]


def test_a_slow_reader_loses_nothing() -> None:
    """1,500 intervals while nobody reads: the pipe fills, lines merge, the sums stay right."""
    path = engine_path()
    assert path is not None
    process = subprocess.Popen(
        [path, "sender", "--port", "null:", "--rate", "100k", "--interval", "0.001",
         "--duration", "1.5", "--start", "now", *SLEEP],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(2.2)
    assert process.poll() is None  # it waits to be read
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    events = [json.loads(line) for line in output.splitlines()]
    result = events[-1]
    intervals = [e for e in events if e["event"] == "interval"]
    assert 100 < len(intervals)
    assert result["totals"]["tx_intended"] == pytest.approx(150_000, abs=64)
    check_sums(intervals, result)


def test_a_session_runs_many_trials(wire: tuple[Node, Node]) -> None:
    a, b = wire
    with (
        engine("receiver", "--port", port("raw-mmsg", b), "--session", *SLEEP, node=b) as receiver,
        engine("sender", "--port", port("raw-mmsg", a), "--session", *SLEEP, node=a) as sender,
    ):
        for n, command in enumerate(["probe 3", "probe-broadcast 2"], start=1):
            sender.tell(command)
            assert sender.wait("probe", count=n)["sent"] == int(command.split()[1])
        time.sleep(0.1)
        receiver.tell("counters")
        assert receiver.wait("counters")["rx_probe"] == 5
        for n, (size, rate) in enumerate([(64, 5000), (512, 2000), (1518, 1000)], start=1):
            receiver.tell("start")
            receiver.wait("started", count=n)
            sender.tell(f"start rate={rate} burst=1 frame-size={size} duration=0.2")
            sent = sender.wait("result", count=n)
            receiver.tell("stop")
            received = receiver.wait("result", count=n)
            assert sent["config"]["frame_size_bytes"] == size
            assert sent["config"]["rate_pps"] == rate
            assert received["totals"]["rx_frames"] == sent["totals"]["tx_offered"] > 0
            assert received["totals"]["rx_bytes"] == received["totals"]["rx_frames"] * size
            assert received["loss"]["first_sequence"] == 0
            assert received["loss"]["lost"] == 0
        receiver.tell("counters")
        total = sum(r["totals"]["rx_frames"] for r in receiver.all("result"))
        assert receiver.wait("counters", count=2)["rx_stream"] == total
        for running in (sender, receiver):
            running.tell("stop")
            assert running.process.wait(timeout=5) == 0


def test_probes_to_others_are_seen_as_flooding(wire: tuple[Node, Node]) -> None:
    a, b = wire
    stranger = Node(a.namespace, a.device, a.mac, a.address)
    stranger.peer = Node("", "", "02:00:00:00:00:99", b.address)
    with (
        engine("receiver", "--port", port("raw", b), *SLEEP, node=b) as receiver,
        engine("sender", "--port", port("raw", a), *SLEEP, node=stranger) as sender,
    ):
        sender.tell("probe 4")
        sender.wait("probe")
        time.sleep(0.1)
        receiver.tell("counters")
        counters = receiver.wait("counters")
    assert (counters["rx_probe"], counters["rx_foreign"]) == (0, 4)


def test_start_at_a_given_time() -> None:
    with engine("sender", "--port", "null:", "--rate", "1k", "--burst", "1", *SLEEP) as sender:
        at = time.monotonic_ns() + 300_000_000
        sender.tell(f"start duration=0.1 at={at}")
        assert sender.wait("started")["t_ns"] == at
        result, _ = sender.finish("wait")
        assert time.monotonic_ns() >= at + 100_000_000
    assert result["totals"]["tx_intended"] == 100


@pytest.mark.parametrize("cores", [[], ["--core", "0"], ["--core", "0,1"]])
@pytest.mark.parametrize("direction", [[], ["--bidirectional"]])
def test_tester_owns_both_ends(cores: list[str], direction: list[str]) -> None:
    if len(os.sched_getaffinity(0)) < 2 and cores:
        pytest.skip("this machine has one core")
    with veth_pair("t") as (a, b):
        moved = f"{b.device}x"[:15]  # both ends in one namespace: a process has only one
        ip_move = ["ip", "-n", b.namespace, "link", "set", b.device, "name", moved, "netns",
                   a.namespace]  # fmt: skip
        subprocess.run(["ip", "-n", b.namespace, "link", "set", b.device, "down"], check=True)
        subprocess.run(ip_move, check=True)
        subprocess.run(["ip", "-n", a.namespace, "link", "set", moved, "up"], check=True)
        b.device = moved
        with engine("tester", "--port", port("raw-mmsg", a), "--port", port("raw-mmsg", b),
                    "--rate", "5k", "--burst", "2", "--duration", "0.4", "--idle", "yield", "--touch",
                    "--frame-size", "100", *cores, *direction, node=a) as tester:  # fmt: skip
            tester.tell("start")
            result, code = tester.finish("wait")
    assert code == 0
    assert len(result["directions"]) == (2 if direction else 1)
    for one in result["directions"]:
        offered = one["totals"]["tx_offered"]
        assert offered > 200
        assert one["totals"]["rx_frames"] == offered
        assert one["loss"]["lost"] == 0
        assert one["loss"]["received_unique"] == offered
        assert one["latency"]["kind"] == "one_way"
        assert one["latency"]["count"] == offered
        assert 100 < one["latency"]["percentiles"]["50"] < 100_000_000
    sums = result["totals"]
    assert sums["tx_offered"] == sum(d["totals"]["tx_offered"] for d in result["directions"])
    assert sums["rx_frames"] == sums["tx_offered"]


@pytest.mark.parametrize("io", ["raw", "raw-mmsg"])
def test_forwarder_joins_two_wires(io: str) -> None:
    with veth_pair("f") as (a, fa), veth_pair("g") as (b, fb):
        for node in (fb,):  # the forwarder's second port, into its namespace
            subprocess.run(["ip", "-n", node.namespace, "link", "set", node.device, "down"],
                           check=True)  # fmt: skip
            subprocess.run(["ip", "-n", node.namespace, "link", "set", node.device, "netns",
                            fa.namespace], check=True)  # fmt: skip
            subprocess.run(["ip", "-n", fa.namespace, "link", "set", node.device, "up"], check=True)
        a.peer, b.peer = b, a
        b.address = "198.18.0.9"
        forwarder = Engine("forwarder", ["--port", port(io, fa), "--port", port(io, fb), *SLEEP],
                           fa.namespace)  # fmt: skip
        try:
            forwarder.wait("ready")
            forwarder.tell("start")
            forwarder.wait("started")
            sent, received = run_pair((a, b), io, ["--rate", "5k", "--touch"], duration="0.3")
            result, code = forwarder.finish("stop")
        finally:
            forwarder.close()
    assert code == 0
    offered = sent["totals"]["tx_offered"]
    assert received["totals"]["rx_frames"] == offered > 0
    assert received["totals"]["rx_corrupt"] == 0
    assert result["ports"][0]["rx_frames"] >= offered
    assert result["ports"][1]["tx_offered"] >= offered
    assert result["ports"][1]["tx_dropped"] == 0


def test_pacing_keeps_the_rate(wire: tuple[Node, Node]) -> None:
    with engine("sender", "--port", "null:", "--rate", "1M", "--burst", "8", "--duration", "0.5",
                "--catch-up-us", "1M") as sender:  # fmt: skip
        sender.tell("start")
        result, _ = sender.finish("wait")
    assert result["totals"]["tx_intended"] == result["totals"]["tx_offered"] == 500_000
    pacing = result["pacing"]
    assert pacing["skipped"] == 0
    assert pacing["on_schedule"] is True
    assert 0 < pacing["late_mean_ns"] <= pacing["late_max_ns"]
    assert result["duration_ns"] == pytest.approx(500_000_000, rel=0.2)


def test_cpu_time_and_idle_strategies() -> None:
    shares = {}
    for idle in ("poll", "sleep"):
        with engine("receiver", "--port", "null:", "--duration", "0.5", "--idle", idle) as running:
            running.tell("start")
            result, _ = running.finish("wait")
        cpu = result["cpu"]
        assert cpu["cpu_ns"] == cpu["user_ns"] + cpu["system_ns"]
        shares[idle] = cpu["cpu_ns"] / (cpu["wall_ns"] - cpu["run_delay_ns"] + 1)
    assert shares["poll"] > 0.7
    assert shares["sleep"] < 0.4


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["sendr"], "did you mean 'sender'"),
        (["sender", "--port", "null:", "--frame-size", "41"], "from 64 to 9018"),
        (["sender", "--port", "null:", "--rate", "0"], "--rate"),
        (["sender", "--port", "nul:"], "did you mean 'null'"),
        (["sender", "--port", "null:", "--brust", "1"], "did you mean '--burst'"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(args: list[str], message: str) -> None:
    path = engine_path()
    assert path is not None
    done = subprocess.run([path, *args], capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_ports_that_cannot_be_opened_are_exit_code_1(wire: tuple[Node, Node]) -> None:
    for spec in ("raw:dev=no-such", "raw:", "raw:dev=lo,nonsense"):
        running = Engine("receiver", ["--port", spec])
        assert running.process.wait(timeout=10) == 1
        running.reader.join(timeout=5)
        assert running.all("error")[0]["message"].startswith("port 0")
        assert running.stderr().count("\n") == 1
        running.close()


def test_frames_that_do_not_fit_the_mtu_are_refused(wire: tuple[Node, Node]) -> None:
    a = wire[0]
    assert a.peer is not None
    running = Engine("sender", ["--port", port("raw", a), "--dst-mac", a.peer.mac, "--frame-size",
                                "9018"], a.namespace)  # fmt: skip
    assert running.process.wait(timeout=10) == 1
    running.reader.join(timeout=5)
    assert "needs an MTU of 9000; the port has 1500" in running.all("error")[0]["message"]
    running.close()


def test_a_device_that_goes_away_ends_the_trial_with_an_error() -> None:
    with (
        veth_pair("d") as (a, _),
        engine("sender", "--port", port("raw", a), "--rate", "1k", *SLEEP, node=a) as sender,
    ):
        sender.tell("start")
        sender.wait("started")
        time.sleep(0.2)
        subprocess.run(["ip", "-n", a.namespace, "link", "del", a.device], check=True)
        result, code = sender.finish("wait")
    assert code == 1
    assert result["reason"] == "failure"
    assert result["totals"]["tx_offered"] > 0
    assert a.device in sender.all("error")[0]["message"]


def test_commands_in_the_wrong_place_are_errors() -> None:
    with engine("sender", "--port", "null:", "--rate", "1k", *SLEEP) as sender:
        sender.tell("start")
        sender.wait("started")
        sender.tell("probe 1")
        result, code = sender.finish("wait")
    assert code == 1
    assert "a trial runs" in sender.all("error")[0]["message"]
    assert result["totals"]["tx_offered"] >= 0


def test_end_of_output_ends_the_engine() -> None:
    path = engine_path()
    assert path is not None
    process = subprocess.Popen(
        [path, "receiver", "--port", "null:", "--start", "now", "--interval", "0.05", *SLEEP],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    process.stdout.readline()
    process.stdout.close()
    killer = threading.Timer(10, process.kill)
    killer.start()
    assert process.wait() == 0
    killer.cancel()
    process.stdin.close()
