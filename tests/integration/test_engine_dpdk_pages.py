"""The engine's DPDK ports on ordinary pages (`--dpdk-pages 4KiB`): every frame arrives and is
counted exactly, also if the peer is on hugepages."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.dpdk_rig import (
    TO_A,
    TO_B,
    Engine,
    find_engine,
    hugepages_free,
    litter,
    unless_disturbed,
    veth_pair,
)
from tests.integration.test_engine_dpdk import frame_passes
from tests.integration.waiting import until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(find_engine() is None, reason="switchmark-traffic is not built"),
]

SMALL = ("--dpdk-pages", "4KiB")
RATE_PPS = 20000
SECONDS = 0.3
FRAMES = int(RATE_PPS * SECONDS)
PACED = (*TO_B, "--rate", str(RATE_PPS), "--burst", "20", "--duration", str(SECONDS))
PACED += ("--catch-up-us", "5000000", "--idle", "yield")
PAIRS = {  # ports of sender and receiver
    "virtio-user": ("virtio-user={},server", "vhost={},client"),
    "vhost": ("vhost={}", "virtio-user={},packed"),
    "memif": ("memif={},role=server,id=7", "memif={},role=client,id=7"),
}
NEEDS_HUGEPAGES = pytest.mark.skipif(hugepages_free() < 64, reason="fewer than 64 free hugepages")
SIDES = {
    "both": (SMALL, SMALL),
    "sender": (SMALL, ()),
    "receiver": ((), SMALL),
}


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[str]:
    """A socket path; nothing of the test may remain afterwards."""
    yield str(tmp_path / "wire.sock")
    assert litter() == set()
    assert list(tmp_path.iterdir()) == []


def page_kib(engine: Engine) -> int:
    """Return the page size that the engine reports, which must be that of its memory."""
    reported_kib = engine.event("ready")["page_size_kib"]
    smaps = Path(f"/proc/{engine.child.pid}/smaps").read_text()
    sizes = {int(size) for size in re.findall(r"^KernelPageSize: +(\d+) kB$", smaps, re.MULTILINE)}
    assert reported_kib == max(sizes)
    return int(reported_kib)


def check(sent: dict[str, Any], received: dict[str, Any], frames: int) -> None:
    """Check that no frame is lost, duplicated, damaged or of unknown origin."""
    assert sent["totals"]["tx_offered"] == received["totals"]["rx_frames"] == frames
    assert received["loss"]["received_unique"] == frames
    for bad in ("lost", "duplicates", "reordered"):
        assert received["loss"][bad] == 0, bad
    for bad in ("rx_corrupt", "rx_foreign", "rx_other", "rx_stale"):
        assert received["totals"][bad] == 0, bad


@pytest.mark.parametrize(
    "sides",
    [pytest.param(name, marks=() if name == "both" else (NEEDS_HUGEPAGES,)) for name in SIDES],
)
@pytest.mark.parametrize("kind", PAIRS)
@unless_disturbed
def test_frames_arrive_on_either_kind_of_pages(wire: str, kind: str, sides: str) -> None:
    send_port, receive_port = (port.format(wire) for port in PAIRS[kind])
    with (
        Engine("receiver", [receive_port], "--touch", *SIDES[sides][1], core=1) as receiver,
        Engine("sender", [send_port], *PACED, "--touch", *SIDES[sides][0], core=0) as sender,
    ):
        for engine, options in zip((sender, receiver), SIDES[sides], strict=True):
            assert (page_kib(engine) == 4) == (options == SMALL)
        receiver.start()
        sender.start()
        check(sender.result(), receiver.stop(), FRAMES)
        assert sender.leave() == receiver.leave() == 0


@pytest.mark.parametrize("kind", PAIRS)
@unless_disturbed
def test_jumbo_frames_in_several_queues_arrive(wire: str, kind: str) -> None:
    """More than 64 MiB of buffers, each larger than a page."""
    send_port, receive_port = (port.format(wire) for port in PAIRS[kind])
    common = ("--frame-size", "9018", "--queues", "2", "--touch", *SMALL)
    with (
        Engine("receiver", [receive_port], *common, "--idle", "yield", core="0,1") as receiver,
        Engine("sender", [send_port], *PACED, *common, core="0,1") as sender,
    ):
        assert page_kib(receiver) == page_kib(sender) == 4
        receiver.start()
        sender.start()
        sent, received = sender.result(), receiver.stop()
        check(sent, received, FRAMES)
        assert received["totals"]["rx_bytes"] == FRAMES * 9018


@unless_disturbed
def test_forwarder_on_512_mib_passes_every_frame(tmp_path: Path) -> None:
    """The engine runs like `basicfwd`, with more memory than its default. A ring holds all frames
    of the trial, so that none is lost without a core."""
    a, b = (str(tmp_path / name) for name in "ab")
    switch_ports = [f"vhost={a}", f"vhost={b}"]
    ends = [f"virtio-user={path},queue-size=1024" for path in (a, b)]
    quiet = ("--idle", "yield", "--interval", "0.1", *SMALL)
    more = ("--start", "now", "--dpdk-memory-mb", "512", *quiet)
    load = (
        *TO_B,
        "--rate",
        "10000",
        "--burst",
        "20",
        "--duration",
        "0.1",
        "--catch-up-us",
        "5000000",
    )
    with (
        Engine("forwarder", switch_ports, *more, core=0) as switch,
        Engine("receiver", [ends[1]], *TO_A, *quiet, core=1) as receiver,
        Engine("sender", [ends[0]], *load, *quiet, core=1) as sender,
    ):
        assert page_kib(switch) == 4
        receiver.event("ready")
        until(lambda: frame_passes(sender, receiver), "the link is up")
        receiver.start()
        sender.start()
        check(sender.result(), receiver.stop_after(1000), 1000)


@pytest.mark.parametrize("kind", ["af-packet={}", "af-xdp={}"])
@unless_disturbed
def test_kernel_devices_pass_frames_both_ways(kind: str) -> None:
    near, far = "smpage0a", "smpage0b"
    with veth_pair(near, far):
        for ports in (
            (kind.format(near), f"raw:dev={far},mmsg"),
            (f"raw:dev={near},mmsg", kind.format(far)),
        ):
            with (
                Engine("receiver", [ports[1]], "--idle", "yield", *SMALL, core=1) as receiver,
                Engine("sender", [ports[0]], *PACED, *SMALL, core=0) as sender,
            ):
                receiver.start()
                sender.start()
                check(sender.result(), receiver.stop(), FRAMES)


@unless_disturbed
def test_a_tap_passes_frames_both_ways() -> None:
    device = "smpagetap"
    session = ("--session", *SMALL)
    with Engine("duplex", [f"tap={device}"], *PACED, *session, core=0) as near:
        near.event("ready")
        subprocess.run(["sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1"], check=False)
        subprocess.run(["ip", "link", "set", device, "up"], check=True, timeout=30)
        with Engine("duplex", [f"raw:dev={device},mmsg"], *PACED, core=1) as far:
            far.event("ready")
            far.start()
            near.start()
            forth, back = near.result(), far.result()
    for result in (forth, back):
        assert result["totals"]["tx_offered"] == result["totals"]["rx_frames"] == FRAMES
        assert result["totals"]["rx_corrupt"] == result["loss"]["lost"] == 0


def test_too_much_memory_is_refused_before_use(wire: str) -> None:
    more = ("--dpdk-memory-mb", "1048576", *SMALL)
    with Engine("receiver", [f"vhost={wire}"], *more, core=0) as engine:
        assert engine.child.wait(timeout=30) == 1
        assert "DPDK on 4 KiB pages would take 1048577 MB of memory" in engine.errors()
