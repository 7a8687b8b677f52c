"""Flows with VXLAN headers, through snappi over a veth pair: each captured frame is compared whole
with the frame of the configuration, and the receiver counts it."""

from __future__ import annotations

import ipaddress
import json
import shutil
import struct
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import snappi

from switchmark.function.support.frames import internet_checksum
from tests.integration.otg_server import (
    A_MAC,
    B_MAC,
    config_of,
    inside,
    mac,
    serve,
    transmit,
    until_stopped,
)
from tests.integration.otg_server import captured as captured_frames
from tests.integration.otg_server import counted as values_by_count

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        shutil.which("tcpdump") is None, reason="no program `tcpdump` (apt install tcpdump)"
    ),
]
INNER_A, INNER_B = "02:00:00:00:1a:01", "02:00:00:00:1b:01"
OUTER_BYTES, STAMP_BYTES, FCS_BYTES = 50, 18, 4
FRAMES = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from serve(tmp_path_factory.mktemp("vxlan"))


@pytest.fixture
def api(server: Any) -> Iterator[Any]:
    with inside(server):
        yield snappi.api(location=server.location)


def add_tunnel(config: Any, *, six: bool = False, vlan: int = 0) -> Any:
    """Add a flow inside a tunnel; all of its fields have one value."""
    flow = config.flows.add(name="f1")
    flow.tx_rx.port.tx_name, flow.tx_rx.port.rx_names = "p1", ["p2"]
    flow.metrics.enable = flow.metrics.loss = True
    flow.size.fixed, flow.rate.pps = 200, 600
    flow.duration.fixed_packets.packets = FRAMES
    ethernet, ip, udp, vxlan = flow.packet.ethernet().ipv4().udp().vxlan()
    ethernet.src.value, ethernet.dst.value = A_MAC, B_MAC
    ip.src.value, ip.dst.value = "192.0.2.1", "192.0.2.2"
    ip.time_to_live.value, ip.identification.value, ip.dont_fragment.value = 33, 77, 0
    ip.priority.dscp.phb.value, ip.priority.dscp.ecn.value = 10, 1
    udp.src_port.value, udp.dst_port.value = 50_000, 4789
    vxlan.vni.value = 0x123456
    flow.packet.ethernet()
    if vlan:
        flow.packet.vlan()
        flow.packet[-1].id.value = vlan
    network = flow.packet.ipv6()[-1] if six else flow.packet.ipv4()[-1]
    flow.packet.udp()
    flow.packet[4].src.value, flow.packet[4].dst.value = INNER_A, INNER_B
    network.src.value, network.dst.value = ("2001:db8::1", "2001:db8::2") if six else (
        "10.1.1.1", "10.1.1.2",
    )  # fmt: skip
    flow.packet[-1].src_port.value, flow.packet[-1].dst_port.value = 5000, 6000
    return flow


def run(api: Any, config: Any) -> tuple[Any, list[bytes]]:
    """Send the flow; return its metrics and the captured frames of the sender, without FCS."""
    frames = [frame for frame in captured_frames(api, config) if frame[:6] == mac(B_MAC)]
    return until_stopped(api)["f1"], [frame[:-FCS_BYTES] for frame in frames]


def ipv4(packet_bytes: int, source: str, destination: str, first: bytes, second: bytes) -> bytes:
    """Return an IPv4 header. `first`: the bytes of DSCP and ECN; `second`: identification, flags
    and TTL."""
    addresses = ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    head = b"\x45" + first + struct.pack("!H", packet_bytes) + second + b"\x11"
    return head + struct.pack("!H", internet_checksum(head + bytes(2) + addresses)) + addresses


def expected_frame(stamp: bytes, *, six: bool, vlan: int, size: int = 200) -> bytes:
    """Return the whole frame of `add_tunnel` with this stamp, without FCS."""
    length = size - FCS_BYTES
    outer = mac(B_MAC) + mac(A_MAC) + b"\x08\x00"
    outer += ipv4(length - 14, "192.0.2.1", "192.0.2.2", b"\x29", b"\0\x4d\0\0\x21")
    outer += struct.pack("!HHHH", 50_000, 4789, length - 34, 0)
    outer += bytes.fromhex("0800000012345600")
    tag = struct.pack("!HH", 0x8100, vlan) if vlan else b""
    inner = mac(INNER_B) + mac(INNER_A) + tag + (b"\x86\xdd" if six else b"\x08\x00")
    udp_bytes = length - len(outer) - len(inner) - (40 if six else 20)
    addresses = b"".join(
        ipaddress.ip_address(text).packed
        for text in (("2001:db8::1", "2001:db8::2") if six else ("10.1.1.1", "10.1.1.2"))
    )
    if six:
        inner += struct.pack("!IHBB", 6 << 28, udp_bytes, 17, 64) + addresses
    else:
        inner += ipv4(20 + udp_bytes, "10.1.1.1", "10.1.1.2", b"\0", b"\0\0\x40\0\x40")
    payload = stamp.ljust(udp_bytes - 8, b"\0")
    head = struct.pack("!HHH", 5000, 6000, udp_bytes)
    pseudo = addresses + struct.pack("!HH", udp_bytes, 17)
    checksum = internet_checksum(pseudo + head + payload) or 0xFFFF
    return outer + inner + head + struct.pack("!H", checksum) + payload


