"""Options of the engine's DPDK ports: ring kinds, zero-copy, kernel devices, memory, several queues
with a worker each."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.dpdk_rig import (
    TO_B,
    Engine,
    find_engine,
    litter,
    needs_dpdk,
    unless_disturbed,
)

pytestmark = [
    pytest.mark.integration,
    *needs_dpdk,
]

MEMORY_MB = 64
RATE_PPS = 20000
SECONDS = 0.3
FRAMES = int(RATE_PPS * SECONDS)
PACED = (*TO_B, "--rate", str(RATE_PPS), "--burst", "20", "--duration", str(SECONDS))
PACED += ("--catch-up-us", "5000000", "--idle", "yield")

# Ports of sender and receiver on the same socket.
VARIANTS = {
    "packed": ("virtio-user={},server,packed", "vhost={},client"),
    "packed, received": ("vhost={}", "virtio-user={},packed"),
    "packed, any order": ("virtio-user={},server,packed,in-order=off", "vhost={},client"),
    "packed, unmergeable": ("vhost={}", "virtio-user={},packed,mergeable=off"),
    "split, any order": ("virtio-user={},in-order=off", "vhost={}"),
    "split, unmergeable": ("vhost={},client", "virtio-user={},server,mergeable=off"),
    "long rings": ("virtio-user={},server,queue-size=1024", "vhost={},client"),
    "memif zero-copy sends": ("memif={},role=client,id=1,zero-copy", "memif={},role=server,id=1"),
    "memif zero-copy receives": (
        "memif={},role=server,id=1",
        "memif={},role=client,id=1,zero-copy",
    ),
}
QUEUE_PAIRS = {
    "virtio-user": ("virtio-user={},server", "vhost={},client"),
    "packed": ("virtio-user={},packed", "vhost={}"),
    "vhost": ("vhost={}", "virtio-user={}"),
    "memif": ("memif={},role=server,id=2", "memif={},role=client,id=2"),
}


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[str]:
    """A socket path; nothing of the test may remain afterwards."""
    yield str(tmp_path / "wire.sock")
    assert litter() == set()
    assert list(tmp_path.iterdir()) == []


def assert_all_arrived(sent: dict[str, Any], received: dict[str, Any]) -> None:
    """Check that no frame is lost, duplicated, reordered, damaged or of unknown origin."""
    offered = sent["totals"]["tx_offered"]
    assert offered > 0
    assert received["totals"]["rx_frames"] == offered
    assert received["loss"]["received_unique"] == received["loss"]["expected"] == offered
    for bad in ("lost", "duplicates", "reordered"):
        assert received["loss"][bad] == 0, bad
    for bad in ("rx_corrupt", "rx_foreign", "rx_other", "rx_stale"):
        assert received["totals"][bad] == 0, bad
    assert sent["partial"] is received["partial"] is False
    assert sent["fault"] is received["fault"] is None


@pytest.mark.parametrize("size", [64, 9018])
@pytest.mark.parametrize("variant", VARIANTS)
def test_ring_variants_carry_every_frame(wire: str, variant: str, size: int) -> None:
    send_port, receive_port = (spec.format(wire) for spec in VARIANTS[variant])
    common = ("--touch", "--frame-size", str(size), "--idle", "yield")
    with (
        Engine("receiver", [receive_port], *common, core=1) as receiver,
        Engine("sender", [send_port], *TO_B, *common, "--rate", "max", core=0) as sender,
    ):
        receiver.start()
        sender.start("duration=0.2")
        sent = sender.result()
        assert sender.leave() == 0  # sent frames must remain
        received = receiver.stop()
        received["partial"], received["fault"] = False, None  # the peer has ended
        assert_all_arrived(sent, received)
        assert receiver.leave() == 0


@pytest.mark.parametrize("kind", QUEUE_PAIRS)
@unless_disturbed
def test_two_queues_two_workers_count_exactly(wire: str, kind: str) -> None:
    send_port, receive_port = (spec.format(wire) for spec in QUEUE_PAIRS[kind])
    two = ("--queues", "2", "--stream", "5")
    with (
        Engine("receiver", [receive_port], *two, "--idle", "yield", core="0,1") as receiver,
        Engine("sender", [send_port], *PACED, *two, core="0,1") as sender,
    ):
        ready = receiver.event("ready")
        assert ready["queues"] == 2
        assert len(ready["ports"]) == 1
        receiver.start("latency=1")
        sender.start()
        sent, received = sender.result(), receiver.stop()
        assert sent["totals"]["tx_offered"] == FRAMES
        assert_all_arrived(sent, received)
        assert (
            received["loss"]["last_sequence"] == FRAMES // 2 - 1
        )  # two streams with half of the frames each
        assert received["latency"]["count"] == FRAMES
        assert sender.leave() == receiver.leave() == 0


def test_two_queues_at_full_rate(wire: str) -> None:
    send_port, receive_port = (spec.format(wire) for spec in QUEUE_PAIRS["virtio-user"])
    two = ("--queues", "2", "--idle", "yield")
    with (
        Engine("receiver", [receive_port], *two, core="0,1") as receiver,
        Engine("sender", [send_port], *TO_B, *two, "--rate", "max", core="0,1") as sender,
    ):
        receiver.start()
        sender.start("duration=0.5")
        assert_all_arrived(sender.result(), receiver.stop())
        assert sender.leave() == receiver.leave() == 0


def hugetlb_mb(engine: Engine) -> float:
    """Return the hugepage memory of a process."""
    for line in Path(f"/proc/{engine.child.pid}/status").read_text().splitlines():
        if line.startswith("HugetlbPages:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no HugetlbPages in /proc/PID/status")


@pytest.mark.parametrize(
    ("role", "kinds", "options"),
    [
        ("receiver", ["virtio-user={},server"], []),
        ("receiver", ["memif={},role=server"], []),
        ("tester", ["virtio-user={},server"] * 2, []),
        ("tester", ["virtio-user={},server"] * 2, ["--frame-size", "9018"]),
        ("tester", ["memif={},role=server"] * 2, ["--frame-size", "9018"]),
        ("forwarder", ["vhost={}"] * 4, []),
        ("receiver", ["virtio-user={},server"], ["--queues", "2"]),
    ],
)
def test_64_mib_of_hugepages_suffice(
    tmp_path: Path, role: str, kinds: list[str], options: list[str]
) -> None:
    ports = [kind.format(tmp_path / f"{index}.sock") for index, kind in enumerate(kinds)]
    core = "0,1" if "--queues" in options else 0
    with Engine(role, ports, *options, core=core) as engine:
        engine.event("ready")
        assert 0 < hugetlb_mb(engine) <= MEMORY_MB
        assert engine.leave() == 0


def test_help_states_how_much_memory() -> None:
    engine = find_engine()
    assert engine is not None
    text = subprocess.run([engine, "--help"], capture_output=True, text=True, check=True).stdout
    assert "memory for DPDK in MiB (default 64" in " ".join(text.split())


@contextmanager
def veth(near: str, far: str) -> Iterator[None]:
    """A wire whose ends send no frames by themselves."""
    add = ["ip", "link", "add", near, "type", "veth", "peer", "name", far]
    subprocess.run(add, check=True, timeout=30)
    try:
        for device in (near, far):
            subprocess.run(["sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1"], check=False)
            subprocess.run(["ip", "link", "set", device, "up"], check=True, timeout=30)
        yield
    finally:
        subprocess.run(["ip", "link", "del", near], check=False, timeout=30)


@unless_disturbed
def test_af_xdp_reaches_the_other_end_of_a_veth() -> None:
    near, far = "smdpdk1a", "smdpdk1b"
    with (
        veth(near, far),
        Engine("receiver", [f"raw:dev={far},mmsg"], "--idle", "yield", core=1) as receiver,
        Engine("sender", [f"af-xdp={near}"], *PACED, core=0) as sender,
    ):
        receiver.event("ready")
        if sender.child.poll() is not None or not ready_or_reason(sender):
            pytest.skip(f"AF_XDP does not open here: {sender.errors().strip()}")
        receiver.start()
        sender.start()
        sent, received = sender.result(), receiver.stop()
        assert sent["totals"]["tx_offered"] == FRAMES
        assert received["totals"]["rx_frames"] == FRAMES
        assert received["totals"]["rx_corrupt"] == received["loss"]["lost"] == 0
        assert sender.leave() == receiver.leave() == 0


def ready_or_reason(engine: Engine) -> bool:
    """Return True once the port is open; False if the engine printed the reason."""
    try:
        engine.event("ready")
    except AssertionError:
        engine.child.wait(timeout=30)
        return False
    return True


@unless_disturbed
def test_tap_hands_frames_to_the_kernel() -> None:
    device = "smtap0"
    # A session, because the device disappears with the engine and the receiver still needs it.
    with Engine("sender", [f"tap={device}"], *PACED, "--session", core=0) as sender:
        sender.event("ready")
        subprocess.run(["sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1"], check=False)
        subprocess.run(["ip", "link", "set", device, "up"], check=True, timeout=30)
        with Engine("receiver", [f"raw:dev={device},mmsg"], "--idle", "yield", core=1) as receiver:
            receiver.start()
            sender.start()
            sent, received = sender.result(), receiver.stop()
            assert received["totals"]["rx_frames"] == sent["totals"]["tx_offered"] == FRAMES
            assert received["totals"]["rx_corrupt"] == received["loss"]["lost"] == 0
            assert receiver.leave() == 0
        assert sender.leave() == 0
    assert not Path(f"/sys/class/net/{device}").exists()
