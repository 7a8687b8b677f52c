"""The kernel I/O backends beyond plain sockets on veth pairs: rings of AF_PACKET, AF_XDP and
io_uring in every role that they support, against observers that share no code with them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from switchmark.host.kernel import device_settings, namespaces
from tests.integration.engine_tools import (
    Engine,
    Node,
    PacketCounter,
    engine,
    engine_path,
    ip,
    needs_engine,
    port,
    run_pair,
    veth_pair,
)
from tests.integration.machine import needs_root
from tests.integration.waiting import until

pytestmark = [*needs_engine, needs_root]

SLEEP = ["--idle", "sleep"]
UNHURRIED = ["--catch-up-us", "1M"]  # a late sender skips no frame


def missing(backend: str) -> str | None:
    """Return why the engine under test was built without a backend."""
    path = engine_path()
    if path is None:
        return None  # skipped already
    engine_run = subprocess.run(
        [path, "receiver", "--port", f"{backend}:nonsense"],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    return engine_run.stderr.strip() if "this build has no" in engine_run.stderr else None


def all_ios(*names: str) -> list[ParameterSet]:
    """Return test parameters; those of missing backends are skipped by name."""
    return [
        pytest.param(name, marks=pytest.mark.skipif(why is not None, reason=str(why)))
        for name in names
        for why in [missing(name.partition("-")[0])]
    ]


WHOLE_FRAMES = all_ios("packet_mmap", "packet_mmap-ring=v2", "af_xdp", "io_uring")
ALL = [*WHOLE_FRAMES, *all_ios("io_uring-socket=udp", "raw-qdisc=queue", "raw-mmsg-qdisc=queue")]


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Node, Node]]:
    with veth_pair("k") as nodes:
        yield nodes


@pytest.fixture(scope="module")
def jumbo_wire() -> Iterator[tuple[Node, Node]]:
    with veth_pair("j") as nodes:
        for node in nodes:
            ip("-n", node.namespace, "link", "set", node.device, "mtu", "9000")
        yield nodes


@pytest.mark.parametrize("io", ALL)
@pytest.mark.parametrize("size", [65, 1518])
def test_sent_frames_are_counted_by_an_independent_counter(
    wire: tuple[Node, Node], io: str, size: int
) -> None:
    args = ["--rate", "10k", "--burst", "5", "--frame-size", str(size), "--stream", "78"]
    with (
        PacketCounter(wire[1], stream=78) as counter,
        engine("sender", "--port", port(io, wire[0]), *args, *SLEEP, *UNHURRIED, "--touch",
               node=wire[0]) as sender,
    ):  # fmt: skip
        sender.tell("start duration=0.3")
        sent, code = sender.finish("wait")
        counted = counter.done()
    assert code == 0
    assert sent["totals"]["tx_offered"] == 3000 == sent["totals"]["tx_intended"]
    assert counted.frames == 3000
    assert counted.sizes == {size: 3000}
    assert counted.sequences == dict.fromkeys(range(3000), 1)


def check_pair(sent: dict[str, Any], received: dict[str, Any], size: int, frames: int) -> None:
    """Check that every offered frame arrived once, in order and intact."""
    totals, loss = received["totals"], received["loss"]
    assert sent["totals"]["tx_offered"] == frames
    assert totals["rx_frames"] == frames
    assert totals["rx_bytes"] == frames * size
    assert totals["rx_corrupt"] == totals["rx_socket_drops"] == 0
    assert (loss["lost"], loss["duplicates"], loss["reordered"]) == (0, 0, 0)
    assert (loss["first_sequence"], loss["last_sequence"]) == (0, frames - 1)


@pytest.mark.parametrize("io", ALL)
@pytest.mark.parametrize("size", [64, 1518])
def test_both_ends_agree_at_a_low_rate(wire: tuple[Node, Node], io: str, size: int) -> None:
    args = ["--rate", "10k", "--burst", "4", "--frame-size", str(size), "--touch", *UNHURRIED]
    sent, received = run_pair(wire, io, args, duration="0.3")
    check_pair(sent, received, size, 3000)


@pytest.mark.parametrize("io", WHOLE_FRAMES)
def test_frames_of_another_backend_are_received_whole(wire: tuple[Node, Node], io: str) -> None:
    a, b = wire
    args = ["--frame-size", "300", "--touch", *SLEEP]
    with (
        engine("receiver", "--port", port(io, b), *args, node=b) as receiver,
        engine("sender", "--port", port("raw-mmsg", a), *args, "--rate", "20k", *UNHURRIED,
               node=a) as sender,
    ):  # fmt: skip
        receiver.tell("start")
        receiver.wait("started")
        sender.tell("start duration=0.2")
        sent, _ = sender.finish("wait")
        received, _ = receiver.finish("stop")
    check_pair(sent, received, 300, 4000)


@pytest.mark.parametrize("io", [*WHOLE_FRAMES, *all_ios("io_uring-socket=udp")])
def test_jumbo_frames_pass_whole(jumbo_wire: tuple[Node, Node], io: str) -> None:
    args = ["--rate", "5k", "--burst", "3", "--frame-size", "9018", "--touch", *UNHURRIED]
    sent, received = run_pair(jumbo_wire, io, args, duration="0.3")
    check_pair(sent, received, 9018, 1500)


@pytest.mark.parametrize("io", ALL)
def test_round_trips_are_plausible(wire: tuple[Node, Node], io: str) -> None:
    a, b = wire
    args = ["--touch", "--frame-size", "128", *SLEEP]
    with (
        engine("server", "--port", port(io, b), *args, node=b) as server,
        engine("client", "--port", port(io, a), *args, "--rate", "2k", "--burst", "1",
               "--duration", "0.4", "--patience", "2s", *UNHURRIED, node=a) as client,
    ):  # fmt: skip
        server.tell("start")
        server.wait("started")
        client.tell("start")
        result, code = client.finish("wait")
        echoed, _ = server.finish("stop")
    assert code == 0
    latency = result["latency"]
    assert result["totals"]["tx_offered"] == 800
    assert result["loss"]["lost"] == 0
    assert result["loss"]["received_unique"] == 800 == latency["count"]
    assert echoed["totals"]["rx_frames"] == echoed["totals"]["tx_offered"] == 800
    assert result["totals"]["rx_corrupt"] == echoed["totals"]["rx_corrupt"] == 0
    assert 1_000 < latency["min_ns"] <= latency["percentiles"]["50"] < 20_000_000


@contextlib.contextmanager
def in_one_namespace(tag: str) -> Iterator[tuple[Node, Node]]:
    """A wire whose second end lies in the first end's namespace."""
    with veth_pair(tag) as (a, b):
        moved = f"{b.device}x"[:15]
        ip("-n", b.namespace, "link", "set", b.device, "down")
        ip("-n", b.namespace, "link", "set", b.device, "name", moved, "netns", a.namespace)
        ip("-n", a.namespace, "link", "set", moved, "up")
        b.device = moved
        yield a, b