@pytest.mark.parametrize(("six", "vlan"), [(False, 0), (True, 0), (False, 100), (True, 4094)])
def test_each_frame_is_that_of_the_configuration(
    api: Any, server: Any, six: bool, vlan: int
) -> None:
    """Every byte is compared, except the times in the stamp of the engine."""
    config = config_of(api, server, capture=True)
    flow = add_tunnel(config, six=six, vlan=vlan)
    flow.metrics.latency.enable = True
    found, frames = run(api, config)
    assert (found.frames_tx, found.frames_rx, found.loss) == (FRAMES, FRAMES, 0)
    assert (found.bytes_tx, found.bytes_rx) == (200 * FRAMES, 200 * FRAMES)
    assert 0 < found.latency.minimum_ns <= found.latency.maximum_ns
    assert len(frames) == FRAMES
    payload = OUTER_BYTES + 14 + (4 if vlan else 0) + (40 if six else 20) + 8
    for number, frame in enumerate(frames):
        stamp = frame[payload : payload + STAMP_BYTES]
        assert struct.unpack_from("!I", stamp, 4) == (number,)
        assert frame == expected_frame(stamp, six=six, vlan=vlan)


def test_sizes_and_bits_include_the_outer_headers(api: Any, server: Any) -> None:
    """Bytes of metrics, frame sizes and rates in bits are those on the wire."""
    config = config_of(api, server, capture=True)
    flow = add_tunnel(config)
    flow.size.increment.start, flow.size.increment.end, flow.size.increment.step = 114, 1518, 702
    flow.rate.mbps = 4  # 612.7 frames/s of a mean size of 816 bytes
    flow.duration.fixed_seconds.seconds = 0.5
    found, frames = run(api, config)
    assert (found.frames_tx, found.frames_rx) == (len(frames), len(frames))
    with urllib.request.urlopen(f"{server.location}/switchmark/results", timeout=10) as answer:
        totals = json.load(answer)["f1"]["sender"]["result"]["totals"]
    assert totals["tx_intended"] == pytest.approx(0.5 * 4e6 / 8 / 816, abs=1)
    sizes = [114, 816, 1518]
    assert [len(frame) + FCS_BYTES for frame in frames] == [
        sizes[n % 3] for n in range(len(frames))
    ]
    total = sum(len(frame) + FCS_BYTES for frame in frames)
    assert (found.bytes_tx, found.bytes_rx) == (total, total)


# Header, its field, the pattern, offset and format in the frame, and the expected values.
PATTERNS = [
    (3, "vni", ("values", [1, 0xFFFFFF, 70_000]), (46, "!I", 8), [1, 0xFFFFFF, 70_000]),
    (3, "vni", ("increment", 0xFFFFFE, 1, 4), (46, "!I", 8), [0xFFFFFE, 0xFFFFFF, 0, 1]),
    (3, "vni", ("decrement", 9, 3, 3), (46, "!I", 8), [9, 6, 3]),
    (0, "src", ("increment", "02:00:00:00:0a:01", "00:00:00:00:00:01", 4), (10, "!H", 0),
     [0x0A01, 0x0A02, 0x0A03, 0x0A04]),
    (1, "src", ("increment", "192.0.2.250", "0.0.0.3", 5), (26, "!I", 0),
     [0xC00002FA, 0xC00002FD, 0xC0000300, 0xC0000303, 0xC0000306]),
    (1, "time_to_live", ("values", [1, 64, 255]), (22, "!B", 0), [1, 64, 255]),
    (1, "identification", ("decrement", 1, 1, 3), (18, "!H", 0), [1, 0, 0xFFFF]),
    (2, "src_port", ("increment", 49_152, 1, 7), (34, "!H", 0), [*range(49_152, 49_159)]),
    (4, "dst", ("decrement", "02:00:00:00:1b:01", "00:00:00:00:00:01", 3), (54, "!H", 0),
     [0x1B01, 0x1B00, 0x1AFF]),
    (5, "dst", ("values", ["10.9.9.9", "10.0.0.1"]), (80, "!I", 0), [0x0A090909, 0x0A000001]),
    (5, "time_to_live", ("decrement", 64, 1, 8), (72, "!B", 0), [*range(64, 56, -1)]),
    (6, "dst_port", ("increment", 65_535, 2, 3), (86, "!H", 0), [65_535, 1, 3]),
]  # fmt: skip


