"""Faults around a running trial: peers end and return, rings stick, devices go down or away,
hugepages run out. The result is a clear line and a partial result, never a hang or a crash."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.dpdk_rig import (
    TO_A,
    TO_B,
    Engine,
    hugepages_free,
    litter,
    needs_dpdk,
)
from tests.integration.waiting import DEADLINE_S, until

pytestmark = [
    pytest.mark.alone,
    pytest.mark.integration,
    *needs_dpdk,
]

PAIRS = {
    "virtio-user server": ("virtio-user={},server", "vhost={},client"),
    "virtio-user packed": ("virtio-user={},packed", "vhost={}"),
    "vhost": ("vhost={}", "virtio-user={}"),
    "vhost client": ("vhost={},client", "virtio-user={},server"),
    "memif server": ("memif={},role=server", "memif={},role=client"),
    "memif zero-copy": ("memif={},role=client,zero-copy", "memif={},role=server"),
}
LONG_S = 600
SENDS = (*TO_B, "--rate", "20k", "--burst", "20", "--idle", "yield", "--interval", "0.1")


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[str]:
    """A socket path; DPDK must have left nothing afterwards."""
    yield str(tmp_path / "wire.sock")
    assert litter() == set()


def passes(engine: Engine, counter: str) -> None:
    """Wait until the engine counts frames in an interval."""
    until(lambda: engine.event("interval")[counter] > 0, f"{counter} grows")


def ended_by(engine: Engine, counter: str) -> dict[str, Any]:
    """Return the result of a trial whose port is lost: it ends by itself, or is ended once it
    counts no frame any more."""
    stopped = False
    while (event := engine.next_event())["event"] != "result":
        if event["event"] == "interval" and event[counter] == 0 and not stopped:
            stopped = True
            engine.say("stop", unless_ended=True)
    return event


def lines(engine: Engine) -> list[str]:
    """Return the lines of its standard error."""
    return engine.errors().strip().splitlines()


@pytest.mark.parametrize("kind", PAIRS)
def test_receiver_that_vanishes_and_returns(wire: str, kind: str) -> None:
    send_port, receive_port = (spec.format(wire) for spec in PAIRS[kind])
    with Engine("sender", [send_port], *SENDS, core=0) as sender:
        sender.say("start")
        for _ in range(2):
            with Engine("receiver", [receive_port], "--idle", "yield", core=1) as receiver:
                receiver.start()
                passes(sender, "tx_offered")
                receiver.kill()
            until(lambda: sender.event("interval")["tx_offered"] == 0, "nobody takes frames")
        result = sender.stop()
        assert result["partial"] is True
        assert "went away" in result["fault"]
        assert result["totals"]["tx_dropped"] > 0
        assert sender.leave() == 0
        assert len(lines(sender)) == 1
        assert "partial result: port 0" in lines(sender)[0]
    Path(wire).unlink(missing_ok=True)  # socket of the killed receiver


@pytest.mark.slow
@pytest.mark.parametrize("kind", PAIRS)
def test_sender_that_vanishes_and_returns(wire: str, kind: str) -> None:
    send_port, receive_port = (spec.format(wire) for spec in PAIRS[kind])
    options = (
        "--idle",
        "yield",
        "--interval",
        "0.1",
        "--session",
    )  # the session continues after the sender's end
    with Engine("receiver", [receive_port], *options, core=1) as receiver:
        receiver.start()
        with Engine("sender", [send_port], *SENDS, core=0) as sender:
            sender.start()
            passes(receiver, "rx_frames")
            sender.kill()
        with Engine("sender", [send_port], *SENDS, core=0) as sender:
            sender.start()
            passes(sender, "tx_offered")
            for _ in range(3):  # two lines that were under way, and a new one
                passes(receiver, "rx_frames")
            result = receiver.stop()
            assert result["partial"] is True
            assert "came back" in result["fault"]
            assert sender.stop()["partial"] is False
            assert sender.leave() == 0
        assert receiver.leave() == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", PAIRS)
def test_ring_that_no_receiver_empties(wire: str, kind: str) -> None:
    send_port, receive_port = (spec.format(wire) for spec in PAIRS[kind])
    with (
        Engine("receiver", [receive_port], "--idle", "yield", core=1) as receiver,
        Engine("sender", [send_port], *SENDS, core=0) as sender,
    ):
        receiver.start()
        sender.start("duration=1.6")
        passes(sender, "tx_offered")
        os.kill(receiver.child.pid, signal.SIGSTOP)
        try:
            result = sender.result()
            assert result["reason"] == "duration"
            assert result["partial"] is True
            assert "does not empty the ring" in result["fault"]
            began_s = time.monotonic()
            assert sender.leave() == 0
            assert time.monotonic() - began_s < 5
        finally:
            os.kill(receiver.child.pid, signal.SIGCONT)
        assert receiver.stop()["totals"]["rx_corrupt"] == 0
        assert receiver.leave() == 0


@contextmanager
def veth(near: str, far: str) -> Iterator[None]:
    """A wire with addresses, in this namespace."""
    ip("link", "add", near, "type", "veth", "peer", "name", far)
    try:
        for device in (near, far):
            subprocess.run(["sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1"], check=False)
            ip("link", "set", device, "up")
        yield
    finally:
        subprocess.run(["ip", "link", "del", near], check=False, capture_output=True, timeout=30)


def ip(*args: str) -> None:
    """ip(8)."""
    subprocess.run(["ip", *args], check=True, timeout=30)


FAULTS = {"down": ("link", "set", "smflt0a", "down"), "deleted": ("link", "del", "smflt0a")}
NEAR_PORTS = ["af-packet=smflt0a", "raw:dev=smflt0a,mmsg"]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("role", ["sender", "receiver"])
@pytest.mark.parametrize("port", NEAR_PORTS)
def test_device_that_goes_down_or_away(port: str, role: str, fault: str) -> None:
    traffic = SENDS if role == "sender" else (*TO_A, "--idle", "yield", "--interval", "0.1")
    counter = "tx_offered" if role == "sender" else "rx_frames"
    with (
        veth("smflt0a", "smflt0b"),
        Engine("sender", ["raw:dev=smflt0b,mmsg"], *SENDS, core=1) as other,
        Engine(role, [port], *traffic, core=0) as engine,
    ):
        engine.event("ready")
        if role == "receiver":
            other.start()
        engine.start(f"duration={LONG_S}")  # a lost device is a fault for a receiver then
        passes(engine, counter)
        ip(*FAULTS[fault])
        result = ended_by(engine, counter)
        assert result["partial"] is True
        assert result["duration_ns"] < LONG_S * 1e9
        assert "smflt0a" in result["fault"]
        code = engine.leave()
        assert code == (1 if result["reason"] == "failure" else 0)
        assert len(lines(engine)) == 1
        assert "smflt0a" in lines(engine)[0]


def test_hugepages_that_run_out_at_the_start(wire: str) -> None:
    """More rings than the requested memory: EAL looks for more, and there is none."""
    options = ("--dpdk-memory-mb", str(2 * hugepages_free() + 64))
    with Engine("receiver", [f"virtio-user={wire},server"], *options, core=0) as engine:
        assert engine.child.wait(timeout=DEADLINE_S) == 1
        assert len(lines(engine)) == 1
        assert "nr_hugepages" in lines(engine)[0]


def hugetlb_cgroup() -> Path | None:
    """A folder of the hugetlb controller in which groups can be made."""
    for folder in (Path("/sys/fs/cgroup/hugetlb"), Path("/sys/fs/cgroup")):
        if (folder / "hugetlb.2MB.limit_in_bytes").exists():
            return folder
    return None


@pytest.mark.skipif(hugetlb_cgroup() is None, reason="no hugetlb controller (cgroup v1) here")
def test_hugepages_beyond_the_limit_of_the_group(wire: str) -> None:
    """The kernel has free pages, but not for this group: an access would raise SIGBUS."""
    parent = hugetlb_cgroup()
    assert parent is not None
    group = parent / f"switchmark-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "hugetlb.2MB.limit_in_bytes").write_text(str(16 << 20))
        cgroups = Path("/proc/self/cgroup").read_text()
        (group / "tasks").write_text(str(os.getpid()))
        try:
            engine = Engine("receiver", [f"virtio-user={wire},server"], core=0)
        finally:
            (parent / group_of(cgroups) / "tasks").write_text(str(os.getpid()))
        with engine:
            assert engine.child.wait(timeout=DEADLINE_S) == 1
            assert len(lines(engine)) == 1
            assert "DPDK does not start" in lines(engine)[0]
    finally:
        until(lambda: not (group / "tasks").read_text(), "the group is empty")
        group.rmdir()


def group_of(cgroups: str) -> str:
    """Return the hugetlb group in the text of /proc/PID/cgroup, without its leading slash."""
    for line in cgroups.splitlines():
        _, controllers, path = line.split(":", 2)
        if "hugetlb" in controllers.split(","):
            return path.lstrip("/")
    return ""