@pytest.mark.parametrize("io", WHOLE_FRAMES)
@pytest.mark.parametrize("cores", [[], ["--core", "0,1"]])
def test_a_tester_owns_both_ends(io: str, cores: list[str]) -> None:
    if len(os.sched_getaffinity(0)) < 2 and cores:
        pytest.skip("this machine has one core")
    traffic = ["--rate", "5k", "--burst", "2", "--duration", "0.3", "--frame-size", "100"]
    with in_one_namespace("t") as (a, b):
        ports = ["--port", port(io, a), "--port", port(io, b)]
        with engine("tester", *ports, *traffic, "--idle", "yield", "--touch", "--bidirectional",
                    "--session", *UNHURRIED, *cores, node=a) as tester:  # fmt: skip
            for trial in (1, 2):  # the second shows leftovers of the first trial's threads
                tester.tell("start")
                result = tester.wait("result", trial)
            code = tester.finish("stop")[1]
    assert code == 0
    for direction in result["directions"]:
        totals = direction["totals"]  # a tester that got no core for long skips frames
        assert totals["tx_intended"] == totals["tx_offered"] + totals["tx_dropped"] == 1500
        assert 0 < totals["tx_offered"] == totals["rx_frames"]
        assert (
            direction["loss"]["received_unique"]
            == direction["latency"]["count"]
            == totals["rx_frames"]
        )
        whole_ns = result["duration_ns"] + result["drain_ns"]  # so long on a busy machine
        assert 100 < direction["latency"]["percentiles"]["50"] < whole_ns


