"""Ports do what their specification states: requests for many frames, features that both ends of a
ring agreed on, several queues, files in both directions, IPv6 under UDP sockets, and the limits of
a device's MTU."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration import dpdk_rig
from tests.integration.engine_tools import (
    Engine,
    Node,
    engine,
    engine_path,
    port,
    veth_pair,
)
from tests.integration.machine import needs_root
from tests.integration.test_engine_kernel_io import SLEEP, UNHURRIED, all_ios, missing
from tests.integration.test_engine_schedule import (
    closing_engine,
    fields,
    file_of,
    needs_tshark,
    tcpdump,
)
from tests.integration.waiting import until

pytestmark = [
    pytest.mark.integration,
    needs_root,
    pytest.mark.skipif(engine_path() is None, reason="switchmark-traffic is not built"),
]
PATIENT = ["--catch-up-us", "1000000", "--idle", "yield"]
needs_two_cores = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="this machine has one core"
)


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Node, Node]]:
    with veth_pair("u") as nodes:
        yield nodes


@contextlib.contextmanager
def queued_veth(near: str, far: str, queues: int) -> Iterator[None]:
    """A wire in this namespace whose ends have several queues and send no frames by themselves.

    The indices keep DPDK's packet fanouts apart (see test_engine_dpdk)."""
    many = ["numrxqueues", str(queues), "numtxqueues", str(queues)]
    add = ["ip", "link", "add", near, "index", str(1 << 29), *many, "type", "veth", "peer", "name"]
    add += [far, "index", str(1 << 29 | 1 << 14), *many]
    subprocess.run(add, check=True, timeout=30)
    try:
        for device in (near, far):
            off = f"net.ipv6.conf.{device}.disable_ipv6=1"
            subprocess.run(["sysctl", "-qw", off], check=False, timeout=30)
            subprocess.run(["ip", "link", "set", device, "up"], check=True, timeout=30)
        yield
    finally:
        subprocess.run(["ip", "link", "del", near], check=False, timeout=30)


def ring_heads(pid: int) -> tuple[int, int]:
    """Return how many requests an io_uring received and how many completions it returned."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if str(link.readlink()) == "anon_inode:[io_uring]":
                text = Path(f"/proc/{pid}/fdinfo/{link.name}").read_text()
                heads = dict(re.findall(r"^(\w+):\s*(\d+)$", text, re.MULTILINE))
                return int(heads["SqTail"]), int(heads["CqTail"])
    raise AssertionError("no io_uring among the files of the process")


@pytest.mark.skipif(missing("io_uring") is not None, reason=str(missing("io_uring")))
@pytest.mark.parametrize("io", ["io_uring", "io_uring-socket=udp"])
def test_one_request_of_io_uring_receives_many_frames(wire: tuple[Node, Node], io: str) -> None:
    a, b = wire
    sending = port("udp" if "udp" in io else "raw", a)
    with (
        engine("receiver", "--port", port(io, b), *SLEEP, node=b) as receiver,
        engine("sender", "--port", sending, "--rate", "20k", *SLEEP, *UNHURRIED, node=a) as sender,
    ):
        receiver.tell("start")
        receiver.wait("started")
        sender.tell("start duration=0.2 burst=10")
        sent, _ = sender.finish("wait")
        until(lambda: ring_heads(receiver.process.pid)[1] >= 4000, "all frames are received")
        requests, _ = ring_heads(receiver.process.pid)
        received, _ = receiver.finish(f"stop sent={sent['totals']['tx_offered']}")
    assert received["totals"]["rx_frames"] == sent["totals"]["tx_offered"] == 4000
    assert requests <= 40


def waiting_requests(pid: int) -> int | None:
    """Return the number of requests that wait at the socket of an io_uring; None if unknown now."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if str(link.readlink()) == "anon_inode:[io_uring]":
                text = Path(f"/proc/{pid}/fdinfo/{link.name}").read_text()
                _, found, listed = text.partition("PollList:\n")
                return len(re.findall(r"^ +op=\d+,", listed, re.MULTILINE)) if found else None
    raise AssertionError("no io_uring among the files of the process")