def set_pattern(field: Any, pattern: tuple[Any, ...]) -> None:
    kind, *values = pattern
    if kind == "values":
        field.values = values[0]
    else:
        counter = getattr(field, kind)
        counter.start, counter.step, counter.count = values


def value_at(frame: bytes, place: tuple[int, str, int]) -> int:
    offset, form, shift = place
    value: int = struct.unpack_from(form, frame, offset)[0]
    return value >> shift


@pytest.mark.parametrize("case", PATTERNS, ids=lambda case: f"{case[1]}-{case[2][0]}")
def test_fields_have_the_values_of_their_patterns(api: Any, server: Any, case: Any) -> None:
    """Fields of the outer headers, of the VXLAN header and of the inner frame, frame by frame."""
    header, name, pattern, place, values = case
    config = config_of(api, server, capture=True)
    flow = add_tunnel(config)
    set_pattern(getattr(flow.packet[header], name), pattern)
    found, frames = run(api, config)
    assert (found.frames_tx, found.frames_rx, found.loss) == (FRAMES, FRAMES, 0)
    assert [value_at(frame, place) for frame in frames] == values_by_count(values, FRAMES)
    assert {internet_checksum(frame[14:34]) for frame in frames} == {0}
    assert {internet_checksum(frame[64:84]) for frame in frames} == {0}


def test_patterns_advance_together(api: Any, server: Any) -> None:
    config = config_of(api, server, capture=True)
    flow = add_tunnel(config)
    chosen = [PATTERNS[n] for n in (1, 4, 7, 10)]
    for header, name, pattern, _, _ in chosen:
        set_pattern(getattr(flow.packet[header], name), pattern)
    drawn = flow.packet[5].src.random
    drawn.min, drawn.max, drawn.count, drawn.seed = "10.0.0.0", "10.255.255.255", 20, 7
    found, frames = run(api, config)
    assert (found.frames_rx, found.loss) == (FRAMES, 0)
    for _, _, _, place, values in chosen:
        assert [value_at(frame, place) for frame in frames] == values_by_count(values, FRAMES)
    sources = [frame[76:80] for frame in frames]
    assert sources == values_by_count(sources[:20], FRAMES)
    assert len(set(sources)) > 15
    assert {source[0] for source in sources} == {10}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: setattr(f.size, "fixed", 113),
         r"flows\[0\]\.size\.fixed: is 113; .* 114 to 9018"),
        (lambda f: setattr(f.packet[2].dst_port, "value", 8472),
         r"packet\[2\]\.udp\.dst_port: .* 4789"),
        (lambda f: setattr(f.packet[3].flags, "value", 0), r"packet\[3\]\.vxlan\.flags: .* 8"),
        (lambda f: setattr(f.packet[3].reserved1, "values", [0, 1]),
         r"packet\[3\]\.vxlan\.reserved1: .* 0"),
        (lambda f: f.packet.custom()[-1].set(bytes="00"), r"packet\[3\]\.vxlan: .* from a file"),
        (lambda f: f.packet.remove(1), r"packet: .* in front of vxlan .* not ethernet, udp"),
        (lambda f: f.packet.vxlan(), r"packet: .* behind vxlan"),
    ],
)  # fmt: skip
def test_impossible_tunnels_are_refused_by_path(
    api: Any, server: Any, change: Any, message: str
) -> None:
    config = config_of(api, server)
    flow = add_tunnel(config)
    if "file" in message:
        flow.tx_rx.port.rx_names = []
    change(flow)
    with pytest.raises(Exception, match=f"(?s){message}"):
        api.set_config(config)


def test_tunnels_both_ways_and_plain_flows_run_together(api: Any, server: Any) -> None:
    """Flows at one port have different stream IDs, inside a tunnel and outside."""
    config = config_of(api, server)
    add_tunnel(config)
    other = add_tunnel(config)
    other.name = "f2"
    other.packet[3].vni.value = 9
    other.tx_rx.port.tx_name, other.tx_rx.port.rx_names = "p2", ["p1"]
    plain = add_tunnel(config)
    plain.name = "f3"
    del plain.packet._items[:4]
    api.set_config(config)
    transmit(api)
    for flow in until_stopped(api).values():
        assert (flow.frames_tx, flow.frames_rx, flow.loss) == (FRAMES, FRAMES, 0)