@contextlib.contextmanager
def two_wires(role: str, io: str, *args: str) -> Iterator[tuple[Node, Node, Engine]]:
    """Two nodes with a running forwarder that joins their wires; `io` may name two backends,
    NEAR+FAR."""
    with veth_pair("f") as (a, fa), veth_pair("g") as (b, fb):
        ip("-n", fb.namespace, "link", "set", fb.device, "down")
        ip("-n", fb.namespace, "link", "set", fb.device, "netns", fa.namespace)
        ip("-n", fa.namespace, "link", "set", fb.device, "up")
        for namespace, device in (
            (a.namespace, a.device),
            (b.namespace, b.device),
            (fa.namespace, fa.device),
            (fa.namespace, fb.device),
        ):
            ip("-n", namespace, "link", "set", device, "mtu", "9000")
        a.peer, b.peer, b.address = b, a, "198.18.0.9"
        near, _, far = io.partition("+")
        ports = ["--port", port(near, fa), "--port", port(far or near, fb)]
        forwarder = Engine(role, [*ports, *args, *SLEEP], fa.namespace)
        try:
            forwarder.wait("ready")
            forwarder.tell("start")
            forwarder.wait("started")
            yield a, b, forwarder
        finally:
            forwarder.close()


@pytest.mark.parametrize("io", WHOLE_FRAMES)
@pytest.mark.parametrize("size", [64, 9018])
def test_forwarder_joins_two_wires(io: str, size: int) -> None:
    frame = ["--frame-size", str(size)]
    with two_wires("forwarder", io, *frame) as (a, b, forwarder):
        args = ["--rate", "5k", "--burst", "4", "--touch", *frame, *UNHURRIED]
        sent, received = run_pair((a, b), "raw-mmsg", args, duration="0.3")
        result, code = forwarder.finish("stop")
    assert code == 0
    check_pair(sent, received, size, 1500)
    assert result["ports"][0]["rx_frames"] >= 1500
    assert result["ports"][1]["tx_offered"] >= 1500
    assert result["ports"][1]["tx_dropped"] == 0


@pytest.mark.skipif(missing("af_xdp") is not None, reason=str(missing("af_xdp")))
def test_full_length_tagged_frames_fit_the_slots_of_af_xdp() -> None:
    """Longer than the frame size of the forwarder, but not than the MTU of its devices."""
    tagged = ["--vlan", "100", "--frame-size", "1522"]
    with two_wires("forwarder", "raw-mmsg+af_xdp") as (a, b, forwarder):
        args = ["--rate", "5k", "--burst", "4", *tagged, *UNHURRIED]
        sent, received = run_pair((a, b), "raw-mmsg", args, duration="0.2")
        result, code = forwarder.finish("stop")
    assert code == 0
    check_pair(sent, received, 1522, 1000)
    assert result["ports"][1]["tx_dropped"] == 0