@pytest.mark.skipif(missing("io_uring") is not None, reason=str(missing("io_uring")))
@pytest.mark.parametrize("more", [[], ["--probe-rate", "1k"]])
def test_io_uring_sender_has_no_request_to_receive(
    wire: tuple[Node, Node], more: list[str]
) -> None:
    args = ["--rate", "20k", "--burst", "1", "--session", *more, *SLEEP]
    with engine("sender", "--port", port("io_uring", wire[0]), *args, node=wire[0]) as sender:
        pid = sender.process.pid
        until(lambda: waiting_requests(pid) == 1, "it receives while it is idle")
        sender.tell("start")
        until(lambda: waiting_requests(pid) == 0, "it only sends")
        sender.tell("stop")
        sender.wait("result")
        until(lambda: waiting_requests(pid) == 1, "it receives again")


MERGEABLE, IN_ORDER, PACKED = 15, 35, 34  # feature bits of virtio 1.2
RINGS = {
    "": {MERGEABLE, IN_ORDER},
    ",in-order=off": {MERGEABLE},
    ",mergeable=off": {IN_ORDER},
    ",in-order=off,mergeable=off": set(),
    ",packed": {MERGEABLE, IN_ORDER, PACKED},
    ",packed,in-order=off": {MERGEABLE, PACKED},
    ",packed,mergeable=off": {IN_ORDER, PACKED},
}


@pytest.mark.parametrize("options", RINGS)
@pytest.mark.skipif(dpdk_rig.hugepages_free() < 192, reason="fewer than 192 free hugepages of 2 MB")
def test_both_ends_of_a_ring_agree_on_requested_features(tmp_path: Path, options: str) -> None:
    path = tmp_path / "ring.sock"
    more = ["--eal=--log-level=lib.vhost.config:info", "--idle", "yield"]
    with (
        dpdk_rig.Engine("receiver", [f"vhost={path}"], *more, core=0) as receiver,
        dpdk_rig.Engine("sender", [f"virtio-user={path}{options}"], *dpdk_rig.TO_B, "--rate", "5k",
                        "--burst", "5", "--duration", "0.1", "--catch-up-us", "1M", "--idle",
                        "yield", core=0) as sender,
    ):  # fmt: skip
        receiver.start()
        sender.start()
        assert sender.result()["totals"]["tx_offered"] == 500
        assert receiver.stop()["totals"]["rx_frames"] == 500
        log = receiver.errors()
    negotiated = re.findall(r"negotiated Virtio features: (0x[0-9a-f]+)", log)
    assert negotiated, log
    features = int(negotiated[-1], 16)
    assert {bit for bit in (MERGEABLE, IN_ORDER, PACKED) if features >> bit & 1} == RINGS[options]


@needs_two_cores
@pytest.mark.skipif(missing("af_xdp") is not None, reason=str(missing("af_xdp")))
def test_af_xdp_uses_the_given_queues() -> None:
    """A packet socket sends through the queue of its core."""
    near, far = "smxdpq0", "smxdpq1"
    to_far = ["--src-mac", "02:00:00:00:00:0a", "--dst-mac", "02:00:00:00:00:0b"]
    paced = ["--rate", "10k", "--burst", "5", "--duration", "0.1", *PATIENT]
    cores = sorted(os.sched_getaffinity(0))[:2]
    with queued_veth(near, far, 2):
        for taken, expected in (("queues=2", [1000, 1000]), ("queue=0", [1000, 0]),
                                ("queue=1", [0, 1000])):  # fmt: skip
            receiving = ["--port", f"af_xdp:dev={far},{taken}", "--session", *PATIENT]
            arrived = dict.fromkeys((0, 1), 0)
            with closing_engine("receiver", receiving) as receiver:
                receiver.wait("ready")
                for trial, core in enumerate(cores, 1):
                    sending = ["--port", f"raw:dev={near}", *to_far, *paced, "--core", str(core)]
                    receiver.tell("start")
                    receiver.wait("started", trial)
                    with closing_engine("sender", sending) as sender:
                        sender.wait("ready")
                        sender.tell("start")
                        sent, _ = sender.finish("wait")
                        assert sent["totals"]["tx_offered"] == 1000
                    receiver.tell("stop")
                    received = receiver.wait("result", trial)
                    assert received["totals"]["rx_corrupt"] == 0
                    arrived[core % 2] = received["totals"]["rx_frames"]
            assert list(arrived.values()) == expected, taken


def check_all(sent: dict[str, Any], received: dict[str, Any], frames: int) -> None:
    """Check that every requested frame was sent and arrived once and intact."""
    assert sent["totals"]["tx_offered"] == frames
    assert received["totals"]["rx_frames"] == received["loss"]["received_unique"] == frames
    assert received["totals"]["rx_corrupt"] == received["loss"]["lost"] == 0


