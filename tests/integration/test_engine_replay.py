"""Replay on every kind of port: a file's own times, stamps in tagged and IPv6 frames, additional
probes, and files that cannot be repeated."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.engine_tools import Node, needs_engine, port, veth_pair
from tests.integration.machine import needs_root
from tests.integration.test_engine_io_used import PATIENT, check_all
from tests.integration.test_engine_kernel_io import all_ios
from tests.integration.test_engine_schedule import (
    closing_engine,
    fields,
    file_of,
    in_some_attempt,
    needs_tshark,
    note_absence,
    tcpdump,
)

pytestmark = [*needs_engine, needs_root]


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Node, Node]]:
    with veth_pair("rp") as nodes:
        yield nodes


TIMES_MS = [0, 1, 2, 50, 50, 50, 120, 200]  # times of a file's frames


def write_file(path: Path) -> None:
    """Write a file of eight broadcast frames at set times."""
    records = b""
    for number, at_ms in enumerate(TIMES_MS):
        frame = b"\xff" * 6 + bytes((2, 0, 0, 0, 0, 1)) + b"\x88\xb5" + bytes([number]) * 86
        when = struct.pack("<IIII", 7, at_ms * 1000, len(frame), len(frame))
        records += when + frame
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    path.write_bytes(header + records)


@needs_tshark
@pytest.mark.parametrize("io", all_ios("raw", "raw-mmsg", "packet_mmap", "af_xdp", "io_uring"))
def test_replay_keeps_its_times_on_every_port(
    wire: tuple[Node, Node], tmp_path: Path, io: str
) -> None:
    a, b = wire
    path, captured = tmp_path / "times.pcap", tmp_path / "seen.pcap"
    write_file(path)
    sending = ["--port", port(io, a), "--replay", str(path), "--schedule", "recorded", *PATIENT]

    def worst_ms() -> float:
        with (
            tcpdump(b, captured, "ether proto 0x88b5"),
            closing_engine("sender", sending, a.namespace) as sender,
        ):
            sender.wait("ready")
            sender.tell("start")
            result, code = sender.finish("wait")
        assert (code, result["reason"]) == (0, "replayed")
        note_absence(result)
        rows = fields(captured, "frame.time_epoch", "frame.len", "data.data")
        assert [int(row[2][:2], 16) for row in rows] == list(range(len(TIMES_MS)))
        assert {row[1] for row in rows} == {"100"}
        first = float(rows[0][0])
        return max(
            abs((float(row[0]) - first) * 1e3 - at) for row, at in zip(rows, TIMES_MS, strict=True)
        )

    in_some_attempt(worst_ms, 0.0, 5.0)


def test_file_of_no_length_cannot_be_repeated(tmp_path: Path) -> None:
    """A file without length has no rounds, also if a trial requests them."""
    path = tmp_path / "one.pcap"
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    path.write_bytes(header + struct.pack("<IIII", 7, 0, 60, 60) + b"\xff" * 60)
    sending = ["--port", "null:", "--replay", str(path), "--loops", "0", "--rate", "1k"]
    with closing_engine("sender", sending) as sender:
        sender.wait("ready")
        sender.tell("start schedule=recorded duration=0.1")
        assert "cannot be repeated" in sender.wait("error")["message"]
        assert sender.process.wait(timeout=20) == 1


def test_probes_beside_a_replay_have_the_requested_rate(tmp_path: Path) -> None:
    """A rate in bits refers to the size of the probes, not of the file's frames."""
    path = tmp_path / "made.pcap"
    file_of(path, "--rate", "100k", "--duration", "0.01", "--frame-size", "1518", *PATIENT)
    sending = ["--port", "null:", "--replay", str(path), "--loops", "0", "--rate", "10k", *PATIENT]
    sending += ["--probe-rate", "672kbps-l1", "--probe-schedule", "constant", "--duration", "1"]
    with closing_engine("sender", [*sending, "--start", "now"]) as sender:
        result, code = sender.finish("wait")
    assert code == 0
    assert result["probe"]["rate_pps"] == 1000
    assert result["probe"]["totals"]["tx_intended"] == 1000  # probes of 64 bytes and 20 of overhead
    assert result["probe"]["totals"]["tx_bytes"] == 64 * result["probe"]["totals"]["tx_offered"]


def test_stamped_replay_of_tagged_ipv6_is_measured(wire: tuple[Node, Node], tmp_path: Path) -> None:
    a, b = wire
    path = tmp_path / "made.pcap"
    kind = ["--ip-version", "6", "--vlan", "200.100"]
    file_of(path, "--rate", "100k", "--burst", "10", "--duration", "0.01", "--frame-size",
            "92*7+598*4+1518", "--flows", "10:src-port", *kind, *PATIENT)  # fmt: skip
    receiving = ["--port", port("raw-mmsg", b), *kind, "--stream", "3", "--idle", "yield"]
    sending = ["--port", port("raw-mmsg", a), "--replay", str(path), "--loops", "2", "--stamp"]
    sending += ["--rate", "20k", "--stream", "3", *PATIENT]
    with (
        closing_engine("receiver", receiving, b.namespace) as receiver,
        closing_engine("sender", sending, a.namespace) as sender,
    ):
        for process in (receiver, sender):
            process.wait("ready")
        receiver.tell("start")
        receiver.wait("started")
        sender.tell("start")
        sent, _ = sender.finish("wait")
        received, _ = receiver.finish(f"stop sent={sent['totals']['tx_offered']}")
    check_all(sent, received, 2000)
    assert received["totals"]["rx_bytes"] == sent["totals"]["tx_bytes"]