def test_queued_frames_come_after_the_trial() -> None:
    """Twice the load of the forwarder: nothing is lost, and half of it is residual."""
    with two_wires("reference", "raw-mmsg", "--cost-ns", "50000") as (a, b, _):
        sent, received = run_pair((a, b), "raw-mmsg", ["--rate", "40k", *UNHURRIED], "0.5")
    residual = received["residual"]
    assert received["totals"]["rx_frames"] == sent["totals"]["tx_offered"]
    # The forwarder and the sender's end message may wait for a core, but a frame takes at least
    # 50 us.
    assert residual["within_ns"] >= 0.9 * 50_000 * (residual["frames"] - 256)
    assert received["duration_ns"] + residual["within_ns"] >= 0.9 * 50_000 * 20_000


MORE_THAN_A_RING = (
    300_000  # frames; each takes at least a hundred bytes of the largest ring's 32 MiB
)


@pytest.mark.parametrize("io", all_ios("packet_mmap-ring-mb=1", "packet_mmap-ring=v2", "af_xdp"))
def test_drops_on_the_receiver_side_are_reported(wire: tuple[Node, Node], io: str) -> None:
    a, b = wire
    spec = port(io, b) if "ring-mb" not in io else f"packet_mmap:dev={b.device},ring-mb=1"
    with (
        engine("receiver", "--port", spec, "--interval", "0.2", *SLEEP, node=b) as receiver,
        engine("sender", "--port", port("raw-mmsg", a), "--idle", "yield", node=a) as sender,
    ):
        receiver.tell("start")
        receiver.wait("started")
        receiver.process.send_signal(signal.SIGSTOP)
        sender.tell("start interval=0.1")
        sender.wait_sent(MORE_THAN_A_RING)  # a busy machine may take long
        sent = sender.finish("stop")[0]["totals"]["tx_offered"]
        receiver.process.send_signal(signal.SIGCONT)
        silent = 0
        while silent < 2:  # until its rings are empty
            count = len(receiver.all("interval")) + 1
            silent = silent + 1 if receiver.wait("interval", count)["rx_frames"] == 0 else 0
        received, _ = receiver.finish("stop")
    totals = received["totals"]
    assert totals["rx_frames"] > 0 and totals["rx_corrupt"] == 0
    assert totals["rx_socket_drops"] > 0
    assert totals["rx_frames"] + totals["rx_socket_drops"] == sent


@pytest.mark.parametrize("io", WHOLE_FRAMES)
@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_traffic_goes_on_after_a_link_fault(io: str, role: str) -> None:
    """The result is partial and names the device; each frame that arrived afterwards counts."""
    near, far = ("sender", "receiver") if role == "sender" else ("receiver", "sender")
    sends = ["--rate", "2k", "--burst", "1"]
    counter = {"sender": "tx_offered", "receiver": "rx_frames"}[role]
    with (
        veth_pair("d") as (a, b),
        engine(far, "--port", port("raw", b), *(sends if far == "sender" else []), *SLEEP,
               "--session", node=b) as other,
        engine(near, "--port", port(io, a), *(sends if near == "sender" else []),
               "--interval", "0.1", "--session", *SLEEP, node=a) as running,
    ):  # fmt: skip

        def grows() -> bool:
            return bool((last := running.all("interval")) and last[-1][counter] > 0)

        for each in (other, running) if far == "receiver" else (running, other):
            each.tell("start")
            each.wait("started")
        until(grows, f"{counter} grows")
        ip("-n", a.namespace, "link", "set", a.device, "down")
        until(lambda: running.all("interval")[-1].get("lost_link") is True, "the loss is reported")
        until(lambda: not grows(), "no frame passes")
        ip("-n", a.namespace, "link", "set", a.device, "up")
        until(grows, f"{counter} grows again")
        running.tell("stop")
        result = running.wait("result")
        running.tell("start")  # and the next trial is whole
        until(grows, f"{counter} grows in the next trial")
        running.tell("stop")
        second = running.wait("result", 2)
        running.tell("exit")
        code = running.finish("wait")[1]
    assert code == 0
    assert (result["reason"], result["partial"]) == ("stop", True)
    assert a.device in result["fault"]
    assert "its peer or device went away during the trial" in result["fault"]
    assert second["partial"] is False


