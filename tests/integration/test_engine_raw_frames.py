"""Frames that the idle engine sends and captures byte by byte, on each I/O with whole frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration import dpdk_rig
from tests.integration.engine_tools import (
    Engine,
    Node,
    engine,
    engine_path,
    ip,
    needs_engine,
    port,
    veth_pair,
)
from tests.integration.machine import needs_root
from tests.integration.test_engine_dpdk import PAIRS, ports
from tests.integration.test_engine_kernel_io import all_ios
from tests.integration.waiting import until

pytestmark = [*needs_engine, needs_root]

BROADCAST, SOURCE = "ff" * 6, "02000000000a"
ARP = BROADCAST + SOURCE + "0806" + "0001080006040001" + SOURCE + "c6120001" + "0" * 20 + "00" * 18
TCP = "02000000000b" + SOURCE + "0800" + "4500002800000000400600000a0000010a000002" + "00" * 26
LONG = "02000000000b" + SOURCE + "88b5" + "a5" * 1500
SAMPLE = [ARP, TCP, LONG]
CAPTURED_BYTES = 256


def shown(frames: list[str]) -> list[tuple[int, str]]:
    """Return what the engine must print about these frames: length and first bytes."""
    return [(len(frame) // 2, frame[: 2 * CAPTURED_BYTES]) for frame in frames]


def printed(events: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Return length and first bytes of captured frames."""
    return [(event["length_bytes"], event["hex"]) for event in events]


@pytest.mark.parametrize(
    "io", ["raw", *all_ios("raw-mmsg", "packet_mmap", "packet_mmap-ring=v2", "af_xdp", "io_uring")]
)
def test_injected_frames_arrive_unchanged_at_capture(io: str) -> None:
    """The receiver reports frames of any kind, also verification frames, up to its number."""
    with (
        veth_pair("i") as (a, b),
        engine("receiver", "--port", port(io, b), "--idle", "sleep", node=b) as receiver,
        engine("sender", "--port", port(io, a), "--idle", "sleep", node=a) as sender,
    ):
        receiver.tell("capture 4")
        assert receiver.wait("capturing")["frames"] == 4
        sender.tell("inject " + " ".join(SAMPLE))
        assert sender.wait("injected")["accepted"] == [True] * 3
        receiver.wait("captured", 3)
        sender.tell("verify 1")
        sender.tell("inject " + ARP)
        receiver.wait("captured", 4)
        assert_only_four(receiver, a)


def assert_only_four(receiver: Engine, sender: Node) -> None:
    """Check what the receiver captured, and that a frame after these is not captured."""
    until(lambda: arrived(receiver) == 5, "the receiver has got all five frames")
    frames = receiver.all("captured")
    assert printed(frames[:3]) == shown(SAMPLE)
    last = bytes.fromhex(frames[3]["hex"])
    assert last[6:12].hex(":") == sender.mac and last[42] == 0x53, "the verification frame"
    assert len(frames) == 4 and not any(frame["cut"] for frame in frames)
    counters = receiver.all("counters")[-1]
    assert (counters["rx_other"], counters["rx_verification"]) == (4, 1), "they also count"


def arrived(receiver: Engine) -> int:
    """Return the number of frames that the idle receiver has got."""
    count = len(receiver.all("counters")) + 1
    receiver.tell("counters")
    event = receiver.wait("counters", count)
    return int(event["rx_other"]) + int(event["rx_verification"])


def test_inject_reports_frames_that_do_not_fit() -> None:
    """A device with an MTU of 1500 does not accept longer frames; the engine goes on."""
    too_long = "02000000000b" + SOURCE + "88b5" + "00" * 1501
    with veth_pair("i") as (a, b):
        ip("-n", b.namespace, "link", "set", b.device, "netns", a.namespace)
        ip("-n", a.namespace, "link", "set", b.device, "up")
        ends = [word for node in (a, b) for word in ("--port", f"raw:dev={node.device}")]
        with engine("tester", *ends, node=a) as tester:
            tester.tell("capture 2")
            tester.wait("capturing")
            tester.tell(f"inject port=1 {too_long} {ARP} {TCP}")
            assert tester.wait("injected")["accepted"] == [False, True, True]
            tester.wait("captured", 2)
            assert [one["port"] for one in tester.all("captured")] == [0, 0], "the other end"


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("end", ["sender", "receiver"])
def test_frames_pass_dpdk_ports_both_ways(kind: str, end: str, tmp_path: Path) -> None:
    """Both ends inject and capture over vhost-user and memif."""
    if dpdk_rig.hugepages_free() < 192:
        pytest.skip("fewer than 192 free hugepages of 2 MB")
    send_port, receive_port = ports(kind, str(tmp_path / "wire.sock"))
    with (
        dpdk_rig.Engine("receiver", receive_port, "--idle", "yield", core=1) as receiver,
        dpdk_rig.Engine("sender", send_port, *dpdk_rig.TO_B, "--idle", "yield", core=0) as sender,
    ):
        source, sink = (sender, receiver) if end == "sender" else (receiver, sender)
        receiver.event("ready")
        sender.event("ready")
        sink.say("capture 3")
        assert sink.event("capturing")["frames"] == 3
        source.say("inject " + " ".join(SAMPLE))
        assert source.event("injected")["accepted"] == [True] * 3
        assert printed([sink.event("captured") for _ in SAMPLE]) == shown(SAMPLE)
        assert sender.leave() == receiver.leave() == 0


def test_capture_ends_at_zero_and_at_a_trial() -> None:
    """Frames after `capture 0`, or after a trial began, are not printed."""
    with engine("receiver", "--port", "null:rx-rate=max", "--session") as receiver:
        receiver.tell("capture 1000000")
        receiver.wait("captured")
        receiver.tell("capture 0")
        assert receiver.wait("capturing", 2)["frames"] == 0
        count = len(receiver.all("captured"))
        receiver.tell("counters")
        receiver.wait("counters")
        assert len(receiver.all("captured")) == count
        receiver.tell("capture 1000000")
        receiver.wait("capturing", 3)
        receiver.tell("start duration=0.01")
        receiver.wait("result")
        count = len(receiver.all("captured"))
        receiver.tell("counters")
        receiver.wait("counters", 2)
        assert len(receiver.all("captured")) == count


def test_udp_port_refuses_raw_frames() -> None:
    """The kernel writes the headers of datagrams: one line with the remedy, exit code 1."""
    assert engine_path() is not None
    for command in ("inject " + ARP, "capture 1"):
        with engine("receiver", "--port", "udp:", "--src-ip", "127.0.0.1") as receiver:
            receiver.tell(command)
            assert "use a port with whole frames" in receiver.wait("error")["message"]
            assert receiver.process.wait(timeout=30) == 1
