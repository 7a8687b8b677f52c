"""The engine's command lines for OTG configurations, and refusals by path."""

from __future__ import annotations

import itertools
import json
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
import snappi

from switchmark.errors import UsageError
from switchmark.http_guard import is_loopback, read_token
from switchmark.otg import headers, types
from switchmark.otg.capture import with_fcs
from switchmark.otg.frames import MOST_FRAMES, Addresses, Cycle, frame, write_pcap
from switchmark.otg.plan import plan_flows
from switchmark.otg.ports import TrafficPort, parse_port, parse_ports
from switchmark.otg.refusal import Refused
from switchmark.otg.server import OtgServer

PORTS = {
    "eth1": TrafficPort("eth1", "raw:dev=eth1", None, shared=True),
    "eth2": TrafficPort("eth2", "raw:dev=eth2", None, shared=True),
}


@pytest.fixture
def config() -> Any:
    config = snappi.Api().config()
    config.ports.add(name="p1", location="eth1")
    config.ports.add(name="p2", location="eth2")
    flow = config.flows.add(name="f")
    flow.tx_rx.port.tx_name, flow.tx_rx.port.rx_names = "p1", ["p2"]
    eth, ip, udp = flow.packet.ethernet().ipv4().udp()
    eth.src.value, eth.dst.value = "02:00:00:00:00:01", "02:00:00:00:00:02"
    ip.src.value, ip.dst.value = "10.0.0.1", "10.0.0.2"
    udp.src_port.value, udp.dst_port.value = 1, 2
    return config


def planned(config: Any) -> Any:
    (plan,) = plan_flows(types.Config.model_validate_json(config.serialize()), PORTS)
    return plan


def option(arguments: Any, name: Any) -> Any:
    return arguments[arguments.index(name) + 1]


def test_plain_flow_needs_no_file(config: Any) -> None:
    plan = planned(config)
    assert plan.replay is None
    assert option(plan.sender, "--rate") == "1000"  # OTG's defaults
    assert option(plan.sender, "--packet-size") == "64"
    assert option(plan.sender, "--duration") == "0"
    assert option(plan.receiver, "--src-ip") == option(plan.sender, "--dst-ip") == "10.0.0.2"
    assert plan.rx.spec == "raw:dev=eth2"
    assert plan.rx.waiting_spec == "raw:dev=eth2,block"


def test_counting_addresses_are_flows(config: Any) -> None:
    ip = config.flows[0].packet[1]
    for field, count in ((ip.src, 10), (ip.dst, 4)):
        field.increment.start, field.increment.step = "10.0.0.1", "0.0.0.1"
        field.increment.count = count
    plan = planned(config)
    assert plan.replay is None
    assert option(plan.sender, "--flows") == "20:src-ip=10+dst-ip=4"
    assert option(plan.receiver, "--flows") == "20:dst-ip=10+src-ip=4"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda r: setattr(r, "pps", 5), ["--rate", "5"]),
        (lambda r: setattr(r, "mbps", 5), ["--rate", "5Mbps-l2"]),
        (lambda r: setattr(r, "percentage", 12.5), ["--rate", "12.5%", "--line-rate", "25000Mbps"]),
        (lambda r: setattr(r, "percentage", 100), ["--rate", "25000Mbps-l1"]),
    ],
)
def test_rates(config: Any, change: Any, expected: Any) -> None:
    config.layer1.add(name="l", port_names=["p1"]).speed = "speed_25_gbps"
    change(config.flows[0].rate)
    sender = list(planned(config).sender)
    place = sender.index("--rate")
    assert sender[place : place + len(expected)] == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda s: setattr(s.weight_pairs, "predefined", "imix"), "random:imix"),
        (
            lambda s: [
                s.weight_pairs.custom.custom(size=a, weight=w) for a, w in ((64, 1.5), (99, 3))
            ],
            "random:64*1+99*2",
        ),
        (lambda s: setattr(s.random, "min", 100), "random:100-1518"),
        (lambda s: setattr(s.increment, "step", 727), "64+791+1518"),
    ],
)
def test_sizes(config: Any, change: Any, expected: Any) -> None:
    change(config.flows[0].size)
    assert option(planned(config).sender, "--packet-size") == expected


