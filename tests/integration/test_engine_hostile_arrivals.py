"""Unexpected frames at every receiving role: none ends the process or changes a loss, each is
counted once, and every line remains valid for the schema and the bench."""

from __future__ import annotations

import itertools
import json
import random
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from switchmark.engine.events import parse
from tests.integration.engine_tools import (
    Node,
    engine,
    engine_path,
    ip,
    needs_engine,
    port,
    veth_pair,
)

pytestmark = needs_engine
SCHEMA = Path("switchmark/engine/events.schema.json")
WINDOW = 1 << 20
FRAMES = 100
ADDRESSES = (
    "--src-mac", "02:00:00:00:00:01", "--dst-mac", "02:00:00:00:00:02",
    "--src-ip", "10.0.0.1", "--dst-ip", "10.0.0.2",
)  # fmt: skip
SWAPPED = (
    "--src-mac", "02:00:00:00:00:02", "--dst-mac", "02:00:00:00:00:01",
    "--src-ip", "10.0.0.2", "--dst-ip", "10.0.0.1",
)  # fmt: skip
PAYLOAD = 42


def path() -> str:
    found = engine_path()
    assert found is not None
    return found


def read_frames(file: Path) -> list[bytes]:
    text, frames, at = file.read_bytes(), [], 24
    while at < len(text):
        (length,) = struct.unpack_from("<I", text, at + 8)
        frames.append(text[at + 16 : at + 16 + length])
        at += 16 + length
    return frames


def write_frames(file: Path, frames: list[bytes]) -> None:
    with file.open("wb") as target:
        target.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        for number, frame in enumerate(frames):
            target.write(struct.pack("<IIII", 0, number, len(frame), len(frame)) + frame)


def changed(frame: bytes, at: int, value: bytes) -> bytes:
    """Return the frame with another part of its stamp and the matching UDP checksum."""
    new = bytearray(frame)
    new[PAYLOAD + at : PAYLOAD + at + len(value)] = value
    new[40:42] = b"\0\0"
    covered = bytes(new[26:34]) + struct.pack(">HH", 17, len(new) - 34) + bytes(new[34:])
    covered += b"\0" * (len(covered) % 2)
    total = sum(struct.unpack(f">{len(covered) // 2}H", covered))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    new[40:42] = struct.pack(">H", (total ^ 0xFFFF) or 0xFFFF)
    return bytes(new)


def numbered(frame: bytes, number: int) -> bytes:
    return changed(frame, 4, struct.pack(">I", number))


