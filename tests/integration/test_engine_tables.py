"""Flows of a table, what the switch must have changed in them, and flows that it must drop."""

from __future__ import annotations

import contextlib
import ipaddress
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from switchmark.engine.process import table_row, tunnel_row
from tests.integration.engine_tools import (
    Engine,
    Node,
    engine,
    ip,
    needs_engine,
    port,
    veth_pair,
)
from tests.integration.machine import needs_root
from tests.integration.test_engine_kernel_io import all_ios

pytestmark = [*needs_engine, needs_root]

FRAMES = 2000
UNHURRIED = ["--catch-up-us", "1M", "--rate", "20k", "--idle", "sleep", "--frames", str(FRAMES)]


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Node, Node]]:
    with veth_pair("t") as nodes:
        yield nodes


def rows(count: int, version: int = 4, hop: int = 0) -> list[bytes]:
    """Return rows whose flows differ in all fields."""
    source = ipaddress.ip_address("198.18.0.0" if version == 4 else "2001:2::")
    target = ipaddress.ip_address("20.0.0.1" if version == 4 else "2001:2:1::1")
    return [
        table_row((source + i).packed, (target + 256 * i).packed, (1000 + i % 7, 2000 + i % 5), hop)
        for i in range(count)
    ]


def load(to: Engine, table: Sequence[bytes], kind: str = "table", order: str = "") -> None:
    """Send a table to an engine."""
    before = len(to.all("table"))
    to.tell(f"{kind} rows={len(table)} {order}")
    to.tell(f"{kind} {b64encode(b''.join(table)).decode()}")
    assert to.wait("table", before + 2)["loaded"] == len(table)


def exchange(receiver: Engine, sender: Engine) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the results of both ends of a trial."""
    receiver.tell("start patience=2s")
    receiver.wait("started")
    sender.tell("start")
    sent, code = sender.finish("wait")
    assert code == 0
    received, code = receiver.finish(f"stop sent={sent['totals']['tx_offered']}")
    assert code == 0
    return sent, received


@pytest.mark.parametrize("order", ["", "zipf=1.1 seed=7"])
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("io", ["raw-mmsg", *all_ios("packet_mmap", "af_xdp", "io_uring")])
def test_flows_of_a_table_arrive_right(
    wire: tuple[Node, Node], io: str, version: int, order: str
) -> None:
    """Every frame has the fields of its row, in turn and by Zipf's law."""
    a, b = wire
    table, mac = rows(300, version), b.mac
    headers = ["--expect-ttl", "9", "--expect-dscp", "46", "--expect-src-mac", a.mac]
    kind = ["--ip-version", str(version), "--frame-size", "128"]
    with (
        engine_at(b, "receiver", io, *kind, *headers, "--next-hops", mac) as receiver,
        engine_at(a, "sender", io, *kind, "--ttl", "9", "--dscp", "46", *UNHURRIED) as sender,
    ):
        load(receiver, table, order=order)
        load(sender, table, order=order)
        sent, received = exchange(receiver, sender)
    assert sent["totals"]["tx_offered"] == FRAMES and sent["config"]["flows"] == 300
    assert received["totals"]["rx_frames"] == FRAMES
    assert not any(received["expectation"]["wrong_fields"].values())
    assert received["expectation"]["sample"] is None and received["loss"]["lost"] == 0


@contextlib.contextmanager
def engine_at(node: Node, role: str, io: str, *args: str) -> Iterator[Engine]:
    """Start an engine at a node, without the IP addresses of the node."""
    assert node.peer is not None
    macs = ["--src-mac", node.mac, "--dst-mac", node.peer.mac]
    running = Engine(role, ["--port", port(io, node), *macs, *args], node.namespace)
    try:
        running.wait("ready")
        yield running
    finally:
        running.close()