def test_fixed_number_of_frames_needs_no_file(config: Any) -> None:
    """The engine counts the frames itself, also if their sizes differ."""
    flow = config.flows[0]
    flow.size.weight_pairs.predefined = "imix"
    flow.duration.fixed_packets.packets = 1_000_001
    plan = planned(config)
    assert plan.replay is None
    assert option(plan.sender, "--frames") == "1000001"
    assert option(plan.receiver, "--packet-size") == "1518", "the largest frame"


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No modifier fits into a command line, so that the frames come from a file."""
    monkeypatch.setattr(headers, "MOST_MODIFIER_CHARACTERS", 0)


@pytest.mark.usefixtures("replayed")
@pytest.mark.parametrize("packets", [30, 65_537, 1_000_000])
def test_fixed_number_of_frames_repeats_the_file(config: Any, tmp_path: Path, packets: Any) -> None:
    """The file has each different frame once; the last replay may be partial."""
    flow = config.flows[0]
    flow.packet[2].src_port.values = [5, 6, 7]
    flow.size.fixed = 100
    flow.duration.fixed_packets.packets = packets
    plan = planned(config)
    assert plan.replay.frames == 3
    assert option(plan.sender, "--frames") == str(packets)
    assert option(plan.replay.arguments, "--loops") == "0"
    plan.replay.write(tmp_path / "f.pcap")
    data = (tmp_path / "f.pcap").read_bytes()
    assert len(data) == 24 + 3 * (16 + 96)


@pytest.mark.usefixtures("replayed")
def test_drawn_sizes_with_a_list_fill_whole_periods(config: Any) -> None:
    flow = config.flows[0]
    flow.packet[2].src_port.values = [5, 6, 7]
    flow.size.weight_pairs.predefined = "imix"
    flow.duration.fixed_packets.packets = 1_000_000
    plan = planned(config)
    assert plan.replay.frames == MOST_FRAMES // 3 * 3
    assert len(plan.replay.sizes) == plan.replay.frames
    flow.duration.fixed_packets.packets = 10
    assert planned(config).replay.frames == 10


@pytest.mark.usefixtures("replayed")
def test_refusal_of_too_many_frames_names_the_sizes(config: Any) -> None:
    flow = config.flows[0]
    flow.packet[2].src_port.values = list(range(1, 101))
    flow.size.increment.step = 1
    assert planned(config).replay.frames == 29100
    flow.packet[2].src_port.values = list(range(1, 1000))
    with pytest.raises(Refused, match="different frames, with 1455 sizes in turn"):
        planned(config)


def test_frames_in_a_file_equal_single_frames(tmp_path: Path) -> None:
    """`write_pcap` makes them by columns. The cases cover all optional parts of a frame."""
    sizes = [128, 111, 1518, 97]
    for version, vlans, payload in itertools.product((4, 6), ((), (5,), (7, 9)), (b"", b"abc")):
        ips = ["10.0.0.255", "10.255.0.1"] if version == 4 else ["2001:db8::ffff", "::1"]
        macs = ["02:00:00:00:00:01", "02:00:00:ff:00:01"]
        cycle = Cycle(macs, macs[:1], ips, ips[1:], [0, 65535, 7], [9, 1], vlans, payload)
        write_pcap(tmp_path / "f.pcap", cycle, sizes, 30, range(0, 30_000, 1000))
        data = (tmp_path / "f.pcap").read_bytes()
        at = 24
        for n in range(30):
            expected = frame(cycle.at(n), vlans, sizes[n % 4], payload)
            assert struct.unpack_from("<IIII", data, at) == (
                0,
                1000 * n,
                len(expected),
                len(expected),
            )
            assert data[at + 16 : at + 16 + len(expected)] == expected, (version, vlans, n)
            at += 16 + len(expected)
        assert at == len(data)


@pytest.mark.usefixtures("replayed")
def test_addresses_beyond_32_bits_come_from_a_file(config: Any) -> None:
    """The engine counts in the lowest 32 bits of a MAC or IPv6 address."""
    src = config.flows[0].packet[0].src
    src.increment.start, src.increment.step = "02:00:ff:ff:ff:fa", "00:00:00:00:00:01"
    src.increment.count = 10
    plan = planned(config)
    assert plan.replay.cycle.src_mac[6] == "02:01:00:00:00:00"


@pytest.mark.parametrize(
    ("gap_us", "pps", "bursts", "expected"),
    [
        (1000, 100_000, 5, ("--schedule", "on-off:40000ns:1000000ns")),
        (0, 100_000, 5, ("--rate", "100000")),
        (1000, 300_000, 5, ("--schedule", "recorded")),
    ],
)
def test_bursts_have_exact_counts(
    config: Any, gap_us: Any, pps: Any, bursts: Any, expected: Any
) -> None:
    """A recorded schedule skips late frames, so its bound is above every delay."""
    flow = config.flows[0]
    flow.rate.pps = pps
    flow.duration.burst.bursts, flow.duration.burst.packets = bursts, 4
    flow.duration.burst.inter_burst_gap.microseconds = gap_us
    sender = planned(config).sender
    assert option(sender, expected[0]) == expected[1]
    assert option(sender, "--frames") == "20"
    if expected[1] == "recorded":
        assert option(sender, "--catch-up-us") == "1000000000"


@pytest.mark.usefixtures("replayed")
def test_sender_has_the_tag_as_option_or_in_its_file(config: Any) -> None:
    """The engine refuses the option beside a file, whose frames have their tags."""
    flow = config.flows[0]
    flow.packet.clear()
    flow.packet.ethernet().vlan().ipv4().udp()
    flow.packet[1].id.value = 100
    flow.packet[3].src_port.value, flow.packet[3].dst_port.value = 1, 2
    flow.size.fixed = 128
    plan = planned(config)
    assert plan.replay is None
    assert option(plan.sender, "--vlan") == option(plan.receiver, "--vlan") == "100"
    flow.packet[3].src_port.values = [1, 5]
    plan = planned(config)
    assert plan.replay is not None
    assert "--vlan" not in plan.sender
    assert option(plan.receiver, "--vlan") == "100"


def ones_complement_sum(data: Any) -> Any:
    """Return the sum in ones_complement_sum' complement (RFC 1071)."""
    value = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while value >> 16:
        value = (value & 0xFFFF) + (value >> 16)
    return value


