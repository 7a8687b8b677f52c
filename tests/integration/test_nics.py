"""Real ports of the host at the wire ends (`nics`). A veth pair replaces two ports with a cable:
for the bench they are two network devices that go back to the host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.machine import needs_root
from tests.integration.main_job import (
    POLLING,
    SHORT,
    Bench,
    campaign_file,
    describe,
    measured,
    need,
    settings,
)
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, needs_root]


def ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def nics() -> Iterator[list[str]]:
    """Two cables: tester's end, switch's end, tester's end, switch's end."""
    names = [f"nic{os.getpid()}{letter}"[-15:] for letter in "abcd"]
    for near, far in (names[:2], names[2:]):
        ip("link", "add", near, "type", "veth", "peer", "name", far)
    for name in names:
        ip("link", "set", name, "addrgenmode", "none")
        ip("link", "set", name, "up")
    # The kernel reports carriers late, at most once a second.
    until(lambda: all(one["operstate"] == "UP" for one in look(names).values()), "cables are up")
    yield names
    for name in names[::2]:
        subprocess.run(["ip", "link", "del", name], check=False)


def written(names: list[str]) -> str:
    return f"{names[0]}/{names[1]}+{names[2]}/{names[3]}"


def look(names: list[str]) -> dict[str, dict[str, object]]:
    """Return the state of the host's ports, of which one stays promiscuous."""
    links = {link["ifname"]: link for link in json.loads(ip("-j", "-d", "link"))}
    keys = ("address", "mtu", "qdisc", "promiscuity", "operstate", "master")
    return {name: {key: links[name].get(key) for key in keys} for name in names}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("switch", "scenario", "more"),
    [
        ("linux-bridge", "p2p", "connect_mode: learning\n"),
        ("linux-bridge", "loopback-1", "connect_mode: static-mac\nbidirectional: true\n"),
        ("ovs-dpdk", "loopback-1", "connect_mode: learning\nswitch_options: pmd_maxsleep_us:200\n"),
        ("basicfwd", "p2p", "connect_mode: cross-connect\n"),
    ],
    ids=["bridge", "bridge-chain", "ovs-chain", "forwarder"],
)
def test_traffic_uses_the_ports_and_they_come_back(
    bench: Bench, tmp_path: Path, nics: list[str], switch: str, scenario: str, more: str
) -> None:
    need([switch], ["lxc"])
    before = look(nics)
    (record,) = measured(
        bench, tmp_path,
        f"switch: {switch}\nenvironment: lxc\nscenario: {scenario}\nnics: {written(nics)}\n{more}"
        "dimension: throughput\nduration: 1s\nrate: 500\nburst: 4\n",
    )  # fmt: skip
    assert record.verification is not None and record.verification.passed, describe(record)
    assert record.wire_ends == [], "no substitute for a port"
    drawn = record.topology[0].replace("<", "")
    first = f"[port {nics[0]}: {'duplex' if 'bidirectional' in more else 'sender'} 0]"
    assert drawn.startswith(f"{first} --port {nics[1]}--> [{switch}, ")
    assert f"--port {nics[3]}--> [port {nics[2]}: " in drawn
    assert record.reconciliation is not None
    for path in record.reconciliation.paths:
        assert path.arrived > 0 and path.switch_received is not None, describe(record)
        assert path.switch_received >= path.arrived
    until(lambda: look(nics) == before, "the ports are back as they were")


def test_port_that_the_host_uses_is_refused(bench: Bench, tmp_path: Path, nics: list[str]) -> None:
    ip("addr", "add", "203.0.113.77/32", "dev", nics[2])
    text = f"switch: linux-bridge\nscenario: p2p\nnics: {written(nics)}\n"
    code, _, err = bench.run("run", campaign_file(tmp_path, text), "--no-baseline", "--quiet")
    assert code == 3 and f"nics: interface {nics[2]}: has the address 203.0.113.77/32" in err
    pci = written(["0000:ff:1f.7", *nics[1:]])
    text = f"switch: basicfwd\nscenario: p2p\nnics: {pci}\n"
    code, _, err = bench.run("run", campaign_file(tmp_path, text), "--no-baseline", "--quiet")
    assert code == 3 and "nics: 0000:ff:1f.7 does not exist" in err


def test_ports_come_back_after_kill_9(bench: Bench, tmp_path: Path, nics: list[str]) -> None:
    need(["linux-bridge"], ["netns"])
    ip("link", "set", nics[3], "promisc", "on")
    before = look(nics)
    text = f"switch: linux-bridge\nscenario: p2p\nnics: {written(nics)}\nduration: 60s\nrate: 5k\n"
    file = campaign_file(tmp_path, text + "dimension: throughput\n")
    job = bench.start("run", file, "--no-baseline", "--quiet", *settings(*SHORT, POLLING))
    try:
        session = job.wait_session()
        job.wait_measuring()
    finally:
        job.process.send_signal(signal.SIGKILL)
        job.process.communicate(timeout=30)
    assert not set(nics) & {link["ifname"] for link in json.loads(ip("-j", "link"))}
    code, _, err = bench.run("clean")
    assert code == 0, err
    assert bench.left(session) == []
    until(lambda: look(nics) == before, "the ports are back as they were")
