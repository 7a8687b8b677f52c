"""The netmap backend: VALE ports, pipes, frames forwarded by exchanging buffers, devices.

Without netmap.ko the engine reports that it is missing. tests/vm runs this file in a guest that has
the module."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.engine_tools import (
    Engine,
    Event,
    engine,
    engine_path,
    needs_engine,
    veth_pair,
)
from tests.integration.machine import needs_root

DEVICE = Path("/dev/netmap")
MACS = ("02:53:4d:00:00:01", "02:53:4d:00:00:02")
SLEEP = ("--idle", "sleep")


def engine_output(*args: str) -> subprocess.CompletedProcess[str]:
    """Run the engine with arguments that need no port."""
    path = engine_path()
    assert path is not None
    return subprocess.run([path, *args], capture_output=True, text=True, timeout=20, check=False)


def has_backend() -> bool:
    if engine_path() is None:
        return False
    return re.search(r"^\s*netmap\b", engine_output("--help").stdout, re.MULTILINE) is not None


pytestmark = [*needs_engine, needs_root]
needs_backend = pytest.mark.skipif(
    not has_backend(), reason="the engine is built without netmap's headers (-Dnetmap_headers)"
)
needs_module = pytest.mark.skipif(
    not DEVICE.exists(), reason="no /dev/netmap: netmap.ko is not loaded (see tests/vm)"
)


def addressed(end: int) -> list[str]:
    return ["--src-mac", MACS[end], "--dst-mac", MACS[1 - end]]


@contextlib.contextmanager
def ends(
    first: str, other: str, *args: str, frame_size: str = "64"
) -> Iterator[tuple[Engine, Engine]]:
    """A sender at the first port and a receiver at the other, both ready; the receiver listens."""
    common = ["--frame-size", frame_size, *SLEEP]
    with (
        engine("receiver", "--port", other, *addressed(1), *common) as receiver,
        engine("sender", "--port", first, *addressed(0), *common, *args) as sender,
    ):
        receiver.tell("start")
        receiver.wait("started")
        yield sender, receiver


def run(sender: Engine, receiver: Engine, duration: str = "0.5") -> tuple[Event, Event]:
    sender.tell(f"start duration={duration}")
    sent, code = sender.finish("wait")
    assert code == 0
    received, code = receiver.finish("stop")
    assert code == 0
    return sent, received


@needs_backend
@pytest.mark.skipif(DEVICE.exists(), reason="netmap.ko is loaded")
def test_without_the_module_it_says_so() -> None:
    done = engine_output("receiver", "--port", "netmap:vale0:1")
    assert done.returncode == 1
    assert "/dev/netmap: No such file or directory" in done.stderr
    assert done.stderr.count("\n") == 1


@needs_backend
@pytest.mark.parametrize(
    "spec",
    [
        *("netmap:", "netmap:dev=eth0", "netmap:a,b", "netmap:a,netns=", "netmap:a,door="),
        *("netmap:a,netns=/n,door=/d", f"netmap:a,door=/{'d' * 110}"),
    ],
)
def test_bad_specification_is_refused(spec: str) -> None:
    done = engine_output("receiver", "--port", spec)
    assert done.returncode == 2
    assert "netmap" in done.stderr
    assert done.stderr.count("\n") == 1


@contextlib.contextmanager
def door_that(place: Path, answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """A door that answers its first client; yields the port behind it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(place))
        listening.listen()

        def serve() -> None:
            asking, _ = listening.accept()
            with asking:
                answer(asking)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"netmap:vale0:1,door={place}"
        thread.join(10.0)


def no_port(asking: socket.socket) -> None:
    """Pass on a file that netmap did not open, as a port of size 0."""
    with Path("/dev/null").open("rb") as file:
        socket.send_fds(asking, [bytes(56)], [file.fileno()])


@needs_backend
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda asking: asking.send(b"no port for you"), "no port for you"),
        (lambda asking: asking.send(bytes(56)), "did not send a netmap port"),
        (lambda asking: socket.send_fds(asking, [b"?"], [0]), "did not send a netmap port"),
        (lambda asking: None, "did not send a netmap port"),
        (no_port, "netmap memory: "),
    ],
    ids=["refused", "nothing in it", "no account", "closed", "no port"],
)
def test_file_from_a_door_is_checked(
    tmp_path: Path, answer: Callable[[socket.socket], object], reason: str
) -> None:
    with door_that(tmp_path / "door", answer) as spec:
        done = engine_output("receiver", "--port", spec)
    assert done.returncode == 1
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


