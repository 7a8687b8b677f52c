"""Patterns of OTG fields, through snappi over a veth pair: the captured frames have the values of
the pattern one after the other, right checksums, and the receiver counts them."""

from __future__ import annotations

import ipaddress
import shutil
import struct
from collections.abc import Iterator
from typing import Any

import pytest
import snappi

from switchmark.function.support.frames import parse
from tests.integration.otg_server import (
    A_MAC,
    add_flow,
    captured,
    config_of,
    counted,
    inside,
    mac,
    serve,
    until_stopped,
)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        shutil.which("tcpdump") is None, reason="no program `tcpdump` (apt install tcpdump)"
    ),
]
FRAMES, FCS_BYTES = 60, 4
VLAN, NETWORK, UDP = 1, 2, 3  # headers of a tagged frame
IP = 18  # offset of its IP header


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from serve(tmp_path_factory.mktemp("modifiers"))


@pytest.fixture
def api(server: Any) -> Iterator[Any]:
    with inside(server):
        yield snappi.api(location=server.location)


def ip4(text: str) -> int:
    return int(ipaddress.ip_address(text))


def set_pattern(field: Any, kind: str, *values: Any) -> None:
    if kind == "values":
        field.values = values[0]
    elif kind == "random":
        field.random.min, field.random.max, field.random.count, field.random.seed = values
    else:
        counter = getattr(field, kind)
        counter.start, counter.step, counter.count = values


def add_tagged(config: Any, six: bool) -> Any:
    flow = add_flow(config, vlan=100, six=six)
    flow.rate.pps, flow.duration.fixed_packets.packets = 600, FRAMES
    return flow


def field_of(flow: Any, header: int, name: str) -> Any:
    part = flow.packet[header]
    for step in name.split("."):
        part = getattr(part, step)
    return part


def run(api: Any, config: Any) -> list[bytes]:
    """Return the captured frames without FCS; all were counted, and their checksums are right."""
    frames = [one[:-FCS_BYTES] for one in captured(api, config) if one[6:12] == mac(A_MAC)]
    found = until_stopped(api)["f1"]
    assert (found.frames_tx, found.frames_rx, found.loss) == (FRAMES, FRAMES, 0)
    assert len(frames) == FRAMES
    for frame in frames:
        parse(frame)
    return frames


