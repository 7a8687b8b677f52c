"""The engine's capabilities: none once its ports are open, those of its row before, and the failure
without each of them."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from switchmark.engine.arguments import needed_capabilities, port_spec
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.host.session import open_session
from switchmark.model.io import Io
from switchmark.model.ports import PortKind
from tests.integration.engine_tools import (
    Engine,
    Node,
    engine,
    engine_path,
    needs_engine,
    veth_pair,
)
from tests.integration.machine import needs_root, node_spec
from tests.integration.waiting import until

pytestmark = [*needs_engine, needs_root]

# linux/capability.h
NUMBERS = {"dac_override": 1, "net_admin": 12, "net_raw": 13, "ipc_lock": 14, "bpf": 39}
SOCKET = ("net_raw", "net_admin")
XDP = (*SOCKET, "bpf", "ipc_lock")
OPENED_BY = {  # while the ports are opened, none afterwards
    "raw:dev={}": SOCKET,
    "packet_mmap:dev={}": SOCKET,
    "io_uring:dev={}": SOCKET,
    "af_xdp:dev={}": XDP,
    "udp:dev={}": ("net_admin",),
    "null:": (),
}
LOCKED_KIB = 64  # less than any port of AF_XDP needs


def mask(names: tuple[str, ...]) -> int:
    return sum(1 << NUMBERS[name] for name in names)


def privileges(pid: int) -> list[dict[str, str]]:
    """Return the capabilities of each thread of a process."""
    return [
        dict(re.findall(r"^(Cap\w+|NoNewPrivs):\t(\w+)$", path.read_text(), re.MULTILINE))
        for path in Path(f"/proc/{pid}/task").glob("*/status")
    ]


def assert_threads_have(pid: int, names: tuple[str, ...], bounds: tuple[str, ...]) -> None:
    threads = privileges(pid)
    assert len(threads) >= 2
    for thread in threads:
        assert thread["NoNewPrivs"] == "1"
        assert int(thread["CapInh"], 16) == int(thread["CapAmb"], 16) == 0
        assert int(thread["CapBnd"], 16) == mask(bounds)
        assert int(thread["CapPrm"], 16) & ~mask(names) == 0
        assert thread["CapEff"] == thread["CapPrm"]


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Node, Node]]:
    with veth_pair("p") as nodes:
        yield nodes


def lacking(spec: str) -> bool:
    listed = subprocess.run(
        [str(engine_path()), "receiver", "--port", f"{spec.partition(':')[0]}:nonsense"],
        check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30,
    )  # fmt: skip
    return "this build has no" in listed.stderr


def asked_before_and_while_it_sends(
    spec: str, wire: tuple[Node, Node], ask: Callable[[int], None]
) -> None:
    """Query a sender with such a port by its pid, once it is ready and when it sends."""
    if lacking(spec):
        pytest.skip(f"the engine is built without {spec.partition(':')[0]}")
    with engine("sender", "--port", spec.format(wire[0].device), "--rate", "1k", "--idle", "sleep",
                node=wire[0]) as running:  # fmt: skip
        ask(running.process.pid)
        running.tell("start duration=0.5")
        running.wait("started")
        ask(running.process.pid)
        sent, code = running.finish("wait")
        assert sent["totals"]["tx_offered"] > 0 == code


@pytest.mark.parametrize("spec", OPENED_BY)
def test_running_engine_has_no_capability(wire: tuple[Node, Node], spec: str) -> None:
    asked_before_and_while_it_sends(
        spec, wire, lambda pid: assert_threads_have(pid, (), OPENED_BY[spec])
    )


def test_dpdk_keeps_capabilities_for_kernel_devices(wire: tuple[Node, Node]) -> None:
    """Its driver sets modes and addresses until the end, and EAL's threads are not the engine's."""
    if lacking("dpdk:"):
        pytest.skip("the engine is built without dpdk")
    with engine("sender", "--port", f"dpdk:af-packet={wire[0].device}", "--rate", "1k",
                node=wire[0]) as running:  # fmt: skip
        assert_threads_have(running.process.pid, SOCKET, SOCKET)


def test_dpdk_with_a_socket_has_no_capability(tmp_path: Path) -> None:
    if lacking("dpdk:"):
        pytest.skip("the engine is built without dpdk")
    port = f"dpdk:virtio-user={tmp_path / 's'},server"
    with engine("sender", "--port", port, "--dst-mac", "02:00:00:00:00:01") as running:
        assert len(privileges(running.process.pid)) > 2, "EAL has additional threads"
        assert_threads_have(running.process.pid, (), ())


def test_foreign_files_are_opened_before_rights_are_dropped(tmp_path: Path) -> None:
    """As root, the engine writes into a folder that its user has closed to others."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    subprocess.run(["chown", "65534", str(folder)], check=True, timeout=10)
    running = Engine("sender", ["--port", f"pcap:write={folder / 'out.pcap'}"])
    try:
        running.wait("ready")
        assert_threads_have(running.process.pid, (), ("dac_override",))
    finally:
        running.close()
    assert (folder / "out.pcap").exists()


def cut_capture(path: Path) -> None:
    """Write a capture that ends inside its second frame, which the engine reports while it
    reads."""
    frame = b"\xff" * 6 + bytes((2, 0, 0, 0, 0, 1)) + b"\x88\xb5" + bytes(86)
    record = struct.pack("<IIII", 7, 0, len(frame), len(frame)) + frame
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    path.write_bytes(header + record + record[:40])