@pytest.mark.parametrize("io", all_ios("raw", "packet_mmap", "io_uring"))
def test_receiver_of_a_device_that_stays_down_is_partial(io: str) -> None:
    """Without a set duration, so that the end of a peer would not count."""
    with (
        veth_pair("d") as (a, _),
        engine("receiver", "--port", port(io, a), "--interval", "0.1", *SLEEP, node=a) as running,
    ):
        running.tell("start")
        running.wait("interval")
        ip("-n", a.namespace, "link", "set", a.device, "down")
        until(lambda: running.all("interval")[-1].get("lost_link") is True, "the loss is reported")
        running.tell("stop")
        result, code = running.finish("wait")
    assert code == 0
    assert (result["reason"], result["partial"]) == ("stop", True)
    assert "went away during the trial" in result["fault"]


SENDING = all_ios("raw-mmsg", "udp")
RECEIVING = [*WHOLE_FRAMES, *SENDING, *all_ios("io_uring-socket=udp")]
LINK_USERS = [
    pytest.param(role, *io.values, marks=io.marks)
    for role, ios in (("sender", SENDING), ("receiver", RECEIVING))
    for io in ios
]
LINK_FAULTS = {
    "lost and back": "went away during the trial",
    "deleted": "away during the trial|No such device|Network is (down|unreachable)",
}


@pytest.mark.parametrize(("role", "io"), LINK_USERS)
@pytest.mark.parametrize("fault", LINK_FAULTS)
def test_lost_link_makes_the_result_partial(role: str, io: str, fault: str) -> None:
    """The device stays, but its carrier is lost at the other end. UDP sockets accept frames
    then."""
    with veth_pair("l") as (a, b):
        options = ["--rate", "2k", "--burst", "1"] if role == "sender" else []
        with engine(role, "--port", port(io, a), *options, "--interval", "0.05", *SLEEP,
                    node=a) as running:  # fmt: skip
            running.tell("start duration=60")
            running.wait("interval")
            if fault == "deleted":
                ip("-n", b.namespace, "link", "del", b.device)
            else:
                ip("-n", b.namespace, "link", "set", b.device, "down")
                ip("-n", b.namespace, "link", "set", b.device, "up")
            count = len(running.all("interval"))
            until(
                lambda: (
                    running.events[-1]["event"] == "end of file"
                    or len(running.all("interval")) > count + 1
                ),
                "two intervals, or its end",
            )
            with contextlib.suppress(BrokenPipeError):
                running.tell("stop")
            result, code = running.finish("wait")
            assert running.stderr().count("\n") == 1
    assert result["partial"] is True
    assert code == (1 if result["reason"] == "failure" else 0)
    assert re.search(LINK_FAULTS[fault], result["fault"])
    assert a.device in result["fault"]


def refused(node: Node, spec: str, role: str = "receiver", *more: str) -> tuple[str, int]:
    """Return the message and the exit code of an engine that cannot open its port."""
    path = engine_path()
    assert path is not None
    done = subprocess.run(
        ["ip", "netns", "exec", node.namespace, path, role, "--port", spec, *more],
        stdin=subprocess.DEVNULL,
        check=False,
        capture_output=True,
        text=True,
        timeout=20,
    )
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0], done.returncode


@pytest.mark.skipif(missing("af_xdp") is not None, reason=str(missing("af_xdp")))
def test_af_xdp_reports_unavailable_options(wire: tuple[Node, Node]) -> None:
    a = wire[0]
    line, code = refused(a, f"af_xdp:dev={a.device},mode=zerocopy")
    assert code == 1 and "no zero-copy; use mode=copy" in line
    line, code = refused(a, f"af_xdp:dev={a.device},queue=200")
    assert code == 1 and "queue 200" in line and "so many queues" in line
    line, code = refused(a, f"af_xdp:dev={a.device},queue=1,queues=2")
    assert code == 2 and "give one of them" in line
    with engine("receiver", "--port", port("af_xdp", a), *SLEEP, node=a) as first:
        assert first.wait("ready")["ports"][0]["driver"] == "af_xdp copy"
        line, code = refused(a, f"af_xdp:dev={a.device}")
        assert code == 1
        assert "another process uses that queue" in line or "another XDP program" in line
    link = ip("-n", a.namespace, "link", "show", a.device)
    assert "xdp" not in link, "the program is removed with the process"