DPDK_PACED = [*dpdk_rig.TO_B, "--rate", "10k", "--burst", "10", "--duration", "0.2"]
DPDK_PACED += ["--catch-up-us", "5000000", "--idle", "yield"]


@pytest.mark.parametrize("kind", ["af-xdp={}", "af-packet={}"])
@pytest.mark.skipif(dpdk_rig.hugepages_free() < 192, reason="fewer than 192 free hugepages of 2 MB")
@dpdk_rig.unless_disturbed
def test_dpdk_receives_from_kernel_devices(kind: str) -> None:
    near, far = "smdev0", "smdev1"
    with (
        queued_veth(near, far, 1),
        dpdk_rig.Engine("receiver", [kind.format(far)], "--idle", "yield", core=1) as receiver,
        dpdk_rig.Engine("sender", [f"raw:dev={near},mmsg"], *DPDK_PACED, core=0) as sender,
    ):
        receiver.start()
        sender.start()
        check_all(sender.result(), receiver.stop(), 2000)


@pytest.mark.skipif(dpdk_rig.hugepages_free() < 192, reason="fewer than 192 free hugepages of 2 MB")
@dpdk_rig.unless_disturbed
def test_dpdk_receives_from_a_tap() -> None:
    device = "smtap1"
    with dpdk_rig.Engine("receiver", [f"tap={device}"], "--idle", "yield", core=1) as receiver:
        receiver.event("ready")
        subprocess.run(["sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1"], check=False)
        subprocess.run(["ip", "link", "set", device, "up"], check=True, timeout=30)
        with dpdk_rig.Engine("sender", [f"raw:dev={device},mmsg"], *DPDK_PACED, core=0) as sender:
            receiver.start()
            sender.start()
            check_all(sender.result(), receiver.stop(), 2000)


MORE_THAN_A_RING = 20_000  # both drivers hold some thousands of frames


@pytest.mark.parametrize("kind", ["af-packet={}", "af-xdp={}"])
@pytest.mark.skipif(dpdk_rig.hugepages_free() < 192, reason="fewer than 192 free hugepages of 2 MB")
def test_drops_before_a_driver_are_reported(kind: str) -> None:
    """Frames that the kernel drops as the port's ring is full are not a loss of a switch."""
    near, far = "smdrop0", "smdrop1"
    taken = ["--idle", "yield", "--interval", "0.1"]
    sending = [*dpdk_rig.TO_B, "--rate", "max", "--idle", "yield", "--interval", "0.1"]
    with (
        queued_veth(near, far, 1),
        dpdk_rig.Engine("receiver", [kind.format(far)], *taken, core=1) as receiver,
        dpdk_rig.Engine("sender", [f"raw:dev={near},mmsg"], *sending, core=0) as sender,
    ):
        receiver.start()
        receiver.child.send_signal(signal.SIGSTOP)
        sender.start()
        left = MORE_THAN_A_RING
        while left > 0:  # a busy machine may take long
            left -= sender.event("interval")["tx_offered"]
        sent = sender.stop()["totals"]["tx_offered"]
        receiver.child.send_signal(signal.SIGCONT)
        receiver.say(f"stop sent={sent}")
        totals = receiver.result()["totals"]
    assert totals["rx_frames"] > 0
    assert totals["rx_socket_drops"] > 0
    assert totals["rx_frames"] + totals["rx_socket_drops"] == sent


@needs_two_cores
@pytest.mark.skipif(dpdk_rig.hugepages_free() < 192, reason="fewer than 192 free hugepages of 2 MB")
@dpdk_rig.unless_disturbed
def test_dpdk_has_several_queues_on_a_kernel_device() -> None:
    """With af-packet only, as DPDK's AF_XDP driver finds one queue on a veth."""
    near, far = "smdevq0", "smdevq1"
    two = ["--queues", "2", "--stream", "7"]
    with (
        queued_veth(near, far, 2),
        dpdk_rig.Engine("receiver", [f"af-packet={far}"], *two, "--flows", "64:dst-ip", "--idle",
                        "yield", core="0,1") as receiver,
        dpdk_rig.Engine("sender", [f"af-packet={near}"], *DPDK_PACED, *two, "--flows", "64:src-ip",
                        core="0,1") as sender,
    ):  # fmt: skip
        assert receiver.event("ready")["queues"] == 2
        receiver.start()
        sender.start()
        sent, received = sender.result(), receiver.stop()
        check_all(sent, received, 2000)
        assert received["loss"]["last_sequence"] == 999  # two streams