def test_wrong_fields_are_neither_lost_nor_right(wire: tuple[Node, Node]) -> None:
    """A tenth of the rows differ in one field each, as if the switch had changed it."""
    a, b = wire
    table = rows(10)
    expected = list(table)
    expected[3] = table[3][:12] + b"\0\1" + table[3][14:]  # the other next hop
    expected[5] = table[5][:9] + b"\xff" + table[5][10:]  # another source port
    with (
        engine_at(
            b, "receiver", "raw-mmsg", "--next-hops", f"{b.mac},02:6e:00:00:01:01"
        ) as receiver,
        engine_at(a, "sender", "raw-mmsg", *UNHURRIED) as sender,
    ):
        load(receiver, expected)
        load(sender, table)
        _, received = exchange(receiver, sender)
    totals, loss = received["totals"], received["loss"]
    assert (totals["rx_wrong_next_hop"], totals["rx_wrong_header"]) == (FRAMES // 10,) * 2
    assert totals["rx_frames"] == FRAMES - FRAMES // 5
    assert (loss["lost"], loss["received_unique"]) == (0, FRAMES)
    wrong = {k: v for k, v in received["expectation"]["wrong_fields"].items() if v}
    assert wrong == {"next_hop": FRAMES // 10, "src_port": FRAMES // 10}
    assert received["expectation"]["sample"].startswith(b.mac.replace(":", ""))


@pytest.mark.parametrize(("sent", "expected", "right"), [
    ("none", "none", True), ("7", "7", True), ("7", "none", False), ("none", "7", False),
    ("7", "8", False),
])  # fmt: skip
def test_tag_is_expected(wire: tuple[Node, Node], sent: str, expected: str, right: bool) -> None:
    """A frame with another tag than expected arrives, and is wrong."""
    a, b = wire
    args = ["--frame-size", "68", "--vlan", sent]
    with (
        engine_at(b, "receiver", "raw-mmsg", "--expect-vlan", expected) as receiver,
        engine_at(a, "sender", "raw-mmsg", *args, *UNHURRIED) as sender,
    ):
        _, received = exchange(receiver, sender)
    totals = received["totals"]
    assert totals["rx_frames"] == (FRAMES if right else 0)
    assert totals["rx_wrong_header"] == (0 if right else FRAMES)
    assert received["expectation"]["wrong_fields"]["vlan"] == (0 if right else FRAMES)
    assert received["loss"]["lost"] == 0 and totals["rx_other"] == 0


def test_denied_stream_is_neither_load_nor_loss(wire: tuple[Node, Node]) -> None:
    """Over a wire, which drops nothing, every denied frame arrives and is counted as a leak."""
    a, b = wire
    table, denied = rows(10), rows(30)[10:]
    with (
        engine_at(b, "receiver", "raw-mmsg", "--session") as receiver,
        engine_at(a, "sender", "raw-mmsg", "--denied-rate", "5k", *UNHURRIED) as sender,
    ):
        load(receiver, table)
        load(sender, table)
        load(sender, denied, "denied")
        sent, received = exchange(receiver, sender)
    assert sent["totals"]["tx_offered"] == received["totals"]["rx_frames"] == FRAMES
    assert sent["totals"]["tx_denied"] == received["totals"]["rx_denied"] > FRAMES // 5
    assert received["loss"]["lost"] == received["totals"]["rx_foreign"] == 0
    assert sent["totals"]["tx_bytes"] == FRAMES * 64


def test_tester_checks_its_own_frames() -> None:
    """One process has both ends, and the table at both of them, until it is removed."""
    with veth_pair("u") as (a, b):
        ip("-n", b.namespace, "link", "set", b.device, "netns", a.namespace)
        ip("-n", a.namespace, "link", "set", b.device, "up")
        ends = [word for node in (a, b) for word in ("--port", f"raw:dev={node.device},mmsg")]
        hops = ["--rate", "20k", "--next-hops", f"{b.mac},02:6e:00:00:01:01", "--session"]
        with engine("tester", *ends, *hops, node=a) as tester:
            load(tester, rows(4) + rows(4, hop=1))
            tester.tell("start duration=0.2")
            direction = tester.wait("result")["directions"][0]
            totals = direction["totals"]
            wrong, frames = totals["rx_wrong_next_hop"], totals["rx_frames"]
            assert abs(wrong - frames) <= 4 and wrong + frames == totals["tx_offered"]
            assert direction["expectation"]["wrong_fields"]["next_hop"] == wrong > 0
            tester.tell("table rows=0")
            tester.wait("table", 3)
            tester.tell("start duration=0.2")
            direction = tester.wait("result", 2)["directions"][0]
            assert direction["totals"]["rx_wrong_next_hop"] == 0 < direction["totals"]["rx_frames"]


@pytest.mark.parametrize(
    ("commands", "says"),
    [
        (["table rows=2", "start"], "table: 0 of 2 rows have arrived; send the rest"),
        (["start denied-rate=1k"], "0 of 0 rows of the denied flows have arrived"),
        (["table AAAA"], "its number of rows is unknown; begin with rows=N"),
        (["table rows=1", "table AAAA"], "3 bytes are not a multiple of 16"),
    ],
)
def test_incomplete_table_ends_the_engine(commands: list[str], says: str) -> None:
    """One line names the missing part; exit code 1."""
    with engine("sender", "--port", "null:") as sender:
        for command in commands:
            sender.tell(command)
        assert says in sender.wait("error")["message"]
        assert sender.process.wait(timeout=30) == 1


VNIS = (5, 70000)
MACS = ("02:00:00:00:0a:01", "02:00:00:00:0a:02")  # source and destination of inner frames


def tunnels(source: str = MACS[0], destination: str = MACS[1]) -> list[bytes]:
    """Return tunnels from 198.18.0.1 to 198.18.0.2."""
    ends = [ipaddress.ip_address(f"198.18.0.{i}").packed for i in (1, 2)]
    return [tunnel_row(vni, *ends, destination, source) for vni in VNIS]


def tunnelled(count: int, tunnel: int) -> list[bytes]:
    """Return rows of one tunnel."""
    return [row[:14] + tunnel.to_bytes(2) for row in rows(count)]


@pytest.mark.parametrize("sizes", ["100", "64*3+1400"])
@pytest.mark.parametrize("io", ["raw-mmsg", *all_ios("packet_mmap", "af_xdp", "io_uring")])
def test_frames_pass_in_tunnels(wire: tuple[Node, Node], io: str, sizes: str) -> None:
    """The receiver decapsulates the frames of the sender; sizes are those of the inner frames."""
    a, b = wire
    table = tunnelled(10, 0) + tunnelled(10, 1)
    kind = ["--frame-size", sizes]
    with (
        engine_at(b, "receiver", io, *kind, "--decap", "vxlan") as receiver,
        engine_at(a, "sender", io, *kind, "--encap", "vxlan", *UNHURRIED) as sender,
    ):
        for end in (receiver, sender):
            load(end, tunnels(), "tunnels")
            load(end, table)
        sent, received = exchange(receiver, sender)
    assert received["totals"]["rx_frames"] == FRAMES
    assert received["totals"]["rx_bytes"] == sent["totals"]["tx_bytes"]
    assert sizes != "100" or sent["totals"]["tx_bytes"] == 100 * FRAMES
    assert sent["config"]["outer_header_bytes"] == 50
    assert not any(received["expectation"]["wrong_fields"].values())


def vxlan_device(node: Node, vni: int) -> Node:
    """Make the kernel's tunnel end of a node, whose peer is the other node of the wire."""
    assert node.peer is not None
    local = ["vxlan", "id", str(vni), "local", node.address, "remote", node.peer.address]
    ip("-n", node.namespace, "link", "add", f"vx{vni}", "type", *local, "dstport", "4789")
    subprocess.run(
        ["ip", "netns", "exec", node.namespace, "sysctl", "-qw",
         f"net.ipv6.conf.vx{vni}.disable_ipv6=1"], check=True, timeout=30,
    )  # fmt: skip
    ip("-n", node.namespace, "link", "set", f"vx{vni}", "up")
    return Node(node.namespace, f"vx{vni}", node.mac, node.address, node.peer)


def test_kernel_decapsulates_what_the_engine_sends(wire: tuple[Node, Node]) -> None:
    """The kernel's tunnel end hands the inner frames to a receiver, as they were sent."""
    a, b = wire
    inside = vxlan_device(b, VNIS[1])
    table = tunnelled(10, 1)
    macs = ["--expect-src-mac", MACS[0], "--next-hops", MACS[1]]
    with (
        engine_at(inside, "receiver", "raw-mmsg", *macs) as receiver,
        engine_at(a, "sender", "raw-mmsg", "--encap", "vxlan", *UNHURRIED) as sender,
    ):
        load(receiver, table)
        load(sender, tunnels(), "tunnels")
        load(sender, table)
        _, received = exchange(receiver, sender)
    ip("-n", b.namespace, "link", "del", inside.device)
    assert received["totals"]["rx_frames"] == FRAMES
    assert not any(received["expectation"]["wrong_fields"].values())


@pytest.mark.parametrize("wrong", [False, True])
def test_engine_decapsulates_what_the_kernel_sends(wire: tuple[Node, Node], wrong: bool) -> None:
    """The outer header of the kernel is right, and has the VNI of its device."""
    a, b = wire
    inside = vxlan_device(a, VNIS[0])
    table = tunnelled(10, int(wrong))
    with (
        engine_at(b, "receiver", "raw-mmsg", "--decap", "vxlan") as receiver,
        engine_at(inside, "sender", "raw-mmsg", *UNHURRIED) as sender,
    ):
        load(receiver, tunnels(a.mac, b.mac), "tunnels")
        load(receiver, table)
        load(sender, table)
        _, received = exchange(receiver, sender)
    ip("-n", a.namespace, "link", "del", inside.device)
    totals, fields = received["totals"], received["expectation"]["wrong_fields"]
    assert (totals["rx_frames"], totals["rx_wrong_header"]) == (
        (0, FRAMES) if wrong else (FRAMES, 0)
    )
    assert {name for name, count in fields.items() if count} == ({"vni"} if wrong else set())


def test_frames_pass_in_tunnels_both_ways(wire: tuple[Node, Node]) -> None:
    """Each end has the tunnels as it sends into them, and expects the other way."""
    a, b = wire
    table = tunnelled(10, 0) + tunnelled(10, 1)
    turned = [row[4:8] + row[:4] + row[10:12] + row[8:10] + row[12:] for row in table]
    back = [row[:4] + row[8:12] + row[4:8] + row[18:] + row[12:18] for row in tunnels()]
    kind = ["--encap", "vxlan", "--decap", "vxlan", "--session", "--rate", "5k"]
    with (
        engine_at(a, "duplex", "raw-mmsg", *kind) as near,
        engine_at(b, "duplex", "raw-mmsg", *kind) as far,
    ):
        for end, ways, flows in ((near, tunnels(), table), (far, back, turned)):
            load(end, ways, "tunnels")
            load(end, flows)
        at = time.monotonic_ns() + 500_000_000
        for end in (near, far):
            end.tell(f"start duration=0.3 patience=2s at={at}")
        results = [end.wait("result") for end in (near, far)]
    for result, other in (results, results[::-1]):
        assert result["totals"]["rx_frames"] == other["totals"]["tx_offered"] > 0
        assert not any(result["expectation"]["wrong_fields"].values())


def test_verification_frames_pass_in_tunnels(wire: tuple[Node, Node]) -> None:
    """A receiver sends them through the first tunnel of its arriving frames, the other way."""
    a, b = wire
    kind = ["--encap", "vxlan", "--decap", "vxlan"]
    with (
        engine_at(b, "receiver", "raw-mmsg", *kind, "--src-mac", MACS[1]) as receiver,
        engine_at(a, "sender", "raw-mmsg", *kind, "--src-mac", MACS[0]) as sender,
    ):
        for end, other in ((sender, receiver), (receiver, sender)):
            load(receiver, tunnels(), "tunnels")
            load(sender, tunnels(), "tunnels")
            end.tell("verify 3")
            end.wait("verification")
            deadline = time.monotonic() + 10
            arrived = 0
            while arrived < 3 and time.monotonic() < deadline:
                before = len(other.all("counters"))
                other.tell("counters")
                arrived = other.wait("counters", before + 1)["rx_verification"]
            assert arrived == 3


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "tunnels: 0 of 0 rows have arrived"),
        (["tunnels rows=2", f"tunnels {b64encode(b''.join(tunnels())).decode()}"],
         "tunnels: 2 of them need a table of flows"),
        (["tunnels rows=1", f"tunnels {b64encode(tunnels()[0]).decode()}", "table rows=1",
          f"table {b64encode(tunnelled(1, 1)[0]).decode()}"],
         "table: row 0 has tunnel 1; there are 1, from 0"),
    ],
)  # fmt: skip
def test_flow_without_tunnel_is_refused(given: list[str], says: str) -> None:
    """A trial does not begin unless each flow has its tunnel."""
    with engine("sender", "--port", "null:", "--encap", "vxlan") as sender:
        for command in [*given, "start"]:
            sender.tell(command)
        assert says in sender.wait("error")["message"]
        assert sender.process.wait(timeout=30) == 1