def test_frames_have_their_checksums() -> None:
    """Sums over headers that include the checksum have all bits set (RFC 1071)."""
    addresses = Addresses("02:00:00:00:00:01", "02:00:00:00:00:02", "10.0.0.1", "10.0.0.2", 7, 9)
    data = frame(addresses, (100,), 80)
    assert len(data) == 76
    assert data[12:16] == bytes.fromhex("81000064")
    ip, udp = data[18:38], data[38:]
    assert ones_complement_sum(ip) == 0xFFFF
    assert ones_complement_sum(ip[12:20] + struct.pack("!HH", 17, len(udp)) + udp) == 0xFFFF


def test_location_preemption_is_accepted(config: Any) -> None:
    """Scripts for hardware request it. Here no port has an owner. Other options are refused."""
    config.options.port_options.location_preemption = True
    assert planned(config).replay is None
    config.options.port_options.data_integrity = True
    with pytest.raises(Refused, match=r"options\.port_options\.data_integrity: true is not"):
        planned(config)


def test_too_many_flows_are_refused(config: Any) -> None:
    document = json.loads(config.serialize())
    document["flows"] = [{**document["flows"][0], "name": f"f{n}"} for n in range(257)]
    with pytest.raises(Refused, match="flows: 257 flows; 256 are supported"):
        plan_flows(types.Config.model_validate(document), PORTS)
    document["flows"].pop()
    assert len(plan_flows(types.Config.model_validate(document), PORTS)) == 256


@pytest.mark.usefixtures("replayed")
def test_port_0_is_sent_from_a_file(config: Any) -> None:
    """Port 0 is the API's default, and the engine's options refuse it."""
    config.flows[0].packet[2].src_port.value = 0
    plan = planned(config)
    assert plan.replay.cycle.at(0).src_port == 0
    assert "--src-port" not in plan.sender and "--dst-port" not in plan.receiver
    assert option(plan.sender, "--dst-port") == option(plan.receiver, "--src-port") == "2"
    config.flows[0].packet[2].src_port.increment.count = 10
    assert planned(config).replay is not None


