"""Frames of every size arrive whole through each of the engine's ports, or the port is refused.

The sizes are the limits of drivers: a slot of DPDK's af-packet driver holds 1,982 bytes to receive
and 2,016 to send, a buffer of its af-xdp driver gives 256 bytes to the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from switchmark.model.io import IO_ROWS, Io
from switchmark.model.traffic import Vlan, smallest_frame
from tests.integration.dpdk_rig import needs_dpdk
from tests.integration.engine_tools import (
    Engine,
    Node,
    engine,
    ip,
    needs_engine,
    veth_pair,
)
from tests.integration.waiting import DEADLINE_S

pytestmark = [*needs_engine, *needs_dpdk]

FRAMES = 32
PATIENT = ("--catch-up-us", "1000000000")  # a late sender skips no frame
JUMBO_MTU = "9000"
XDP_MTU = "3480"  # a veth takes an XDP program up to about a page


@pytest.fixture
def wire() -> Iterator[tuple[Node, Node]]:
    with veth_pair("size") as ends:
        for node in ends:
            ip("-n", node.namespace, "link", "set", node.device, "mtu", JUMBO_MTU)
        yield ends


def arrived(sender: Engine, receiver: Engine) -> tuple[int, int, int]:
    """Return the numbers of frames that were sent, that arrived whole, and that were dropped."""
    receiver.tell("start")
    receiver.wait("started")
    sender.tell("start")
    sent, code = sender.finish("wait")
    assert code == 0
    offered = sent["totals"]["tx_offered"]
    received, code = receiver.finish(f"stop sent={offered}")
    assert code == 0
    assert received["totals"]["rx_corrupt"] == 0
    return offered, received["totals"]["rx_frames"], received["totals"]["rx_socket_drops"]


def delivered(wire: tuple[Node, Node], ports: tuple[str, str], size: int, *tag: str) -> bool:
    """Return True if all frames of this size pass from the first port to the second, whole."""
    common = ("--packet-size", str(size), "--touch", "--idle", "sleep", *tag)
    paced = ("--rate", "2k", "--burst", str(FRAMES), "--duration", str(FRAMES / 2000), *PATIENT)
    a, b = wire
    with (
        engine("receiver", "--port", ports[1].format(b.device), *common, node=b) as receiver,
        engine("sender", "--port", ports[0].format(a.device), *common, *paced, node=a) as sender,
    ):
        offered, whole, _ = arrived(sender, receiver)
    return offered == whole == FRAMES


# The I/O of a campaign on a network device, as ports, except those that write no whole frames.
PORTS = {
    io: (row.arguments and f"{row.backend}:{row.arguments.replace('DEVICE', '{}')}")
    or "dpdk:af-packet={}"
    for io, row in IO_ROWS.items()
    if not row.datagrams and io is not Io.NETMAP
}
SIZES = (64, 1518, 1522, 1986, 1987, 2020, 2021, 2052, 2053, 4000, 9000, 9018)
TAGS = ("", "100", "200.100")
CELLS = list(product(PORTS, PORTS, SIZES, TAGS))


def is_sampled(sender: Io, receiver: Io, size: int, tag: str) -> bool:
    """Return True for a sample that has every two values of sender, size and tag, and every two of
    receiver, size and tag."""
    ios = list(PORTS)
    a, b, n, t = ios.index(sender), ios.index(receiver), SIZES.index(size), TAGS.index(tag)
    return b == (a + n) % len(ios) and (a + 2 * n) % len(TAGS) == t


@pytest.mark.parametrize(
    ("sender", "receiver", "size", "tag"),
    [pytest.param(*cell, marks=() if is_sampled(*cell) else pytest.mark.slow) for cell in CELLS],
)
def test_every_io_delivers_whole_frames_or_refuses(
    wire: tuple[Node, Node], sender: Io, receiver: Io, size: int, tag: str
) -> None:
    """A frame that is too short for its tags is refused, and so are two tags if a driver hides the
    type of the outer tag."""
    options = ("--vlan", tag) if tag else ()
    if size < smallest_frame(4, Vlan(tag)):
        assert "is below" in refusal("sender", wire[0], PORTS[sender], size, *options)
    elif receiver is Io.DPDK and tag == "200.100":
        message = refusal("receiver", wire[1], PORTS[receiver], size, *options)
        assert "reports the outer of two tags as 802.1Q" in message
    else:
        assert delivered(wire, (PORTS[sender], PORTS[receiver]), size, *options)


def refusal(role: str, node: Node, port: str, size: int, *words: str) -> str:
    """Return the message of an engine that refuses its port."""
    assert node.peer is not None
    args = ["--port", port.format(node.device), "--packet-size", str(size)]
    args += ["--start", "now", "--duration", "10ms"]
    refused = Engine(role, [*args, "--dst-mac", node.peer.mac, *words], node.namespace)
    try:
        assert refused.process.wait(timeout=DEADLINE_S) in (1, 2)
        return refused.stderr()
    finally:
        refused.close()


@pytest.mark.parametrize("size", [1986, 1987, 2020, 2021, 2053, 9018])
@pytest.mark.parametrize(
    "ports", [("raw:dev={},mmsg", "dpdk:af-packet={}"), ("dpdk:af-packet={}", "raw:dev={},mmsg")]
)
def test_af_packet_moves_whole_frames(
    wire: tuple[Node, Node], ports: tuple[str, str], size: int
) -> None:
    """The kernel's counter and a raw socket agree that no frame is cut or missing."""
    assert delivered(wire, ports, size)
    assert delivered(wire, ports, size, "--vlan", "100")