@needs_tshark
def test_files_in_both_directions(tmp_path: Path) -> None:
    """A server answers a file into another; a forwarder copies a file."""
    requests, answered, passed = (tmp_path / f"{name}.pcap" for name in ("ask", "answer", "pass"))
    file_of(requests, "--rate", "100k", "--burst", "10", "--duration", "0.01",
            "--frame-size", "imix", "--src-mac", "02:00:00:00:00:01", *PATIENT)  # fmt: skip
    addresses = ["--src-mac", "02:00:00:00:00:02", "--dst-mac", "02:00:00:00:00:01"]
    both = ["--port", f"pcap:read={requests},write={answered}", *addresses, "--start", "now"]
    with closing_engine("server", both) as server:
        result, code = server.finish("wait")
    assert (code, result["reason"]) == (0, "replayed")
    assert result["totals"]["rx_frames"] == result["totals"]["tx_offered"] == 1000
    across = ["--port", f"pcap:read={requests}", "--port", f"pcap:write={passed}", "--start", "now"]
    with closing_engine("forwarder", across) as forwarder:
        result, code = forwarder.finish("wait")
    assert (code, result["reason"]) == (0, "replayed")
    assert result["ports"][0]["rx_frames"] == result["ports"][1]["tx_offered"] == 1000
    names = ("frame.len", "eth.src", "eth.dst", "ip.src", "ip.dst", "udp.payload")
    forth, back, same = (fields(path, *names) for path in (requests, answered, passed))
    assert len(forth) == 1000
    assert same == forth
    assert back == [[row[0], row[2], row[1], row[4], row[3], row[5]] for row in forth]


@needs_tshark
def test_a_file_is_the_same_in_every_trial(tmp_path: Path) -> None:
    """Also after a server has reversed its frames in place."""
    requests, answered = (tmp_path / f"{name}.pcap" for name in ("ask", "answer"))
    file_of(requests, "--rate", "100k", "--burst", "10", "--duration", "0.001", *PATIENT)
    both = ["--port", f"pcap:read={requests},write={answered}", "--session"]
    both += ["--src-mac", "02:00:00:00:00:02"]
    with closing_engine("server", both) as server:
        for trial in (1, 2):
            server.tell("start")
            assert server.wait("result", trial)["totals"]["tx_offered"] == 100
        server.tell("exit")
        assert server.process.wait(timeout=20) == 0
    answers = fields(answered, "eth.src", "eth.dst", "ip.src", "ip.dst", "udp.payload")
    assert len(answers) == 200
    assert answers[:100] == answers[100:]


@pytest.fixture(scope="module")
def wire6(wire: tuple[Node, Node]) -> tuple[Node, Node]:
    """The wire with IPv6 addresses, usable at once."""
    for number, node in enumerate(wire, 1):
        on = f"net.ipv6.conf.{node.device}.disable_ipv6=0"
        inside = ["ip", "netns", "exec", node.namespace]
        subprocess.run([*inside, "sysctl", "-qw", on], check=True, timeout=30)
        add = ["ip", "addr", "add", f"2001:db8::{number}/64", "dev", node.device, "nodad"]
        subprocess.run([*inside, *add], check=True, timeout=30)
    return wire


@needs_tshark
@pytest.mark.parametrize("io", ["udp", "udp-mmsg", "udp-block", *all_ios("io_uring-socket=udp")])
def test_udp_over_ipv6(wire6: tuple[Node, Node], tmp_path: Path, io: str) -> None:
    a, b = wire6
    common = ["--frame-size", "200", "--touch", *PATIENT]
    ends = [["--src-ip", "2001:db8::1", "--dst-ip", "2001:db8::2"],
            ["--src-ip", "2001:db8::2", "--dst-ip", "2001:db8::1"]]  # fmt: skip
    asking = [*ends[0], "--rate", "2k", "--burst", "4", "--duration", "0.1", "--session"]
    captured = tmp_path / "seen.pcap"
    with (
        tcpdump(b, captured, "ip6 and udp port 5000"),
        closing_engine("server", ["--port", port(io, b), *ends[1], *common], b.namespace) as server,
        closing_engine(
            "client", ["--port", port(io, a), *asking, *common], a.namespace
        ) as client,
    ):  # fmt: skip
        for node in (server, client):
            node.wait("ready")
        client.tell("verify-broadcast 3")  # all nodes of the link
        client.wait("verification")
        until(lambda: verification_frames(server) == 3, "broadcasts arrive")
        server.tell("start")
        server.wait("started")
        client.tell("start")
        result = client.wait("result")
        served, _ = server.finish("stop")
    totals = result["totals"]
    assert totals["tx_offered"] == totals["rx_frames"] == served["totals"]["rx_frames"] == 200
    assert totals["tx_bytes"] == totals["rx_bytes"] == 200 * 200
    assert totals["rx_corrupt"] == result["loss"]["lost"] == 0
    rows = [row for row in fields(captured, "frame.len", "ipv6.dst") if row[1] == "2001:db8::2"]
    assert [row[0] for row in rows] == ["196"] * 200