def test_two_tags_are_refused_at_a_port_that_loses_one(config: Any) -> None:
    config.ports[1].location = "d2"
    flow = config.flows[0]
    flow.packet.clear()
    tags = flow.packet.ethernet().vlan().vlan().ipv4().udp()[1:3]
    tags[0].id.value, tags[1].id.value = 200, 100
    flow.size.fixed = 128
    ports = {**PORTS, "d2": parse_port("d2=dpdk:af-packet=x")}
    document = types.Config.model_validate_json(config.serialize())
    with pytest.raises(
        Refused, match=r"packet\[2\]\.vlan: DPDK's af-packet port p2 gives the outer"
    ):
        plan_flows(document, ports)


def test_client_payload_is_sent_if_there_is_no_receiver(config: Any, tmp_path: Path) -> None:
    """A receiver needs the engine's stamp in the place of the payload."""
    flow = config.flows[0]
    flow.packet.custom()[-1].bytes = "0x0A:0b 0c"
    message = "flows[0].packet[3].custom: a flow with a receiving port has the engine's stamp"
    with pytest.raises(Refused, match=re.escape(message)):
        planned(config)
    config.flows[0].tx_rx.port.rx_names = []
    plan = planned(config)
    assert not plan.replay.is_stamped
    assert plan.receiver is not None and plan.rx is None
    plan.replay.write(tmp_path / "f.pcap")
    data = (tmp_path / "f.pcap").read_bytes()[24 + 16 : 24 + 16 + 60]
    assert data[42:] == b"\x0a\x0b\x0c" + bytes(15)
    assert ones_complement_sum(data[26:34] + struct.pack("!HH", 17, 26) + data[34:]) == 0xFFFF
    flow.packet[3].bytes = "00" * 30
    with pytest.raises(Refused, match="is 64; frames with these headers have 76 to"):
        planned(config)
    document = json.loads(config.serialize())
    document["flows"][0]["packet"][3]["custom"]["bytes"] = "0g"
    with pytest.raises(Refused, match=r"custom\.bytes: '0g' is not hexadecimal"):
        plan_flows(types.Config.model_validate(document), PORTS)


def test_captured_frames_get_an_fcs_unless_they_were_cut() -> None:
    frame = bytes(range(60))
    head = struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
    whole = head + struct.pack("=IIII", 1, 2, 60, 60) + frame
    whole += struct.pack("=IIII", 3, 4, 20, 60) + frame[:20]
    completed = with_fcs(whole + b"cut")
    (link,) = struct.unpack_from("=I", completed, 20)
    assert link == 0x2400_0001, "Ethernet, with two 16-bit message of FCS (the pcap file format)"
    first, second = completed[24:104], completed[104:]
    assert struct.unpack_from("=IIII", first) == (1, 2, 64, 64)
    assert zlib.crc32(first[16:]) == 0x2144DF1C, "the CRC of a frame with its FCS, by IEEE 802.3"
    assert struct.unpack_from("=IIII", second) == (3, 4, 20, 64) and second[16:] == frame[:20]
    with pytest.raises(ValueError, match="not a pcap file"):
        with_fcs(b"")