def test_af_packet_counts_frames_that_its_slots_cut(wire: tuple[Node, Node]) -> None:
    """A receiver with small slots drops long frames; none counts as damaged."""
    a, b = wire
    common = ("--idle", "sleep", "--port")
    paced = (
        "--packet-size",
        "2053",
        "--rate",
        "2k",
        "--burst",
        str(FRAMES),
        "--duration",
        "16ms",
        *PATIENT,
    )
    with (
        engine("receiver", *common, f"dpdk:af-packet={b.device}", node=b) as receiver,
        engine("sender", *common, f"raw:dev={a.device}", *paced, node=a) as sender,
    ):
        assert arrived(sender, receiver) == (FRAMES, 0, FRAMES)


def test_af_packet_forwards_frames_up_to_the_mtu(wire: tuple[Node, Node]) -> None:
    """A forwarder has no frame size: its slots follow from the MTU."""
    a, b = wire
    with veth_pair("more") as (near, far):
        for node in (near, far):
            ip("-n", node.namespace, "link", "set", node.device, "mtu", JUMBO_MTU)
        ip("-n", near.namespace, "link", "set", near.device, "netns", b.namespace)
        ip("-n", b.namespace, "link", "set", near.device, "up")
        ports = ["--port", f"dpdk:af-packet={b.device}", "--port", f"dpdk:af-packet={near.device}"]
        forwarder = Engine("forwarder", [*ports, "--idle", "sleep"], b.namespace)
        try:
            forwarder.wait("ready")
            forwarder.tell("start")
            forwarder.wait("started")
            far.mac = b.mac  # destination of the sender's frames
            assert delivered((a, far), ("raw:dev={}", "raw:dev={}"), 9018)
        finally:
            forwarder.close()


def test_af_packet_ring_above_the_locked_memory_is_refused(wire: tuple[Node, Node]) -> None:
    """Its rings are locked in memory; the message states how much memory that needs."""
    message = refusal("sender", wire[0], "dpdk:af-packet={},queue-size=32768", 9018)
    assert "queue-size: 32768 slots of 12288 bytes in 2 rings need 786432 kB" in message


@pytest.mark.parametrize("size", [1796, 1797, 3332])
def test_dpdk_af_xdp_receives_whole_frames(wire: tuple[Node, Node], size: int) -> None:
    """The part of a buffer that the kernel keeps for XDP programs has no room for the frame."""
    for node in wire:
        ip("-n", node.namespace, "link", "set", node.device, "mtu", XDP_MTU)
    assert delivered(wire, ("raw:dev={}", "dpdk:af-xdp={}"), size)


def test_dpdk_af_xdp_refuses_longer_frames(wire: tuple[Node, Node]) -> None:
    """A buffer cannot be larger than a page."""
    message = refusal("receiver", wire[0], "dpdk:af-xdp={}", 3333)
    assert "takes frames of up to 3332 bytes with FCS; use af_xdp:dev=" in message


def test_dpdk_tap_refuses_to_send_longer_frames(wire: tuple[Node, Node]) -> None:
    """Its driver sends nothing above its own MTU, and would refuse such frames for ever."""
    message = refusal("sender", wire[0], "dpdk:tap=smsizetap", 1519)
    assert "packet-size 1519 needs an MTU of 1501; the port has 1500" in message