def test_capture_is_read_without_capabilities(tmp_path: Path) -> None:
    """Only another user may read the file, so opening it needs a capability. A full standard error
    stops the engine while it reads."""
    capture = tmp_path / "other" / "cut.pcap"
    capture.parent.mkdir(mode=0o700)
    cut_capture(capture)
    capture.chmod(0o600)
    subprocess.run(["chown", "-R", "65534", str(capture.parent)], check=True, timeout=10)
    out, full = os.pipe()
    os.set_blocking(full, False)
    with suppress(BlockingIOError):
        while True:
            os.write(full, bytes(65536))
    with suppress(BlockingIOError):
        while True:
            os.write(full, b"\0")
    os.set_blocking(full, True)
    running = subprocess.Popen(
        [str(engine_path()), "sender", "--port", "null:", "--replay", str(capture)],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=full,
    )  # fmt: skip
    os.close(full)
    try:
        syscall = Path(f"/proc/{running.pid}/syscall")
        until(lambda: syscall.read_text().split()[1:2] == ["0x2"], "the message about the cut file")
        (thread,) = privileges(running.pid)
        assert thread["NoNewPrivs"] == "1"
        assert {thread[name] for name in ("CapEff", "CapPrm", "CapBnd")} == {"0" * 16}
    finally:
        running.kill()
        running.communicate()
        os.close(out)


def without(node: Node, spec: str, has: tuple[str, ...], limit: str = "") -> str:
    """Return the message of an engine with these capabilities alone; "" when it is ready."""
    bounds = ",".join(["-all", *(f"+{name}" for name in has)])
    done = subprocess.run(
        ["ip", "netns", "exec", node.namespace, "sh", "-c", f'{limit} exec "$@"', "sh",
         "setpriv", "--bounding-set", bounds, "--inh-caps", "-all",
         str(engine_path()), "receiver", "--port", spec.format(node.device)],
        input="stop\n", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode == 0) == ('"ready"' in done.stdout), done
    return "" if done.returncode == 0 else done.stdout + done.stderr


NEEDED = [
    ("raw:dev={}", ("net_raw",), "CAP_NET_RAW"),
    ("packet_mmap:dev={}", ("net_raw",), "CAP_NET_RAW"),
    ("io_uring:dev={}", ("net_raw",), "CAP_NET_RAW"),
    ("af_xdp:dev={}", ("net_raw", "net_admin", "bpf"), "CAP_|not permitted"),
]


@pytest.mark.parametrize(("spec", "needed", "says"), NEEDED)
def test_each_capability_is_needed(
    wire: tuple[Node, Node], spec: str, needed: tuple[str, ...], says: str
) -> None:
    if lacking(spec):
        pytest.skip(f"the engine is built without {spec.partition(':')[0]}")
    assert without(wire[0], spec, OPENED_BY[spec]) == ""
    for name in needed:
        left = tuple(one for one in OPENED_BY[spec] if one != name)
        assert re.search(says, without(wire[0], spec, left)), f"{spec} without {name}"


def test_af_xdp_locks_memory_beyond_the_limit(wire: tuple[Node, Node]) -> None:
    if lacking("af_xdp:"):
        pytest.skip("the engine is built without af_xdp")
    limit = f"ulimit -l {LOCKED_KIB};"
    assert without(wire[0], "af_xdp:dev={}", XDP, limit) == ""
    assert without(wire[0], "af_xdp:dev={}", XDP[:-1], limit) != ""


def test_buffers_of_sockets_are_small_without_net_admin(wire: tuple[Node, Node]) -> None:
    """The engine opens, but net.core.rmem_max limits its buffers, so the row has the capability."""
    bytes_of = {}
    for has in (SOCKET, ("net_raw",)):
        args = ["--bounding-set", ",".join(["-all", *(f"+{one}" for one in has)])]
        command = ["setpriv", *args, "--inh-caps", "-all", str(engine_path())]
        with subprocess.Popen(
            ["ip", "netns", "exec", wire[0].namespace, *command, "receiver", "--port",
             f"raw:dev={wire[0].device}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as running:  # fmt: skip
            assert running.stdout is not None and running.stdin is not None
            assert '"ready"' in running.stdout.readline()
            sockets = subprocess.run(
                ["ip", "netns", "exec", wire[0].namespace, "ss", "-0", "-a", "-m", "-n"],
                check=True, capture_output=True, text=True, timeout=30,
            ).stdout  # fmt: skip
            bytes_of[has] = max(int(one) for one in re.findall(r"\brb(\d+)", sockets))
            running.stdin.close()
    assert bytes_of[SOCKET] == 2 * (64 << 20)
    assert bytes_of[("net_raw",)] < bytes_of[SOCKET]


@pytest.mark.parametrize("environment", ["bare", "netns"])
def test_engines_of_the_bench_have_no_capability(environment: str, state_dir: None) -> None:
    with open_session() as session:
        node = ENVIRONMENTS[environment]().create(session, node_spec("tx0", 0))
        spec = port_spec(node.spec.port, Io.RAW_MMSG)
        running = node.spawn_engine(["receiver", "--port", spec])
        assert '"ready"' in (running.read_line(20) or "")
        assert_threads_have(running.pid, (), SOCKET)
        running.close_input()
        assert running.wait(20) == 0
        node.close()


def test_containers_get_only_capabilities_of_the_engine() -> None:
    for io, port in ((Io.RAW, "raw:dev={}"), (Io.AF_XDP, "af_xdp:dev={}"), (Io.UDP, "udp:dev={}")):
        assert set(needed_capabilities(io, PortKind.VETH)) <= set(OPENED_BY[port])