@pytest.mark.parametrize("options", ["queues=1,busy-poll", "mode=copy", "block"])
@pytest.mark.skipif(missing("af_xdp") is not None, reason=str(missing("af_xdp")))
def test_af_xdp_options(wire: tuple[Node, Node], options: str) -> None:
    a, b = wire
    with (
        engine("receiver", "--port", f"af_xdp:dev={b.device},{options}", *SLEEP,
               node=b) as receiver,
        engine("sender", "--port", f"af_xdp:dev={a.device},{options}", "--rate", "5k",
               "--burst", "4", *SLEEP, *UNHURRIED, node=a) as sender,
    ):  # fmt: skip
        receiver.tell("start")
        receiver.wait("started")
        sender.tell("start duration=0.2")
        sent, _ = sender.finish("wait")
        received, _ = receiver.finish("stop")
    check_pair(sent, received, 64, 1000)


def test_a_kernel_end_answers_frames_of_af_xdp_and_rings(wire: tuple[Node, Node]) -> None:
    """One end uses rings, the other a plain UDP socket: the kernel's own IP and UDP accept the
    frames."""
    a, b = wire
    # A veth passes on unfinished checksums unless offload is disabled.
    namespaces.inside(b.namespace, lambda: device_settings.disable_offloads(b.device))
    for io in ("packet_mmap", "af_xdp", "io_uring"):
        if missing(io):
            continue
        with (
            engine("server", "--port", port("udp", b), *SLEEP, "--touch", node=b) as server,
            engine("client", "--port", port(io, a), *SLEEP, "--touch", "--rate", "1k",
                   "--burst", "1", "--duration", "0.2", *UNHURRIED, node=a) as client,
        ):  # fmt: skip
            server.tell("start")
            server.wait("started")
            client.tell("start")
            result, code = client.finish("wait")
            server.finish("stop")
        assert code == 0, io
        assert result["loss"]["received_unique"] == result["totals"]["tx_offered"] == 200, io


def test_missing_backends_are_named(wire: tuple[Node, Node]) -> None:
    line, code = refused(wire[0], "af_xpd:dev=lo")
    assert code == 2 and "unknown backend 'af_xpd'" in line
    for backend in ("af_xdp", "io_uring"):
        if why := missing(backend):
            assert "rebuild" in why


def test_packet_mmap_delivers_timed_frames_at_once(wire: tuple[Node, Node]) -> None:
    """Its other ring is faster but adds up to 1 ms to each latency. It is for trials that only
    count; others are refused."""
    _, b = wire
    for args, ring in (
        ([], "rx-v3"), (["--latency", "1"], "rx-v2"), (["--probes", "1"], "rx-v2"),
    ):  # fmt: skip
        with engine("receiver", "--port", port("packet_mmap", b), *args, *SLEEP, node=b) as timed:
            assert ring in timed.wait("ready")["ports"][0]["driver"]
    for key in ("latency", "probes"):
        with engine("receiver", "--port", port("packet_mmap", b), *SLEEP, node=b) as receiver:
            receiver.tell(f"start {key}=1")
            message = receiver.wait("error")["message"]
            assert receiver.process.wait(timeout=20) == 1
        assert message.startswith(f"{key}: port 0 (packet_mmap:dev={b.device})")
        assert f"give --{key} 1 on the command line, or ring=v2" in message
        with engine(
            "receiver", "--port", port("packet_mmap-ring=v2", b), *SLEEP, node=b
        ) as counting:
            counting.tell(f"start {key}=1")
            counting.wait("started")
            assert counting.finish("stop")[1] == 0