# IPv6 or not; header, field and pattern; bits of the frame (byte, format, lowest bit, width);
# values.
Place = tuple[int, str, int, int]
CASES: list[tuple[bool, int, str, tuple[Any, ...], Place, list[int]]] = [
    (False, VLAN, "id", ("increment", 4093, 1, 4), (14, "!H", 0, 12), [4093, 4094, 4095, 0]),
    (False, VLAN, "id", ("decrement", 3, 1, 3), (14, "!H", 0, 12), [3, 2, 1]),
    (False, VLAN, "id", ("values", [7, 4094, 1]), (14, "!H", 0, 12), [7, 4094, 1]),
    (False, VLAN, "priority", ("increment", 0, 3, 8), (14, "!H", 13, 3),
     [0, 3, 6, 1, 4, 7, 2, 5]),
    (False, VLAN, "priority", ("values", [7, 0]), (14, "!H", 13, 3), [7, 0]),
    (False, VLAN, "cfi", ("values", [0, 1, 1]), (14, "!H", 12, 1), [0, 1, 1]),
    (False, NETWORK, "src", ("increment", "10.0.0.254", "0.0.1.1", 3), (IP + 12, "!I", 0, 32),
     [ip4("10.0.0.254"), ip4("10.0.1.255"), ip4("10.0.3.0")]),
    (False, NETWORK, "dst", ("decrement", "10.0.0.1", "0.0.0.1", 3), (IP + 16, "!I", 0, 32),
     [ip4("10.0.0.1"), ip4("10.0.0.0"), ip4("9.255.255.255")]),
    (False, NETWORK, "dst", ("values", ["1.2.3.4", "200.1.1.1"]), (IP + 16, "!I", 0, 32),
     [ip4("1.2.3.4"), ip4("200.1.1.1")]),
    (False, NETWORK, "time_to_live", ("decrement", 2, 1, 4), (IP + 8, "!B", 0, 8),
     [2, 1, 0, 255]),
    (False, NETWORK, "identification", ("increment", 65_534, 1, 5), (IP + 4, "!H", 0, 16),
     [65_534, 65_535, 0, 1, 2]),
    (False, NETWORK, "dont_fragment", ("values", [1, 0]), (IP + 6, "!B", 6, 1), [1, 0]),
    (False, NETWORK, "priority.raw", ("increment", 0, 85, 3), (IP + 1, "!B", 0, 8), [0, 85, 170]),
    (False, NETWORK, "priority.dscp.phb", ("decrement", 1, 1, 3), (IP + 1, "!B", 2, 6),
     [1, 0, 63]),
    (False, NETWORK, "priority.dscp.ecn", ("values", [3, 1, 0, 2]), (IP + 1, "!B", 0, 2),
     [3, 1, 0, 2]),
    (False, UDP, "src_port", ("increment", 65_535, 1, 3), (IP + 20, "!H", 0, 16), [65_535, 0, 1]),
    (False, UDP, "dst_port", ("decrement", 1, 1, 3), (IP + 22, "!H", 0, 16), [1, 0, 65_535]),
    (True, NETWORK, "src", ("increment", "2001:db8::ffff:ffff:fffe", "::1", 4),
     (IP + 16, "!Q", 0, 64), [0xFFFFFFFFFFFE, 0xFFFFFFFFFFFF, 1 << 48, (1 << 48) + 1]),
    (True, NETWORK, "dst", ("decrement", "2001:db8:0:1::", "::1", 2), (IP + 24, "!Q", 0, 64),
     [0x20010DB800000001, 0x20010DB800000000]),
    (True, NETWORK, "dst", ("values", ["2001:db8::5", "2001:db8:ffff::5"]), (IP + 24, "!Q", 0, 64),
     [0x20010DB800000000, 0x20010DB8FFFF0000]),
    (True, NETWORK, "traffic_class", ("increment", 254, 1, 4), (IP, "!H", 4, 8),
     [254, 255, 0, 1]),
    (True, NETWORK, "flow_label", ("decrement", 1, 1, 3), (IP, "!I", 0, 20), [1, 0, 0xFFFFF]),
    (True, NETWORK, "hop_limit", ("values", [1, 255]), (IP + 7, "!B", 0, 8), [1, 255]),
]  # fmt: skip


def value_at(frame: bytes, place: Place) -> int:
    offset, form, lowest, width = place
    value: int = struct.unpack_from(form, frame, offset)[0]
    return value >> lowest & ((1 << width) - 1)


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{'ipv6' if case[0] else 'ipv4'}-{case[2]}-{case[3][0]}"
)
def test_field_has_the_values_of_its_pattern(api: Any, server: Any, case: Any) -> None:
    six, header, name, pattern, place, values = case
    config = config_of(api, server, capture=True)
    flow = add_tagged(config, six)
    set_pattern(field_of(flow, header, name), *pattern)
    frames = run(api, config)
    assert [value_at(frame, place) for frame in frames] == counted(values, FRAMES)


RANDOM = [
    (NETWORK, "src", ("10.1.0.0", "10.1.255.255"), IP + 12, 4),
    (NETWORK, "dst", ("10.2.0.0", "10.2.0.3"), IP + 16, 4),
    (UDP, "src_port", (1000, 1999), IP + 20, 2),
    (UDP, "dst_port", (0, 65_535), IP + 22, 2),
]


@pytest.mark.parametrize("case", RANDOM, ids=lambda case: case[1])
def test_random_values_repeat_and_follow_from_the_seed(api: Any, server: Any, case: Any) -> None:
    header, name, (low, high), offset, width = case
    runs = []
    for seed in (1, 1, 2):
        config = config_of(api, server, capture=True)
        flow = add_tagged(config, six=False)
        set_pattern(field_of(flow, header, name), "random", low, high, 25, seed)
        runs.append([frame[offset : offset + width] for frame in run(api, config)])
    first, second, third = runs
    assert first == second == counted(first[:25], FRAMES)
    assert first != third
    bounds = [ip4(bound).to_bytes(4) if width == 4 else bound.to_bytes(2) for bound in (low, high)]
    assert all(bounds[0] <= value <= bounds[1] for value in [*first, *third])
    assert len(set(first)) > 2
