"""Every example of `--help` and of the manual runs as written, against the peer that it mentions,
on a device called eth0 or on sockets in a separate /run."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.dpdk_rig import hugepages_free
from tests.integration.engine_tools import Node, engine_path, ip, needs_engine, veth_pair
from tests.integration.machine import needs_root

pytestmark = [*needs_engine, needs_root]
DEADLINE_S = 60
MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")


def text_of(option: str) -> str:
    path = engine_path()
    assert path is not None
    done = subprocess.run([path, option], capture_output=True, text=True, timeout=30, check=True)
    return done.stdout


def examples() -> list[str]:
    """Return the commands as a reader copies them, with their line breaks."""
    if engine_path() is None:
        return []
    lines = text_of("--help").split("Examples:\n")[1].splitlines()
    block = "\n".join(line[4:] if line.startswith("    ") else "" for line in lines)
    return re.findall(r"^switchmark-traffic (?:.*\\\n)*.*$", block, re.MULTILINE)


# Start and content of an example, its end of the wire (0, 1, or sockets), and its peers.
PEERS: dict[tuple[str, str], tuple[str, list[str]]] = {
    ("sender", "null:"): ("none", []),
    ("receiver", "raw:dev=eth0"): (
        "1",
        [f"sender --port raw:dev=eth0,mmsg --dst-mac {MACS[1]} --rate 1k --start now"],
    ),
    ("sender", "raw:dev=eth0"): ("0", ["receiver --port raw:dev=eth0,mmsg --start now"]),
    ("server", "udp:dev=eth0"): (
        "1",
        [
            "client --port udp:dev=eth0 --src-ip 198.18.0.1 --dst-ip 198.18.0.2 --rate 1k "
            "--start now"
        ],
    ),
    ("client", "udp:dev=eth0"): (
        "0",
        ["server --port udp:dev=eth0 --src-ip 198.18.0.2 --dst-ip 198.18.0.1 --start now"],
    ),
    ("tester", "/run/a.sock,server"): (
        "sockets",
        [
            "forwarder --port dpdk:vhost=/run/a.sock,client --port dpdk:vhost=/run/b.sock,client "
            "--idle yield --start now"
        ],
    ),
    ("sender", "/run/a.sock,packed"): (
        "sockets",
        ["receiver --port dpdk:vhost=/run/a.sock --queues 2 --idle yield --start now"],
    ),
    ("sender", "/run/a.sock "): (
        "sockets",
        [
            "receiver --port dpdk:vhost=/run/a.sock --vlan 100 --flows 1M:dst-ip+dst-port "
            "--idle yield --start now"
        ],
    ),
}


@pytest.fixture(scope="module")
def eth0s() -> Iterator[tuple[Node, Node]]:
    """Two hosts whose only device is eth0."""
    with veth_pair("ex") as pair:
        for node, mac in zip(pair, MACS, strict=True):
            ip("-n", node.namespace, "link", "set", node.device, "down")
            ip("-n", node.namespace, "link", "set", node.device, "name", "eth0", "address", mac)
            ip("-n", node.namespace, "link", "set", "eth0", "up")
        for node in pair:
            assert node.peer is not None
            peer_mac = MACS[pair.index(node.peer)]
            where = ["neigh", "replace", node.peer.address, "lladdr", peer_mac, "dev", "eth0"]
            ip("-n", node.namespace, *where)
        yield pair


@contextmanager
def shell(prefix: Sequence[str], command: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command in a shell with the engine on PATH."""
    path = engine_path()
    assert path is not None
    process = subprocess.Popen(
        [*prefix, "sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": f"{Path(path).parent}:{os.environ['PATH']}"},
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        if not process.stdin.closed:
            process.stdin.close()  # ends an engine that still runs
        try:
            process.wait(timeout=30)
        finally:
            if process.poll() is None:
                process.kill()


@contextmanager
def own_run() -> Iterator[list[str]]:
    """Return a command prefix for a mount namespace with an empty /run."""
    holder = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", "mount -t tmpfs tmpfs /run && echo made && exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "made\n"
        yield ["nsenter", "-m", "-t", str(holder.pid)]
    finally:
        holder.kill()
        holder.wait()


def runs(prefix: Sequence[str], peer_prefix: Sequence[str], example: str, peers: list[str]) -> Any:
    """Return the result of the example, which a signal ends once it has traffic."""
    counter = "tx_offered" if example.split()[1] == "sender" else "rx_frames"
    with ExitStack() as stack:
        others = [
            stack.enter_context(shell(peer_prefix, f"exec switchmark-traffic {peer} >/dev/null"))
            for peer in peers
        ]
        process = stack.enter_context(shell(prefix, example))
        assert process.stdin is not None and process.stdout is not None
        late = threading.Timer(DEADLINE_S, process.stdin.close)  # ends a silent engine
        stack.callback(late.cancel)
        late.start()
        events = []
        for line in process.stdout:
            events.append(json.loads(line))
            if events[-1].get(counter, 0) > 0:
                break
        if not events or events[-1]["event"] != "interval":
            raise AssertionError(f"{example}: {events} {process.stderr and process.stderr.read()}")
        assert all(other.poll() is None for other in others), example
        if " --duration 2 " not in example:
            os.kill(events[0]["pid"], signal.SIGTERM)
        events += [json.loads(line) for line in process.stdout]
        assert process.wait(timeout=30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    return events[-1]


def test_examples_cover_all_peers() -> None:
    assert len(examples()) == len(PEERS)


@pytest.mark.parametrize("number", range(len(PEERS)))
def test_example_runs_as_written(eth0s: tuple[Node, Node], number: int) -> None:
    example = examples()[number]
    role = example.split()[1]
    ((place, peers),) = (
        found for (name, part), found in PEERS.items() if name == role and part in example
    )
    if place == "sockets" and hugepages_free() < 192:
        pytest.skip("fewer than 192 free hugepages of 2 MB")
    if "--core 0,1" in example and not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("the example's cores 0 and 1 are not ours")
    if place == "sockets":
        with own_run() as inside:
            result = runs(inside, inside, example, peers)
    else:
        spaces = [["ip", "netns", "exec", node.namespace] for node in eth0s]
        here = spaces[int(place)] if place != "none" else []
        peer_prefix = spaces[1 - int(place)] if place != "none" else []
        result = runs(here, peer_prefix, example, peers)
    assert result["event"] == "result"
    assert not result["partial"], result["fault"]
    assert result["totals"]["rx_corrupt"] == 0


def test_manual_has_the_same_examples_and_no_error() -> None:
    manual = text_of("--man")
    plain = manual.split(".SH EXAMPLES")[1].replace("\\-", "-").replace("\\e", "\\")
    for example in examples():
        assert example in plain
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed: the manual's form is not checked")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-Wbreak", "-z"],
        input=manual, capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert done.stderr == ""
