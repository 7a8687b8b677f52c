"""Field modifiers over a veth pair: tshark decodes the frames. Each field has the values of its
definition, all checksums are good, and the receiver accepts these values alone."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.integration.engine_tools import Engine, Node, engine_path, needs_engine, veth_pair
from tests.integration.machine import needs_root
from tests.integration.test_engine_schedule import fields, tcpdump
from tests.integration.test_engine_tables import (
    UNHURRIED,
    engine_at,
    exchange,
    load,
    tunnels,
)
from tests.integration.test_engine_traffic import CHECKED, needs_tshark

pytestmark = [*needs_engine, needs_root]
FRAMES = 2000


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Node, Node]]:
    with veth_pair("m") as nodes:
        yield nodes


def counting(start: int, step: int, count: int, bits: int) -> Callable[[int], int]:
    """Return the value of a counter by the number of the frame."""
    return lambda n: (start + step * (n % count)) % (1 << bits)


def listed(*values: int) -> Callable[[int], int]:
    """Return the value of a list by the number of the frame."""
    return lambda n: values[n % len(values)]


def number(text: str) -> int:
    """Read a field as tshark prints it: an address, hexadecimal or decimal."""
    if len(text) == 17 and text[2::3] == ":" * 5:
        return int(text.replace(":", ""), 16)
    if "." in text or ":" in text:
        return int(ipaddress.ip_address(text))
    return {"True": 1, "False": 0}[text] if text in ("True", "False") else int(text, 0)


# The options, the modifiers, and for each the field of tshark and the values that it must have.
Kind = tuple[str, Sequence[tuple[str, str, Callable[[int], int]]]]
KINDS: dict[str, Kind] = {
    "ipv4": (
        "--frame-size 64",
        [
            ("ttl=increment,250,3,7", "ip.ttl", counting(250, 3, 7, 8)),
            ("dscp=decrement,2,1,64", "ip.dsfield.dscp", counting(2, -1, 64, 6)),
            ("ecn=values,0,3,1", "ip.dsfield.ecn", listed(0, 3, 1)),
            ("id=increment,0xfff0,17,5000", "ip.id", counting(0xFFF0, 17, 5000, 16)),
            ("df=values,0,1", "ip.flags.df", listed(0, 1)),
            ("src-ip=increment,10.0.0.250,0.0.1.1,90", "ip.src",
             counting(0x0A0000FA, 257, 90, 32)),
            ("dst-ip=values,20.0.0.1,30.0.0.1", "ip.dst", listed(0x14000001, 0x1E000001)),
            ("src-port=decrement,1,1,9", "udp.srcport", counting(1, -1, 9, 16)),
        ],
    ),
    "tags": (
        "--frame-size 64*2+300 --vlan 200.100 --packet-size 72*2+300",
        [
            ("src-mac=increment,02:00:00:00:ff:fe,1,900", "eth.src",
             counting(0x02000000FFFE, 1, 900, 48)),
            ("service-vlan=values,7,4095", "ieee8021ad.id", listed(7, 4095)),
            ("vlan=increment,4090,1,10", "vlan.id", counting(4090, 1, 10, 12)),
            ("pcp=values,0,7,3", "vlan.priority", listed(0, 7, 3)),
            ("dst-port=increment,0,1,65536", "udp.dstport", counting(0, 1, 65536, 16)),
        ],
    ),
    "ipv6": (
        "--ip-version 6 --frame-size 100 --touch",
        [
            ("traffic-class=increment,0,1,256", "ipv6.tclass", counting(0, 1, 256, 8)),
            ("flow-label=decrement,3,1,100", "ipv6.flow", counting(3, -1, 100, 20)),
            ("ttl=values,1,255", "ipv6.hlim", listed(1, 255)),
            ("src-ip=increment,2001:2::ffff:ffff:ffff:fff0,1,40", "ipv6.src",
             counting(int(ipaddress.ip_address("2001:2::ffff:ffff:ffff:fff0")), 1, 40, 128)),
            ("dst-ip=increment,2001:2::,::1:0:0:0:1,100", "ipv6.dst",
             counting(int(ipaddress.ip_address("2001:2::")), (1 << 64) + 1, 100, 128)),
        ],
    ),
}  # fmt: skip


@needs_tshark
@pytest.mark.parametrize("kind", KINDS)
def test_fields_have_their_values(wire: tuple[Node, Node], tmp_path: Path, kind: str) -> None:
    """tshark reads each value; checksums are good; the receiver finds every frame right."""
    a, b = wire
    options, modified = KINDS[kind]
    options_given = [*options.split(), *(w for text, *_ in modified for w in ("--modify", text))]
    pcap = tmp_path / "seen.pcap"
    own_macs = ["--src-mac", a.mac, "--dst-mac", "02:00:00:00:00:0b"]
    with (
        tcpdump(b, pcap, "ether dst 02:00:00:00:00:0b"),
        engine_at(b, "receiver", "raw-mmsg", *options_given) as receiver,
        engine_at(a, "sender", "raw-mmsg", *own_macs[2:], *options_given, *UNHURRIED) as sender,
    ):
        sent, received = exchange(receiver, sender)
    assert sent["totals"]["tx_offered"] == received["totals"]["rx_frames"] == FRAMES
    assert not any(received["expectation"]["wrong_fields"].values())
    sums = ["udp.checksum.status", "ip.checksum.status"][: 1 if kind == "ipv6" else 2]
    rows = fields(pcap, *sums, *(name for _, name, _ in modified), options=CHECKED)
    assert len(rows) == FRAMES
    for n, row in enumerate(rows):
        assert row[: len(sums)] == ["1"] * len(sums)
        values = [number(text.rpartition(",")[2]) for text in row[len(sums) :]]
        assert values == [value(n) for _, _, value in modified], f"frame {n}"


def test_changed_field_is_wrong_and_not_lost(wire: tuple[Node, Node]) -> None:
    """The receiver expects other values of one field, as if the switch had changed it."""
    a, b = wire
    same = ["--modify", "src-ip=random,10.0.0.0,10.255.255.255,777,5"]
    with (
        engine_at(b, "receiver", "raw-mmsg", *same, "--modify", "dscp=values,1,2") as receiver,
        engine_at(a, "sender", "raw-mmsg", *same, "--modify", "dscp=values,1,3", *UNHURRIED)
        as sender,
    ):  # fmt: skip
        _, received = exchange(receiver, sender)
    totals, wrong = received["totals"], received["expectation"]["wrong_fields"]
    assert (totals["rx_frames"], totals["rx_wrong_header"]) == (FRAMES // 2, FRAMES // 2)
    assert {name for name, count in wrong.items() if count} == {"dscp"}
    assert received["loss"]["lost"] == 0


@needs_tshark
def test_fields_of_the_outer_header(wire: tuple[Node, Node], tmp_path: Path) -> None:
    """VNI, outer addresses and the fields of the inner frame change together."""
    a, b = wire
    options_given = [
        "--frame-size", "100", "--modify", "vni=increment,0xfffffe,1,4",
        "--modify", "outer-src-ip=increment,10.1.0.1,1,3", "--modify", "outer-ttl=values,9,8",
        "--modify", "ttl=decrement,64,1,10", "--modify", "dst-ip=increment,20.0.0.1,1,100",
    ]  # fmt: skip
    pcap = tmp_path / "seen.pcap"
    with (
        tcpdump(b, pcap, "udp port 4789"),
        engine_at(b, "receiver", "raw-mmsg", "--decap", "vxlan", *options_given) as receiver,
        engine_at(
            a, "sender", "raw-mmsg", "--encap", "vxlan", *options_given, *UNHURRIED
        ) as sender,
    ):
        for end in (receiver, sender):
            load(end, tunnels()[:1], "tunnels")
        _, received = exchange(receiver, sender)
    assert received["totals"]["rx_frames"] == FRAMES
    assert not any(received["expectation"]["wrong_fields"].values())
    names = ("vxlan.vni", "ip.src", "ip.ttl", "ip.dst", "ip.checksum.status")
    rows = fields(pcap, *names, options=CHECKED)
    assert len(rows) == FRAMES
    for n, (vni, sources, ttls, targets, sums) in enumerate(rows):
        assert int(vni) == (0xFFFFFE + n % 4) % (1 << 24)
        assert sources.split(",")[0] == f"10.1.0.{1 + n % 3}"
        assert ttls.split(",") == [str(9 - n % 2), str(64 - n % 10)]
        assert targets.split(",")[1] == f"20.0.0.{1 + n % 100}" and sums == "1,1"


@pytest.mark.parametrize(("options_given", "says"), [
    (["--modify", "ttl=300"], "--modify ttl: a value is above 255"),
    (["--modify", "vlan=5"], "--modify vlan: frames have no 802.1Q header"),
    (["--modify", "src-ip=1.2.3.4", "--flows", "5"], "--flows varies this field"),
    (["--modify", "ttl=5", "--modify", "ttl=6"], "--modify ttl: overlaps ttl; keep one"),
    (["--modify", "ttl=5", "--replay", "none.pcap"], "--replay: the frames of the file"),
])  # fmt: skip
def test_useless_modifier_is_refused(options_given: list[str], says: str) -> None:
    """One line names the field and the reason."""
    command = [str(engine_path()), "sender", "--port", "null:", *options_given]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 2 and says in ended.stderr and ended.stderr.count("\n") == 1


def test_table_with_modified_addresses_is_refused() -> None:
    """The rows of a table have the addresses."""
    sender = Engine("sender", ["--port", "null:", "--modify", "src-ip=1.2.3.4"])
    try:
        sender.wait("ready")
        sender.tell("table rows=1")
        sender.tell("table xhIAAcYSAAIAAQACAAAAAA==")
        sender.tell("start")
        assert "leave the modifiers of these fields out" in sender.wait("error")["message"]
    finally:
        sender.close()


def test_list_has_every_field() -> None:
    """Programs read the fields, their layers and widths."""
    command = [str(engine_path()), "list", "--json"]
    text = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    found = {(row["name"], row["layer"]): row["bits"] for row in json.loads(text)["header_fields"]}
    assert found["ttl", "ipv4"] == 8 and found["src-ip", "ipv6"] == 128
    assert found["vni", "vxlan"] == 24 and found["flow-label", "ipv6"] == 20