def tagged(frame: bytes, *types: int, length: int = 0) -> bytes:
    tags = b"".join(struct.pack(">HH", kind, 5) for kind in types)
    return (frame[:12] + tags + frame[12:]).ljust(length, b"\0")


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Frames of the engine's own sender: numbers from 0 and increasing times."""
    file = tmp_path_factory.mktemp("sent") / "sent.pcap"
    subprocess.run(
        [path(), "sender", "--port", f"pcap:write={file}", *ADDRESSES, "--rate", "max",
         "--burst", "1", "--duration", "0.05", "--start", "now"],
        check=True, capture_output=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    frames = read_frames(file)
    assert len(frames) >= 2 * FRAMES
    return frames[: 2 * FRAMES]


def hostile(sent: list[bytes]) -> tuple[list[bytes], dict[str, int]]:
    """A trial of 100 frames mixed with frames of other origin, and the expected counter of each."""
    trial, later = sent[:FRAMES], sent[FRAMES:]
    arp = bytes(12) + b"\x08\x06" + bytes(46)
    # The same frame as if of an earlier run: another epoch and an earlier time. Times have 48 bits,
    # so they are earlier only within half of that range.
    time = int.from_bytes(trial[0][PAYLOAD + 8 : PAYLOAD + 14], "big")
    before = ((time - 10**9) % 2**48).to_bytes(6, "big")
    earlier = changed(trial[0], 8, before)
    earlier = changed(earlier, 1, bytes([trial[0][PAYLOAD + 1] ^ 1]))
    same_epoch = changed(numbered(trial[0], 60), 8, before)
    others = {
        "runts": [bytes(length) for length in (0, 1, 13, 14, 33, 59)],
        "jumbos": [arp.ljust(1515, b"\0"), arp.ljust(9014, b"\0")],
        "tagged": [tagged(arp, 0x88A8, length=1518), tagged(trial[5], 0x8100),
                   tagged(trial[5], 0x88A8, 0x8100)],
        "other": [arp],
        "foreign": [changed(trial[3], 2, b"\x12\x34")],
        "stale": [earlier, same_epoch],
        "corrupt": [trial[7][:-1] + b"\x01" if trial[7][-1] != 1 else trial[7][:-1] + b"\2"],
        "early": [numbered(later[0], 3 * WINDOW), numbered(later[1], 5 * WINDOW)],
    }  # fmt: skip
    # Frames of other origin lie between the frames of the trial, from the 20th on.
    among: Iterator[bytes] = itertools.chain.from_iterable(others.values())
    frames = trial[:20]
    for frame in trial[20:]:
        frames += [frame, *itertools.islice(among, 1)]
    # An outage longer than the window, and copies of earlier frames.
    frames += [numbered(frame, 8 * WINDOW + index) for index, frame in enumerate(later)]
    frames += trial[10:15]
    frames += [later[0][:41], *(random.Random(4).randbytes(60) for _ in range(20))]
    counts = {
        "rx_frames": 2 * FRAMES,
        "rx_runts": 7,
        "rx_jumbos": 2,
        "rx_tagged": 3,
        "rx_other": 7 + 2 + 3 + 1 + 20,
        "rx_foreign": 1,
        "rx_stale": 2,
        "rx_corrupt": 1,
        "rx_early": 2,
        "rx_beyond_window": 5,
    }
    return frames, counts


def checked(output: str) -> list[dict[str, Any]]:
    """Return the events of an output, each accepted by the schema and by the bench."""
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    events = []
    for line in output.splitlines():
        events.append(json.loads(line))
        validator.validate(events[-1])
        parse(line)
    return events


def run(role: str, *args: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [path(), role, *args, "--start", "now", "--interval", "0.01"],
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    events = checked(done.stdout)
    assert events[-1]["event"] == "result"
    assert any(event["event"] == "interval" for event in events)
    return events


def test_receiver_counts_each_frame_once_and_correctly(sent: list[bytes], tmp_path: Path) -> None:
    frames, counts = hostile(sent)
    write_frames(file := tmp_path / "hostile.pcap", frames)
    events = run("receiver", "--port", f"pcap:read={file}", *SWAPPED, "--packet-size", "9018")
    result = events[-1]
    totals = result["totals"]
    assert {name: totals[name] for name in counts} == counts
    assert totals["rx_socket_drops"] == 0
    loss = result["loss"]
    assert loss["received_unique"] == 2 * FRAMES
    assert loss["duplicates"] == 0
    assert (loss["beyond_window"], loss["early"]) == (5, 2)
    assert loss["lost"] == 8 * WINDOW - FRAMES
    assert loss["lost_at_least"] == loss["lost"] - 7
    assert totals["rx_missing"] == loss["lost"]
    for name in counts:
        assert sum(one[name] for one in events if one["event"] == "interval") == counts[name]


def test_foreign_frames_do_not_change_the_loss(sent: list[bytes], tmp_path: Path) -> None:
    """The trial's frames in order and without an outage: the loss is 0, as without foreign
    frames."""
    frames, _ = hostile(sent)
    outage = frames.index(numbered(sent[FRAMES], 8 * WINDOW))
    write_frames(file := tmp_path / "hostile.pcap", frames[:outage])
    for extra in ((), ("--flow-groups", "4"), ("--touch",)):
        result = run("receiver", "--port", f"pcap:read={file}", *SWAPPED, *extra)[-1]
        loss = result["loss"]
        assert (loss["expected"], loss["received_unique"], loss["lost"]) == (FRAMES, FRAMES, 0)
        assert loss["duplicates"] == loss["reordered"] == loss["lost_at_least"] == 0
        assert result["totals"]["rx_frames"] == FRAMES
        assert not result["partial"]


PORT, OUT = "pcap:read={file}", "null:"
ROLES = {
    "client": ("client", "--port", PORT, *SWAPPED, "--rate", "1k", "--duration", "0.1"),
    "server": ("server", "--port", PORT, *SWAPPED),
    "server of probes": ("server", "--port", PORT, *SWAPPED, "--probes", "1"),
    "duplex": ("duplex", "--port", PORT, *SWAPPED, "--rate", "1k", "--duration", "0.1"),
    "tester": ("tester", "--port", OUT, "--port", PORT, *ADDRESSES, "--rate", "1k",
               "--duration", "0.1", "--bidirectional"),
    "forwarder": ("forwarder", "--port", PORT, "--port", OUT, "--duration", "0.1"),
    "forwarder that writes MACs": ("forwarder", "--port", PORT, "--port", OUT, *ADDRESSES,
                                   "--mac-update", "--duration", "0.1"),
    "reference": ("reference", "--port", PORT, "--port", OUT, "--duration", "0.1",
                  "--corrupt-every", "3", "--reorder-every", "5", "--duplicate-every", "7"),
}  # fmt: skip


@pytest.mark.parametrize("name", ROLES)
def test_no_frame_ends_a_role(name: str, sent: list[bytes], tmp_path: Path) -> None:
    frames, _ = hostile(sent)
    write_frames(file := tmp_path / "hostile.pcap", frames)
    role, *args = (word.format(file=file) for word in ROLES[name])
    result = run(role, *args, "--packet-size", "9018")[-1]
    totals = result["totals"]
    arrived = [
        totals[f"rx_{kind}"]
        for kind in ("frames", "foreign", "other", "verification", "corrupt", "stale",
                     "beyond_window", "early")
    ]  # fmt: skip
    assert sum(arrived) + totals["rx_socket_drops"] == len(frames)
    assert not result["partial"]


@pytest.mark.parametrize("io", ["raw", "raw-mmsg", "io_uring", "packet_mmap"])
def test_no_frame_ends_a_forwarder_between_devices(io: str, sent: list[bytes]) -> None:
    """One 802.1ad frame of 1518 bytes was enough: the kernel refuses it at an MTU of 1500, which
    only allows for 802.1Q."""
    with veth_pair("ha") as (a, b), veth_pair("hb") as (c, _):
        # Both devices of the forwarder in one namespace; the device of the sender has a larger MTU.
        ip("-n", c.namespace, "link", "set", c.device, "netns", b.namespace)
        ip("-n", b.namespace, "link", "set", c.device, "up")
        ip("-n", a.namespace, "link", "set", a.device, "mtu", "9000")
        ports = ["--port", port(io, b), "--port", port(io, Node(b.namespace, c.device, c.mac, ""))]
        plain = bytes(12) + b"\x08\x06" + bytes(46)
        bad = [tagged(plain, 0x88A8, length=1518), tagged(plain, 0x88A8, 0x8100, length=1518)]
        good = [tagged(plain, 0x8100, length=1518), plain, tagged(plain, 0x88A8, length=1514)]
        with (
            engine("forwarder", *ports, "--interval", "0.02", node=b) as running,
            a.packet_socket() as injector,
        ):
            running.tell("start")
            running.wait("started")
            for frame in (*bad, *good):
                injector.send(frame)
            running.wait_passed(len(good))
            result, code = running.finish("stop")
        assert code == 0
        assert result["reason"] == "stop"
        assert result["totals"]["tx_misfits"] == len(bad)
        assert result["totals"]["tx_offered"] == len(good)