def test_choice_can_be_left_out(config: Any) -> None:
    text = config.serialize().replace('"choice": "fixed",', "").replace('"choice": "pps",', "")
    (plan,) = plan_flows(types.Config.model_validate_json(text), PORTS)
    assert plan.replay is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.packet.clear(), "flows[0].packet: supported are"),
        (lambda f: setattr(f.tx_rx.port, "rx_names", ["p1"]), "is the sending port"),
        (lambda f: setattr(f.tx_rx.port, "tx_name", "p9"), "tx_name: there is no port p9"),
        (lambda f: setattr(f.rate, "percentage", 5), "the speed of the port is unknown"),
        (lambda f: setattr(f, "name", "p1"), "flows[0].name: p1 is also ports[0].name"),
        (lambda f: setattr(f.duration.burst, "packets", 5), "inter_burst_gap"),
        (lambda f: setattr(f.metrics, "timestamps", True), "flows[0].metrics.timestamps: is not"),
    ],
)
def test_refusals_name_the_path(config: Any, change: Any, message: Any) -> None:
    change(config.flows[0])
    if "gap" in message:
        config.flows[0].duration.burst.inter_burst_gap.bytes = 100
    with pytest.raises(Refused) as caught:
        planned(config)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("02:00:00:00:00:01", "02:00", "flows[0].packet[0].ethernet.src.value: 02:00 is not a MAC"),
        ("10.0.0.1", "10.0.0", "flows[0].packet[1].ipv4.src.value: Expected 4 octets"),
    ],
)
def test_invalid_addresses_are_refused(config: Any, old: Any, new: Any, message: Any) -> None:
    text = config.serialize().replace(old, new)
    with pytest.raises(Refused) as caught:
        plan_flows(types.Config.model_validate_json(text), PORTS)
    assert message in str(caught.value)


def test_ports() -> None:
    assert parse_port("p2=virtio-user:/run/p2.sock,server") == TrafficPort(
        "p2", "dpdk:virtio-user=/run/p2.sock,server", None, shared=False
    )
    assert parse_port("lo").spec == "raw:dev=lo,mmsg"
    assert parse_port("x=af_xdp:dev=lo,queues=2").spec == "af_xdp:dev=lo,queues=2"
    for text, message in (
        ("nodevice0", "there is no device nodevice0"),
        ("p=parrot:x", "parrot is not a kind of port; known are raw"),
        ("=raw", "write LOCATION=KIND"),
    ):
        with pytest.raises(UsageError, match=message):
            parse_port(text)
    with pytest.raises(UsageError, match="location lo is repeated"):
        parse_ports(["lo", "lo=packet_mmap"])
    with pytest.raises(UsageError, match="give at least one"):
        parse_ports([])


def test_remote_access_requires_secrets(tmp_path: Path) -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    with pytest.raises(UsageError, match="give --certificate, --key and --token-file"):
        OtgServer(("0.0.0.0", 0), None, token="x" * 32)
    short = tmp_path / "token"
    short.write_text("short\n")
    with pytest.raises(UsageError, match="openssl rand"):
        read_token(short)


def test_fields_with_patterns_are_modified_by_the_engine(config: Any) -> None:
    """Each pattern is a modifier; the receiver compares those that a router leaves."""
    flow = config.flows[0]
    flow.packet.clear()
    eth, tag, ip, udp = flow.packet.ethernet().vlan().ipv4().udp()
    flow.size.fixed = 128
    eth.dst.increment.step, eth.dst.increment.count = "00:00:00:00:00:02", 5
    tag.id.decrement.start, tag.id.decrement.count = 100, 3
    tag.priority.values = [1, 7]
    ip.src.random.min, ip.src.random.max, ip.src.random.count = "10.0.0.0", "10.0.0.9", 50
    ip.time_to_live.decrement.start, ip.time_to_live.decrement.count = 9, 5
    ip.priority.dscp.phb.values = [1, 2]
    ip.identification.value = 77
    udp.src_port.value, udp.dst_port.value = 1, 2
    plan = planned(config)
    assert plan.replay is None
    sent = [b for a, b in itertools.pairwise(plan.sender) if a == "--modify"]
    assert sorted(sent) == [
        "dscp=values,1,2", "dst-mac=increment,00:00:00:00:00:00,00:00:00:00:00:02,5", "id=77",
        "pcp=values,1,7", "src-ip=random,10.0.0.0,10.0.0.9,50,1", "ttl=decrement,9,1,5",
        "vlan=decrement,100,1,3",
    ]  # fmt: skip
    compared = [b for a, b in itertools.pairwise(plan.receiver) if a == "--modify"]
    assert {modifier.partition("=")[0] for modifier in compared} == {"id", "src-ip", "vlan"}
    assert plan.paths["modify ttl"] == "flows[0].packet[2].ipv4.time_to_live"