def verification_frames(server: Engine) -> int:
    """Return the number of verification frames by the server's counters."""
    count = len(server.all("counters")) + 1
    server.tell("counters")
    return int(server.wait("counters", count)["rx_verification"])


LARGE = all_ios("raw", "packet_mmap", "af_xdp", "io_uring")


@pytest.mark.parametrize("io", [*LARGE, "dpdk:af-packet"])
def test_tags_and_the_mtu(wire: tuple[Node, Node], tmp_path: Path, io: str) -> None:
    """A device with MTU 1500 also takes one tag; two count. The engine refuses larger frames, so
    that the kernel cannot drop them as if a switch had lost them."""
    a, b = wire
    spec = f"{io}={a.device}" if ":" in io else port(io, a)
    if ":" in io and dpdk_rig.hugepages_free() < 192:
        pytest.skip("fewer than 192 free hugepages of 2 MB")
    sending = ["--port", spec, "--src-mac", dpdk_rig.MAC_A, "--dst-mac", dpdk_rig.MAC_B, *PATIENT]
    sending += ["--rate", "2k", "--burst", "1", "--duration", "0.05", "--start", "now"]
    for kind in (["--vlan", "200.100", "--frame-size", "1526"], ["--frame-size", "1522"]):
        with closing_engine("sender", [*sending, *kind], a.namespace) as sender:
            assert "MTU of 150" in sender.wait("error")["message"]
            assert sender.process.wait(timeout=20) == 1
    path = tmp_path / "tagged.pcap"
    tagged = ["--vlan", "100", "--frame-size", "1522"]
    file_of(path, "--rate", "2k", "--burst", "1", "--duration", "0.05", *tagged, *PATIENT)
    receiving = ["--port", port("raw-mmsg", b), "--session", *tagged, "--idle", "yield"]
    replayed = [*sending, "--replay", str(path), "--stamp"]
    with closing_engine("receiver", receiving, b.namespace) as receiver:
        receiver.wait("ready")
        for trial, command in enumerate(([*sending, *tagged], replayed), 1):
            receiver.tell("start")
            receiver.wait("started", trial)
            with closing_engine("sender", command, a.namespace) as sender:
                sent, code = sender.finish("wait")
            assert code == 0
            receiver.tell("stop sent=100")
            check_all(sent, receiver.wait("result", trial), 100)


def test_frames_that_dpdk_af_packet_would_change_are_refused() -> None:
    path = engine_path()
    assert path is not None
    command = [path, "receiver", "--port", "dpdk:af-packet=x", "--vlan", "200.100"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "reports the outer of two tags as 802.1Q; use packet_mmap" in done.stderr


def test_workers_alternate_at_a_constant_rate() -> None:
    """Their bursts are due one after the other, so that together they have the exact rate."""
    options = ["--port", "null:", "--queues", "3", "--rate", "10k", "--burst", "1", *PATIENT]
    with closing_engine("sender", [*options, "--duration", "0.2", "--start", "now"]) as sender:
        totals = sender.finish("wait")[0]["totals"]
    assert totals["tx_intended"] == totals["tx_offered"] == 2000


def test_wait_of_every_worker_for_its_core_is_counted() -> None:
    """Three workers that poll on one core wait two thirds of their time together; one alone could
    wait at most all of it."""
    core = str(min(os.sched_getaffinity(0)))
    options = ["--port", "null:", "--queues", "3", "--core", ",".join([core] * 3), "--rate", "1k"]
    with closing_engine("sender", [*options, "--duration", "0.5", "--start", "now"]) as sender:
        cpu = sender.finish("wait")[0]["cpu"]
    assert 1.3 * cpu["wall_ns"] < cpu["run_delay_ns"] < 4 * cpu["wall_ns"]
