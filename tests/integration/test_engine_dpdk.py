"""The engine's DPDK ports against each other, against its forwarder and dpdk-testpmd."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
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
    unless_disturbed,
    veth_pair,
)
from tests.integration.waiting import until

pytestmark = [
    pytest.mark.integration,
    *needs_dpdk,
]

# Ports of sender and receiver on the same socket. Every kind plays both roles of its socket.
PAIRS = {
    "virtio-user server": ("virtio-user={},server", "vhost={},client"),
    "virtio-user client": ("virtio-user={}", "vhost={}"),
    "vhost client": ("vhost={},client", "virtio-user={},server"),
    "memif server": ("memif={},role=server,id=7", "memif={},role=client,id=7"),
    "memif client": ("memif={},role=client,id=7", "memif={},role=server,id=7"),
}
RATE_PPS = 20000
SECONDS = 0.5
PACED = (*TO_B, "--rate", str(RATE_PPS), "--burst", "20", "--duration", str(SECONDS))
PACED += ("--catch-up-us", "5000000")  # a late sender skips no frame
# Through a switch that drops excess frames: no more frames than a ring holds.
SHORT_FRAMES = 1000
SHORT = (*PACED, "--rate", "10000", "--duration", str(SHORT_FRAMES / 10000))
RING = "queue-size=1024"
LATE = ("--patience", "2s")  # for a peer or a switch without a core


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[str]:
    """A socket path; nothing of the test may remain afterwards."""
    yield str(tmp_path / "wire.sock")
    assert litter() == set()
    assert list(tmp_path.iterdir()) == []


def ports(kind: str, path: str) -> tuple[list[str], list[str]]:
    """Return the two ports of a pair."""
    sender, receiver = PAIRS[kind]
    return [sender.format(path)], [receiver.format(path)]


def assert_all_arrived(
    sent: dict[str, Any], received: dict[str, Any], frames: int | None = None
) -> None:
    """Check that no frame is lost, duplicated, reordered, damaged or of unknown origin."""
    offered = sent["totals"]["tx_offered"]
    assert offered == (frames if frames is not None else offered) > 0
    assert sent["totals"]["tx_dropped"] == 0
    assert received["totals"]["rx_frames"] == offered
    assert received["loss"]["received_unique"] == received["loss"]["expected"] == offered
    for bad in ("lost", "duplicates", "reordered"):
        assert received["loss"][bad] == 0, bad
    for bad in ("rx_corrupt", "rx_foreign", "rx_other", "rx_stale"):
        assert received["totals"][bad] == 0, bad


@pytest.mark.parametrize("idle", ["poll", "yield", "sleep"])
@pytest.mark.parametrize("kind", PAIRS)
@unless_disturbed
def test_paced_frames_all_arrive(wire: str, kind: str, idle: str) -> None:
    send_port, receive_port = ports(kind, wire)
    sender_core = 0 if idle == "poll" else 1  # other strategies are for a shared core
    with (
        Engine("receiver", receive_port, "--idle", idle, core=1) as receiver,
        Engine("sender", send_port, *PACED, "--idle", idle, core=sender_core) as sender,
    ):
        receiver.start()
        sender.start()
        sent, received = sender.result(), receiver.stop()
        assert_all_arrived(sent, received, int(RATE_PPS * SECONDS))
        assert sender.leave() == receiver.leave() == 0


@pytest.mark.parametrize("sizes", [(64, 65, 128, 1518), (9018,)], ids=["usual", "jumbo"])
@pytest.mark.parametrize("kind", PAIRS)
def test_no_frame_is_damaged_at_full_rate(wire: str, kind: str, sizes: tuple[int, ...]) -> None:
    send_port, receive_port = ports(kind, wire)
    common = ("--touch", "--frame-size", str(max(sizes)), "--idle", "yield", "--session")
    with (
        Engine("receiver", receive_port, *common, core=1) as receiver,
        Engine("sender", send_port, *TO_B, *common, "--rate", "max", core=0) as sender,
    ):
        for size in sizes:
            receiver.start(f"frame-size={size}")
            sender.start("duration=0.3", f"frame-size={size}")
            sent, received = sender.result(), receiver.stop()
            assert_all_arrived(sent, received)
            assert received["totals"]["rx_bytes"] == sent["totals"]["tx_offered"] * size
        assert sender.leave() == receiver.leave() == 0


@pytest.mark.parametrize("kind", ["virtio-user server", "memif client"])
@unless_disturbed
def test_every_request_is_answered_and_timed(wire: str, kind: str) -> None:
    client_port, server_port = ports(kind, wire)
    with (
        Engine("server", server_port, *TO_A, "--idle", "yield", core=1) as server,
        Engine("client", client_port, *PACED, "--idle", "yield", *LATE, core=0) as client,
    ):
        server.start()
        client.start()
        requested, answered = client.result(), server.stop()
        frames = int(RATE_PPS * SECONDS)
        assert requested["totals"]["tx_offered"] == requested["totals"]["rx_frames"] == frames
        assert requested["loss"]["lost"] == requested["loss"]["duplicates"] == 0
        assert requested["latency"]["count"] == frames
        assert 0 < requested["latency"]["min_ns"] <= requested["latency"]["percentiles"]["50"]
        assert answered["totals"]["tx_offered"] == frames
        assert client.leave() == server.leave() == 0


@unless_disturbed
def test_forwarder_serves_two_pairs_of_applications(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{i}.sock") for i in range(4)]
    switch_ports = [f"vhost={path},client" for path in paths]
    apps = [[f"virtio-user={path},server,{RING}"] for path in paths]
    quiet = ("--idle", "yield", "--interval", "0.1")
    with (
        # The switch starts first, before its sockets exist.
        Engine("forwarder", switch_ports, "--start", "now", *quiet, core=0) as switch,
        Engine("sender", apps[0], *SHORT, *quiet, "--stream", "1", core=1) as sender_1,
        Engine("receiver", apps[1], *TO_A, *quiet, "--stream", "1", core=1) as receiver_1,
        Engine("receiver", apps[2], *TO_A, *quiet, "--stream", "2", core=1) as receiver_2,
        Engine("sender", apps[3], *SHORT, *quiet, "--stream", "2", core=1) as sender_2,
    ):
        for receiver in (receiver_1, receiver_2):
            receiver.event("ready")
        for receiver in (receiver_1, receiver_2):
            teacher = sender_1 if receiver is receiver_1 else sender_2
            until(lambda r=receiver, s=teacher: frame_passes(s, r), "the link is up")
            receiver.start()
        sender_1.start()
        sender_2.start()
        for sender, receiver in ((sender_1, receiver_1), (sender_2, receiver_2)):
            sent = sender.result()
            assert_all_arrived(sent, receiver.stop_after(SHORT_FRAMES), SHORT_FRAMES)
        counted = switch.stop()["ports"]
        came_in, went_out = (
            [port[counter] >= SHORT_FRAMES for port in counted]
            for counter in ("rx_frames", "tx_offered")
        )
        assert came_in == [True, False, False, True]
        assert went_out == [False, True, True, False]
        for engine in (sender_1, receiver_1, receiver_2, sender_2, switch):
            assert engine.leave() == 0
    assert list(tmp_path.iterdir()) == []


def frame_passes(sender: Engine, receiver: Engine) -> bool:
    """Return True if a verification frame passes from one application to the other."""
    sender.say("verify 1")
    sender.event("verification")
    receiver.say("counters")
    return bool(receiver.event("counters")["rx_verification"] > 0)


@pytest.mark.parametrize("kind", PAIRS)
@unless_disturbed
def test_receiver_survives_kill_9_of_senders(wire: str, kind: str) -> None:
    send_port, receive_port = ports(kind, wire)
    with Engine("receiver", receive_port, "--idle", "yield", "--session", core=1) as receiver:
        receiver.event("ready")
        free = hugepages_free()
        for _ in range(3):
            options = (*TO_B, "--rate", "max", "--idle", "yield")
            with Engine("sender", send_port, *options, core=0) as sender:
                sender.start()
                time.sleep(0.2)
                sender.kill()  # in the middle of a burst; its socket file remains
        assert_pages_return(free)
        receiver.start()
        with Engine("sender", send_port, *PACED, "--idle", "yield", core=0) as sender:
            sender.start()
            assert_all_arrived(sender.result(), receiver.stop(), int(RATE_PPS * SECONDS))
            assert sender.leave() == receiver.leave() == 0


@pytest.mark.parametrize("kind", PAIRS)
def test_sender_survives_kill_9_of_receivers(wire: str, kind: str) -> None:
    send_port, receive_port = ports(kind, wire)
    options = (*TO_B, "--rate", "max", "--idle", "yield", "--interval", "0.05")
    with Engine("sender", send_port, *options, core=0) as sender:
        sender.event("ready")
        free = hugepages_free()
        sender.say("start")
        for _ in range(3):
            with Engine("receiver", receive_port, "--idle", "yield", core=1) as receiver:
                receiver.start()
                until(lambda: sender.event("interval")["tx_offered"] > 1000, "frames pass again")
                receiver.kill()
            until(lambda: sender.event("interval")["tx_offered"] == 0, "a dead peer takes none")
        assert_pages_return(free)
        assert sender.stop()["reason"] == "stop"
        assert sender.leave() == 0
    Path(wire).unlink(missing_ok=True)  # socket of a killed receiver


def assert_pages_return(free: int) -> None:
    """Check that pages of killed processes return, apart from those that other programs take."""
    until(lambda: hugepages_free() >= free - 16, "hugepages of the dead return")


def test_ready_does_not_wait_for_the_peer_and_start_is_fast(wire: str) -> None:
    """Measured by the time in which it ran or waited for a core, so that speed does not matter."""
    slept_s = []
    for _ in range(5):
        with Engine("receiver", [f"virtio-user={wire},server"], core=0) as receiver:
            ready = receiver.event("ready")
            took_s = time.monotonic() - receiver.began_s
            ran_ns, waited_ns, _ = map(int, schedstat(receiver.child.pid).split())
            slept_s.append(took_s - (ran_ns + waited_ns) / 1e9)
            assert ready["ports"][0]["driver"] == "net_virtio_user"
            assert ready["dpdk_version"].startswith("DPDK ")
            assert Path(wire).is_socket()
            receiver.say("counters")
            assert receiver.event("counters")["rx_stream"] == 0
            assert receiver.leave() == 0
    assert min(slept_s) < 0.3, slept_s


def schedstat(pid: int) -> str:
    """Return how long its first thread has run and has waited for a core, in ns, and how often."""
    return Path(f"/proc/{pid}/schedstat").read_text()


@pytest.mark.slow
def test_sender_without_peer_reports_it(wire: str) -> None:
    with Engine("sender", [f"virtio-user={wire},server"], *PACED, core=0) as sender:
        sender.event("ready")
        sender.say("start")
        message = sender.event("error")["message"]
        assert wire in message
        assert "connected" in message
        assert sender.child.wait(timeout=30) == 1


def failure(spec: str, *options: str) -> str:
    """Return the line with which the engine refuses a port."""
    with Engine("receiver", [spec], *options, core=0) as engine:
        assert engine.child.wait(timeout=30) in (1, 2)
        lines = engine.errors().strip().splitlines()
        assert len(lines) == 1, lines
        return lines[0]


def test_too_few_hugepages_names_the_remedy(wire: str) -> None:
    line = failure(f"virtio-user={wire},server", "--dpdk-memory-mb", "60000")
    assert "60000 MB of free hugepages" in line
    assert "/proc/sys/vm/nr_hugepages" in line


def test_a_socket_in_use_is_not_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "used.sock"
    with socket.socket(socket.AF_UNIX) as owner:
        owner.bind(str(path))
        owner.listen(1)
        assert "another process listens" in failure(f"virtio-user={path},server")
        assert path.is_socket()


@pytest.mark.parametrize(
    ("spec", "part"),
    [
        ("virtio-user=/nowhere/at/all.sock,server", "No such file"),
        ("virtio-user=/tmp/x,client", "client"),
        ("vhost=/tmp/x,queue-size=256", "queue-size"),
        ("virtio-user=/tmp/x,queue-size=100", "queue-size=100"),
        ("memif=/tmp/x,role=boss", "role=boss"),
        ("nonsense=/tmp/x", "virtio-user=PATH"),
        ("af-packet=sm-no-such-dev", "sm-no-such-dev"),
        ("pci=0000:ff:1f.7", "pci=0000:ff:1f.7"),
        ("vdev=net_nothing0", "net_nothing0"),
    ],
)
def test_port_that_cannot_be_opened_is_one_line(spec: str, part: str) -> None:
    assert part in failure(spec)


@pytest.fixture
def testpmd_paths(tmp_path: Path) -> Iterator[list[Path]]:
    """Two sockets that dpdk-testpmd connects as the switch on core 0."""
    paths = [tmp_path / "a.sock", tmp_path / "b.sock"]
    args = ["taskset", "-c", "0", "dpdk-testpmd", "--lcores", "0@0,1@0", "--no-pci"]
    args += ["--in-memory", "--single-file-segments", "--no-telemetry", "-m", "128"]
    for index, path in enumerate(paths):
        args += ["--vdev", f"net_vhost{index},iface={path},client=1"]
    args += ["--", "--forward-mode=io", "--total-num-mbufs=8192", "--auto-start", "-i"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(args, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet) as child:
        yield paths
        child.kill()


@pytest.mark.skipif(shutil.which("dpdk-testpmd") is None, reason="dpdk-testpmd is not installed")
@pytest.mark.parametrize("cores", ["1", "0,1"])
@unless_disturbed
def test_tester_owns_both_ends_of_testpmd(testpmd_paths: list[Path], cores: str) -> None:
    specs = [f"virtio-user={path},server,{RING}" for path in testpmd_paths]
    options = (*SHORT, *LATE, "--bidirectional", "--idle", "yield", "--session", "--core", cores)
    with Engine("tester", specs, *options, core=1) as tester:
        tester.event("ready")
        until(lambda: receives_own_frames(tester), "testpmd forwards both ways")
        # A switch that got no core for longer than the short drain after a trial makes frames count
        # as lost. Then the trial is repeated.
        for _ in range(5):
            tester.start()
            result = tester.result()
            if all(way["loss"]["lost"] == 0 for way in result["directions"]):
                break
        assert len(result["directions"]) == 2
        for way in result["directions"]:
            assert way["totals"]["tx_offered"] == way["totals"]["rx_frames"] == SHORT_FRAMES
            assert way["loss"]["received_unique"] == SHORT_FRAMES
            assert way["loss"]["duplicates"] == way["loss"]["reordered"] == 0
            assert way["latency"]["kind"] == "one_way"
            assert way["latency"]["count"] == SHORT_FRAMES
        assert tester.leave() == 0


def receives_own_frames(tester: Engine) -> bool:
    """Return True if verification frames pass the switch in both directions between two ends."""
    tester.say("verify 1")
    sent = tester.event("verification")["sent"]
    time.sleep(0.02)
    tester.say("counters")
    return bool(sent == 2 and tester.event("counters")["rx_verification"] >= 2)


@unless_disturbed
def test_af_packet_reaches_the_other_end_of_a_veth(tmp_path: Path) -> None:
    near, far = "smdpdk0a", "smdpdk0b"
    with (
        veth_pair(near, far),
        Engine("receiver", [f"af-packet={far}"], "--idle", "yield", core=1) as receiver,
        Engine("sender", [f"af-packet={near}"], *PACED, "--idle", "yield", core=0) as sender,
    ):
        receiver.start()
        sender.start()
        sent, received = sender.result(), receiver.stop()
        assert sent["totals"]["tx_offered"] == int(RATE_PPS * SECONDS)
        assert received["totals"]["rx_frames"] == sent["totals"]["tx_offered"]
        assert received["totals"]["rx_corrupt"] == received["loss"]["lost"] == 0
        assert sender.leave() == receiver.leave() == 0


def test_any_eal_device_is_a_port() -> None:
    with Engine("sender", ["vdev=net_null0,size=60"], *PACED, core=0) as sender:
        sender.start()
        assert sender.result()["totals"]["tx_offered"] == int(RATE_PPS * SECONDS)
        assert sender.leave() == 0