@needs_backend
def test_door_without_server_is_refused(tmp_path: Path) -> None:
    done = engine_output("receiver", "--port", f"netmap:vale0:1,door={tmp_path}/door")
    assert done.returncode == 1
    assert f"door={tmp_path}/door: No such file or directory" in done.stderr


@needs_backend
@needs_module
@pytest.mark.parametrize("ports", [("vale7:a", "vale7:b"), ("nmpipe{1", "nmpipe}1")])
@pytest.mark.parametrize("frame_size", ["64", "1518"])
def test_every_frame_arrives(ports: tuple[str, str], frame_size: str) -> None:
    first, other = (f"netmap:{port}" for port in ports)
    with ends(first, other, "--rate", "5k", frame_size=frame_size) as (sender, receiver):
        sent, received = run(sender, receiver)
    assert sent["totals"]["tx_offered"] > 100
    assert received["totals"]["rx_frames"] == sent["totals"]["tx_offered"]
    assert received["totals"]["rx_corrupt"] == 0
    assert received["loss"]["lost"] == 0


@needs_backend
@needs_module
def test_vale_learns_and_floods() -> None:
    """A third port receives frames only until the peer has sent one."""
    third = ["--port", "netmap:vale8:c", "--src-mac", "02:53:4d:00:00:03", "--stream", "7"]
    with (
        engine("receiver", *third, "--dst-mac", MACS[0], *SLEEP) as witness,
        engine("receiver", "--port", "netmap:vale8:b", *addressed(1), *SLEEP) as receiver,
        engine(
            "sender", "--port", "netmap:vale8:a", *addressed(0), "--rate", "2k", *SLEEP
        ) as sender,
    ):
        witness.tell("start")
        witness.wait("started")
        for speaker in (receiver, sender):  # the first frame is flooded
            speaker.tell("verify 2")
            speaker.wait("verification")
        receiver.tell("start")
        receiver.wait("started")
        sent, received = run(sender, receiver)
        heard, _ = witness.finish("stop")
    assert received["totals"]["rx_frames"] == sent["totals"]["tx_offered"] > 100
    assert heard["totals"]["rx_foreign"] == 2


@needs_backend
@needs_module
@pytest.mark.parametrize(
    "middle", [("vale4:x", "vale5:x"), ("nmleft}1", "nmright{1")], ids=["copy", "exchange"]
)
def test_forwarder_between_two_rings(middle: tuple[str, str]) -> None:
    """VALE ports have separate memory, so frames are copied; pipes share it."""
    outer = [port.replace(":x", ":y") for port in middle]
    if "}" in middle[0]:
        outer = ["nmleft{1", "nmright}1"]
    specs = [word for port in middle for word in ("--port", f"netmap:{port}")]
    with (
        engine("forwarder", *specs, *SLEEP) as forwarder,
        ends(f"netmap:{outer[0]}", f"netmap:{outer[1]}", "--rate", "5k") as (sender, receiver),
    ):
        forwarder.tell("start")
        forwarder.wait("started")
        sent, received = run(sender, receiver)
        passed, _ = forwarder.finish("stop")
    assert received["totals"]["rx_frames"] == sent["totals"]["tx_offered"] > 100
    assert received["totals"]["rx_corrupt"] == 0
    assert passed["ports"][0]["rx_frames"] == sent["totals"]["tx_offered"]


@needs_backend
@needs_module
def test_device_in_netmap_mode() -> None:
    with veth_pair("m") as (a, b):
        first = f"netmap:{a.device},netns=/run/netns/{a.namespace}"
        other = f"netmap:{b.device},netns=/run/netns/{b.namespace}"
        with ends(first, other, "--rate", "2k") as (sender, receiver):
            sent, received = run(sender, receiver)
    assert sent["totals"]["tx_offered"] > 100
    assert received["totals"]["rx_frames"] >= 0.95 * sent["totals"]["tx_offered"]
