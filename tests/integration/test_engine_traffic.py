"""Every kind of frame over a veth pair, read by tcpdump and tshark: it decodes correctly, all
checksums are right, and all sent frames arrive; also through echoes and forwarders."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.engine_tools import Engine, Node, needs_engine, port, veth_pair
from tests.integration.machine import needs_root
from tests.integration.test_engine_kernel_io import all_ios
from tests.integration.test_engine_schedule import fields, tcpdump

pytestmark = [*needs_engine, needs_root]
needs_tshark = pytest.mark.skipif(
    shutil.which("tshark") is None or shutil.which("tcpdump") is None,
    reason="tshark or tcpdump is not installed",
)
PATIENT = ["--catch-up-us", "1000000", "--idle", "yield"]
CLOSELY = ["--idle", "yield", "--interval", "0.05"]
# Not the addresses of the devices, so that their kernels ignore the frames.
ADDRESSES = ["--src-mac", "02:00:00:00:00:0a", "--dst-mac", "02:00:00:00:00:0b"]
SWAPPED = ["--src-mac", "02:00:00:00:00:0b", "--dst-mac", "02:00:00:00:00:0a"]
CHECKED = ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]
GOOD = "1"

KINDS = {
    "ipv4": "--frame-size 64",
    "vlan": "--frame-size 68 --vlan 100",
    "qinq": "--frame-size 72 --vlan 200.100",
    "ipv6": "--frame-size 84 --ip-version 6",
    "ipv6-vlan": "--frame-size 88 --ip-version 6 --vlan 100",
    "ipv6-qinq": "--frame-size 92*3+1024+1500 --ip-version 6 --vlan 200.100 --touch",
    "imix": "--frame-size imix",
    "genome": "--frame-size genome:aaafaB:B=300 --payload counter",
    "random": "--frame-size random:64-1518 --payload random",
    "flows": "--frame-size 64+333 --flows 100:src-ip+src-port=7+dst-port=9/random",
    "flows-vlan": "--frame-size 72 --vlan 200.100 --flows 50:vlan+src-ip",
    "flows-ipv6": "--frame-size 84 --ip-version 6 --flows 1M:src-ip/random",
    "zipf": "--frame-size 64 --flows 1000:src-ip:zipf=1.0 --touch --payload counter",
    "macs": "--frame-size 64 --flows 10:src-mac",
    "grid": "--frame-size 64 --flows 100:src-ip=10+src-port=10",
    "drawn": "--frame-size random:imix",
    "zipf-vlan": "--frame-size 72 --vlan 200.100 --flows 50:vlan:zipf=1.0",
    "all": "--frame-size genome:5A3B2C:A=92:B=590:C=1518 --ip-version 6 --vlan 200.100 "
    "--flows 1000:src-mac+dst-ip=100/random+src-port+vlan=10 --payload counter",
}


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Node, Node]]:
    with veth_pair("tr") as pair:
        yield pair


@contextlib.contextmanager
def running(namespace: str, role: str, *args: str) -> Iterator[Engine]:
    """An engine in a namespace, with addresses, that has printed `ready`."""
    process = Engine(role, list(args), namespace)
    try:
        process.wait("ready")
        yield process
    finally:
        process.close()


def mirrored(options: list[str]) -> list[str]:
    """Return the options of the same flows from the other end."""
    if "--flows" not in options:
        return options
    at = options.index("--flows") + 1
    parts = options[at]
    for a, b in (("src-", "@"), ("dst-", "src-"), ("@", "dst-")):
        parts = parts.replace(a, b)
    return [*options[:at], parts, *options[at + 1 :]]


@needs_tshark
@pytest.mark.parametrize("kind", KINDS)
def test_captured_frames_decode_correctly(
    wire: tuple[Node, Node], tmp_path: Path, kind: str
) -> None:
    a, b = wire
    options = KINDS[kind].split()
    pcap = tmp_path / "seen.pcap"
    with (
        tcpdump(b, pcap, "ether src 02:00:00:00:00:0a or ether[0] = 2"),
        running(
            b.namespace, "receiver", "--port", port("raw-mmsg", b), *SWAPPED, *PATIENT,
            *mirrored(options),
        ) as receiver,
        running(
            a.namespace, "sender", "--port", port("raw-mmsg", a), *ADDRESSES, *PATIENT, *options,
        ) as sender,
    ):  # fmt: skip
        receiver.tell("start")
        receiver.wait("started")
        sender.tell("start rate=20k burst=20 duration=0.1")
        sent = sender.wait("result")
        receiver.tell("stop")
        received = receiver.wait("result")
    totals = sent["totals"]
    frames = totals["tx_offered"]
    assert frames == 2000
    assert received["totals"]["rx_frames"] == frames
    assert received["totals"]["rx_bytes"] == totals["tx_bytes"]
    assert received["totals"]["rx_corrupt"] == received["totals"]["rx_foreign"] == 0
    assert received["loss"]["lost"] == 0

    rows = fields(
        pcap, "frame.len", "ip.checksum.status", "udp.checksum.status", "eth.type", "vlan.id",
        "ip.src", "ipv6.src", "udp.srcport", "udp.dstport", "eth.src", "ieee8021ad.id",
        options=CHECKED,
    )  # fmt: skip
    assert len(rows) == frames
    assert sum(int(row[0]) + 4 for row in rows) == totals["tx_bytes"]
    six = "--ip-version" in options
    assert {row[1] for row in rows} == ({""} if six else {GOOD})
    assert {row[2] for row in rows} == {GOOD}
    check_kind(kind, rows, sent)


# Of 2000 frames: sizes of mixes in turn (166 rounds of twelve and eight more; 333 of six and two;
# 200 of ten), the number of flows if it is not 1, and the frequency of the most popular flow by
# Zipf's law (1 / H(1000), 1 / H(50)).
SIZES = {
    "imix": {64: 166 * 7 + 5, 570: 166 * 4 + 2, 1518: 166 + 1},
    "genome": {64: 333 * 4 + 2, 1280: 333, 300: 333},
    "all": {92: 1000, 590: 600, 1518: 400},
}
FLOWS = {"flows": 100, "flows-vlan": 50, "flows-ipv6": 2000, "macs": 10, "grid": 100, "all": 1000}
POPULAR = {"zipf": 0.134, "zipf-vlan": 0.222}
VLANS = {"flows-vlan": 50, "zipf-vlan": 50, "all": 10}  # inner tags of two


def check_tags(kind: str, rows: list[list[str]]) -> None:
    """Check that the tags have the right type and the right IDs."""
    ids = {tuple(sorted({*row[4].split(","), *row[10].split(",")} - {""})) for row in rows}
    types = {row[3].split(",")[0] for row in rows}
    if kind in ("vlan", "ipv6-vlan"):
        assert (ids, types) == ({("100",)}, {"0x8100"})
    elif kind in ("qinq", "ipv6-qinq"):
        assert (ids, types) == ({("100", "200")}, {"0x88a8"})
    elif kind in VLANS:
        assert ids <= {tuple(sorted(("200", str(100 + i)))) for i in range(VLANS[kind])}
        assert len(ids) == VLANS[kind]
    else:
        assert ids == {()}


def check_kind(kind: str, rows: list[list[str]], sent: dict[str, object]) -> None:
    """Check sizes, tags and the number of flows of the kind."""
    check_tags(kind, rows)
    sizes = Counter(int(row[0]) + 4 for row in rows)
    if kind in SIZES:
        assert sizes == SIZES[kind]
        assert sent["sizes"] == [
            {"frame_size_bytes": size, "tx_frames": count} for size, count in sorted(sizes.items())
        ]
    elif kind == "random":
        assert min(sizes) >= 64
        assert max(sizes) <= 1518
        assert len(sizes) > 900
    elif kind == "drawn":
        assert set(sizes) == {64, 570, 1518}
        assert abs(sizes[64] - 2000 * 7 / 12) < 89  # four deviations
        assert abs(sizes[1518] - 2000 / 12) < 67
    flows = Counter((row[5], row[6], row[7], row[8], row[9], row[4]) for row in rows)
    if kind in POPULAR:
        assert abs(flows.most_common(1)[0][1] / 2000 - POPULAR[kind]) < 0.04
    else:
        assert len(flows) == FLOWS.get(kind, 1)
        assert set(flows.values()) == {2000 // len(flows)}


@needs_tshark
def test_the_same_seed_sends_the_same_frames(tmp_path: Path) -> None:
    def sent(*more: str) -> list[list[str]]:
        path = tmp_path / "made.pcap"
        command = ["--port", f"pcap:write={path}", "--start", "now", *ADDRESSES, *PATIENT, *more]
        sender = Engine("sender", command)
        try:
            assert sender.finish("wait")[1] == 0
        finally:
            sender.close()
        return fields(path, "frame.len", "ip.src", "udp.srcport")

    options = "--rate 100k --burst 10 --duration 0.01 --frame-size random:64-1518:seed={0}"
    options += " --flows 1000:src-ip/random+src-port/random:seed={0}"
    drawn = "--rate 100k --burst 10 --duration 0.01 --frame-size random:imix:seed={0}"
    drawn += " --flows 500:src-ip:zipf=0.8:seed={0}"
    for text in (options, drawn):
        first, again, other = (sent(*text.format(seed).split()) for seed in (3, 3, 4))
        assert len(first) == 1000
        assert first == again != other


@needs_tshark
def test_probes_work_with_every_kind_of_load(wire: tuple[Node, Node], tmp_path: Path) -> None:
    """Poisson, a mix of sizes, flows, IPv6, two tags and a probe stream together."""
    a, b = wire
    options = ["--frame-size", "92*7+598*4+1518", *["--ip-version", "6", "--vlan", "200.100"]]
    options += ["--flows", "100:src-ip=10+src-port=10", "--stream", "9"]
    load = ["--schedule", "poisson:5", "--burst", "1", "--rate", "5k", "--probe-rate", "500"]
    pcap = tmp_path / "seen.pcap"
    with (
        tcpdump(b, pcap, "ether[0] = 2"),
        running(
            b.namespace, "receiver", "--port", port("raw-mmsg", b), *SWAPPED, *PATIENT,
            *mirrored(options), "--probes", "1",
        ) as receiver,
        running(
            a.namespace, "sender", "--port", port("raw-mmsg", a), *ADDRESSES, *PATIENT, *options,
            *load,
        ) as sender,
    ):  # fmt: skip
        receiver.tell("start")
        receiver.wait("started")
        sender.tell("start duration=0.5")
        sent = sender.wait("result")
        receiver.tell("stop")
        received = receiver.wait("result")
    for sending, receiving, mean in (
        (sent, received, 2500),
        (sent["probe"], received["probe"], 250),
    ):
        offered = sending["totals"]["tx_offered"]
        assert abs(offered - mean) < 5 * mean**0.5
        assert receiving["loss"]["received_unique"] == receiving["totals"]["rx_frames"] == offered
        assert receiving["totals"]["rx_bytes"] == sending["totals"]["tx_bytes"]
        assert receiving["totals"]["rx_corrupt"] == receiving["loss"]["lost"] == 0
    assert received["probe"]["latency"]["count"] == sent["probe"]["totals"]["tx_offered"]
    captured = fields(
        pcap, "frame.len", "udp.checksum.status", "udp.payload", "ipv6.src", "udp.srcport",
        options=CHECKED,
    )  # fmt: skip
    assert {row[1] for row in captured} == {GOOD}
    for sending, stream in ((sent, "0009"), (sent["probe"], "8009")):
        rows = [row for row in captured if row[2].replace(":", "")[4:8] == stream]
        assert len(rows) == sending["totals"]["tx_offered"]
        assert sum(int(row[0]) + 4 for row in rows) == sending["totals"]["tx_bytes"]
        assert len({(row[3], row[4]) for row in rows}) == 100


@pytest.mark.parametrize("kind", ["vlan", "qinq", "ipv6", "ipv6-qinq", "imix", "flows", "zipf"])
@pytest.mark.parametrize("io", ["raw", "raw-mmsg"])
def test_server_echoes_every_kind(wire: tuple[Node, Node], kind: str, io: str) -> None:
    a, b = wire
    options = KINDS[kind].split()
    with (
        running(
            b.namespace, "server", "--port", port(io, b), *SWAPPED, *PATIENT, *mirrored(options),
        ) as server,
        running(
            a.namespace, "client", "--port", port(io, a), *ADDRESSES, *PATIENT, *options,
        ) as client,
    ):  # fmt: skip
        server.tell("start")
        server.wait("started")
        client.tell("start rate=2k burst=1 duration=0.2 patience=2s")
        result = client.wait("result")
    assert result["totals"]["tx_offered"] == 400
    assert result["totals"]["rx_frames"] == 400
    assert result["totals"]["rx_bytes"] == result["totals"]["tx_bytes"]
    assert result["totals"]["rx_corrupt"] == 0
    assert result["latency"]["count"] == 400


@pytest.mark.parametrize("kind", ["vlan", "qinq", "ipv6-vlan", "flows-vlan", "ipv6"])
def test_io_uring_keeps_the_tags(wire: tuple[Node, Node], kind: str) -> None:
    """Packet sockets return frames without their outer tag, which comes separately."""
    a, b = wire
    options = KINDS[kind].split()
    with (
        running(
            b.namespace, "receiver", "--port", f"io_uring:dev={b.device}", *SWAPPED, *PATIENT,
            *mirrored(options),
        ) as receiver,
        running(
            a.namespace, "sender", "--port", f"io_uring:dev={a.device}", *ADDRESSES, *PATIENT,
            *options,
        ) as sender,
    ):  # fmt: skip
        receiver.tell("start")
        receiver.wait("started")
        sender.tell("start rate=10k burst=20 duration=0.1")
        sent = sender.wait("result")["totals"]
        receiver.tell("stop")
        received = receiver.wait("result")
    assert sent["tx_offered"] == 1000
    assert received["totals"]["rx_frames"] == 1000
    assert received["totals"]["rx_bytes"] == sent["tx_bytes"]
    assert received["totals"]["rx_corrupt"] == received["totals"]["rx_other"] == 0


@pytest.fixture(scope="module")
def two_wires() -> Iterator[tuple[Node, list[str], Node]]:
    """Two ends, and between them a namespace with a device on either wire."""
    with veth_pair("tf") as (a, near), veth_pair("tg") as (far, b):
        moved = f"{far.device}x"[:15]
        where = ["ip", "-n", far.namespace, "link", "set", far.device]
        subprocess.run([*where, "down"], check=True)
        subprocess.run([*where, "name", moved, "netns", near.namespace], check=True)
        subprocess.run(["ip", "-n", near.namespace, "link", "set", moved, "up"], check=True)
        far.device = moved
        ports = ["--port", port("raw-mmsg", near), "--port", port("raw-mmsg", far)]
        yield a, [near.namespace, *ports], b


@pytest.mark.parametrize("kind", ["ipv4", "vlan", "qinq", "ipv6-vlan", "flows-vlan", "imix"])
@pytest.mark.parametrize("role", ["forwarder", "reference"])
def test_forwarder_passes_every_kind(
    two_wires: tuple[Node, list[str], Node], kind: str, role: str
) -> None:
    a, (between, *ports), b = two_wires
    options = KINDS[kind].split()
    update = ["--mac-update", *ADDRESSES] if role == "forwarder" else []
    with (
        running(between, role, *ports, *update, *CLOSELY, "--start", "now") as forwarder,
        running(
            b.namespace, "receiver", "--port", port("raw-mmsg", b), *SWAPPED, *PATIENT,
            *mirrored(options),
        ) as receiver,
        running(
            a.namespace, "sender", "--port", port("raw-mmsg", a), *ADDRESSES, *PATIENT, *options
        ) as sender,
    ):  # fmt: skip
        forwarder.wait("started")
        receiver.tell("start")
        receiver.wait("started")
        sender.tell("start rate=4k burst=20 duration=0.1")
        sent = sender.wait("result")["totals"]
        forwarder.wait_passed(sent["tx_offered"])
        receiver.tell("stop")
        received = receiver.wait("result")
    assert sent["tx_offered"] == 400
    assert received["totals"]["rx_frames"] == 400
    assert received["totals"]["rx_bytes"] == sent["tx_bytes"]
    assert received["totals"]["rx_corrupt"] == 0


def totals_of(
    wire: tuple[Node, Node], io: str, options: tuple[str, ...], senders: list[tuple[str, ...]],
    stop: str = "stop",
) -> dict[str, int]:  # fmt: skip
    """Return a receiver's counts of 200 frames of each sender, one sender after the other."""
    a, b = wire
    sending = ("sender", "--port", port("raw-mmsg", a), *ADDRESSES, *PATIENT)
    with contextlib.ExitStack() as stack:
        receiver = stack.enter_context(
            running(b.namespace, "receiver", "--port", port(io, b), *SWAPPED, *options)
        )
        ready = [stack.enter_context(running(a.namespace, *sending, *one)) for one in senders]
        receiver.tell("start")
        receiver.wait("started")
        for sender in ready:
            sender.tell("start rate=10k burst=20 duration=0.02")
            sender.wait("result")
        receiver.tell(stop)
        totals: dict[str, int] = receiver.wait("result")["totals"]
    return totals


TAGGED = ("--vlan", "100", "--frame-size", "68")
TAGGED_OTHERWISE = ("--vlan", "101", "--frame-size", "68")
TAGGED_TWICE = ("--vlan", "200.100", "--frame-size", "72")


def test_frames_of_another_kind_are_distinguished(wire: tuple[Node, Node]) -> None:
    totals = totals_of(wire, "raw-mmsg", ("--vlan", "100"), [TAGGED_OTHERWISE, ()])
    assert totals["rx_frames"] == 0
    assert totals["rx_corrupt"] == 200
    assert totals["rx_other"] >= 200


@pytest.mark.parametrize("io", all_ios("raw", "raw-mmsg", "io_uring", "packet_mmap"))
def test_tagged_frames_are_not_taken_for_untagged_ones(wire: tuple[Node, Node], io: str) -> None:
    """The kernel delivers them without their outer tag."""
    totals = totals_of(wire, io, (), [TAGGED, TAGGED_TWICE, ()], "stop sent=200")
    assert totals["rx_frames"] == 200
    assert totals["rx_corrupt"] == 0
    assert totals["rx_other"] >= 400
