"""Applications between two pods on two nodes: the server is started by the agent in the second pod.

A VXLAN joins the nodes, which are network namespaces of this machine.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from switchmark.host.programs import which
from tests.integration.machine import needs_root
from tests.integration.own_network import OwnNetwork
from tests.integration.pod_rig import IMAGE_PATH, trial, two_nodes, write_testbed
from tests.integration.waiting import DEADLINE_S
from tests.truths import truth

pytestmark = [pytest.mark.integration, needs_root]
FAR = ("location=remote", "endpoints=pod:shop/web-0+pod:shop/db-1")
SERVER = "--listen 10.244.2.2"
TBF_BPS = 20_000_000
# Bytes of a full segment on the device between the nodes: payload 1398, TCP with timestamps 32,
# IPv4 20, Ethernet 14; VXLAN, UDP, IPv4 and Ethernet around it 50.
PAYLOAD, ON_THE_WIRE = 1398, 1514


@pytest.fixture(scope="module")
def nodes() -> Iterator[OwnNetwork]:
    with two_nodes(Path(f"/var/tmp/smpodapp{os.getpid()}")) as host:
        yield host


def permitted(host: OwnNetwork) -> tuple[str, ...]:
    return ("--testbed", str(write_testbed(host)), "--yes-this-network", "flannel.1")


def measured(host: OwnNetwork, *settings: str) -> Any:
    done = trial(host, *FAR, *settings, more=permitted(host))
    assert done.stdout, done.stderr
    (record,) = json.loads(done.stdout)
    assert record["status"] == "finished", record["message"]
    return record


def servers(host: OwnNetwork) -> list[int]:
    """The processes of TCP servers in the second pod."""
    return host.engines(" tcp-server ", SERVER)


def received(host: OwnNetwork) -> int:
    """The packets that the second pod has received."""
    lines = host.sh("ip netns exec b cat /proc/net/dev").splitlines()
    (fields,) = [line.split(":")[1].split() for line in lines if line.strip().startswith("eth0")]
    return int(fields[1])


@pytest.mark.parametrize(
    ("workload", "rate", "packets"),
    [("tcp-rr", "200", 200), ("tcp-crr", "100", 500), ("udp-rr", "200", 200)],
)
def test_requests_reach_a_server_on_another_node(
    nodes: OwnNetwork, workload: str, rate: str, packets: int
) -> None:
    """Each request of tcp-crr is five packets: three open and close its connection."""
    before = nodes.state(learned=False)
    record = measured(nodes, f"workload={workload}", f"rate={rate}", "dimension=latency")
    transport = record["transport"]
    assert transport["requests_sent"] == transport["requests_answered"] == int(rate)
    assert transport["payload_forth"] == 64 * int(rate)
    assert min(transport["packets_forth"], transport["packets_back"]) >= packets
    assert record["latency"]["percentiles_ns"]["50"] > 0
    assert record["latency"]["intended_percentiles_ns"]["50"] > 0
    devices = record["crossing"]["devices"]
    assert [one["device"] for one in devices] == ["eth0", "va", "flannel.1", "eth0"]
    assert devices[-1]["namespace"] == "host db (pod shop/db-1)"
    assert all(one["bytes"] >= record["crossing"]["least_bytes"] > 0 for one in devices)
    client, server = record["engines"]
    assert transport["offloads"][f"{server['node']}/eth0"]["scatter-gather"] is True
    assert "devices of the path on the other node" in transport["unknown"][0]
    # A process of this host may have the number of the server.
    assert transport["server_cpu"]["seconds"] == server["result"]["cpu"]["cpu_ns"] / 1e9
    assert record["far_host"]["cpu"]["applications_cores_used"] > 0
    if workload == "tcp-rr":
        assert set(transport["congestion_control"]) == {client["node"], server["node"]}
    assert nodes.state(learned=False) == before
    assert not list((nodes.folder / "pod").glob("*.ledger")), "the agent has left nothing"


def test_datagrams_reach_a_server_on_another_node(nodes: OwnNetwork) -> None:
    record = measured(nodes, "workload=udp-stream", "rate=4Mbps", "datagram_size=1000")
    transport = record["transport"]
    assert transport["payload_forth"] > 0 and transport["payload_forth"] % 1000 == 0
    assert transport["packets_forth"] * 1000 >= transport["payload_forth"]
    (run,) = (nodes.folder / "r").glob(f"*{record['run_id']}")
    shown = nodes.bench("show", "--full", str(run)).stdout
    assert "unknown: devices of the path on the other node" in " ".join(shown.split())


# The workload, its program and the one of its server, and more settings.
FOREIGN = [
    ("tcp-stream", "iperf3", "iperf3", ("rate=4Mbps",)),
    ("udp-stream", "iperf3", "iperf3", ("rate=4Mbps", "datagram_size=1000")),
    ("tcp-rr", "sockperf", "sockperf", ("rate=200", "duration=2s", "dimension=latency")),
    ("udp-rr", "sockperf", "sockperf", ("rate=200", "duration=2s", "dimension=latency")),
    ("http", "switchmark", "nginx", ("rate=200", "dimension=latency")),
    ("http", "switchmark", "nginx", ("rate=20", "response_size=20000")),
    ("dns", "dnsperf", "dnsmasq", ("rate=200", "dimension=latency")),
]


@pytest.mark.parametrize(("workload", "generator", "server", "more"), FOREIGN)
def test_server_of_another_project_runs_in_the_pod(
    nodes: OwnNetwork, workload: str, generator: str, server: str, more: tuple[str, ...]
) -> None:
    for program in {generator, server} - {"switchmark"}:
        if which(program) is None:
            pytest.skip(f"no program {program} here")
    record = measured(nodes, f"workload={workload}", f"generator={generator}", *more)
    transport = record["transport"]
    assert min(transport["payload_forth"], transport["packets_forth"]) > 0
    assert record["crossing"]["devices"][-1]["namespace"] == "host db (pod shop/db-1)"
    assert 0 < transport["server_cpu"]["seconds"] < 2, "of the server in the pod alone"
    assert record["far_host"]["cpu"]["applications_cores_used"] > 0
    client, ran = record["engines"]
    assert ran["args"][0] == server and ran["ready"]["version"][0].isdigit()
    assert list(transport["offloads"]) == [
        f"{client['node']}/eth0", f"{ran['node']}/eth0", "network/va", "network/flannel.1",
    ]  # fmt: skip
    assert transport["unknown"][0].startswith("devices of the path on the other node")
    if generator != "switchmark":
        assert record["instrument"]["agrees"] is True
    if workload == "tcp-stream":
        assert set(transport["congestion_control"]) == {client["node"], ran["node"]}
    elif transport["protocol"] == "tcp":
        assert "congestion control of the server" in transport["unknown"][-1]
    assert not list((nodes.folder / "pod").glob("*.ledger")), "the agent has left nothing"
    left = nodes.sh("ps -eo args").splitlines()
    assert not [line for line in left if server in line and "10.244.2.2" in line]


@pytest.mark.parametrize(
    ("workload", "generator"), [("tcp-stream", "iperf3"), ("tcp-rr", "sockperf")]
)
def test_pod_without_the_program_of_the_server_is_refused(
    nodes: OwnNetwork, workload: str, generator: str
) -> None:
    """The image has Python and nothing else; the client is on this node."""
    if which(generator) is None:
        pytest.skip(f"no program {generator} here")
    image = nodes.folder / "image"
    image.mkdir(exist_ok=True)
    for name in ("python3", "env"):
        (image / name).unlink(missing_ok=True)
        (image / name).symlink_to(sys.executable if name == "python3" else "/usr/bin/env")
    (nodes.folder / IMAGE_PATH).write_text(str(image))
    try:
        done = trial(nodes, *FAR, "workload=tcp-stream", "generator=iperf3", more=permitted(nodes))
    finally:
        (nodes.folder / IMAGE_PATH).unlink()
    assert done.returncode == 3
    text = " ".join(done.stderr.split())
    assert "host db (pod shop/db-1) has no program iperf3, which is the server" in text
    assert "add it to the image" in text


@pytest.fixture
def narrow(nodes: OwnNetwork) -> Iterator[OwnNetwork]:
    """`tc tbf` on the device between the nodes."""
    nodes.sh(f"tc qdisc add dev up0 root tbf rate {TBF_BPS}bit burst 32kb limit 256kb")
    yield nodes
    nodes.sh("tc qdisc del dev up0 root")


@pytest.mark.alone
@truth("goodput of a TCP stream between two nodes", "`tc tbf`, payload / frame", "kernel", "2 %")
def test_stream_between_nodes_has_the_rate_of_the_path(narrow: OwnNetwork) -> None:
    record = measured(narrow, "workload=tcp-stream", "rate=40Mbps", "max_rate=10k", "duration=3s")
    expected = TBF_BPS * PAYLOAD / ON_THE_WIRE
    assert record["transfer"]["goodput_bps"] == pytest.approx(expected, rel=0.02)
    assert record["transport"]["payload_forth"] <= record["crossing"]["devices"][-1]["bytes"]


@pytest.mark.slow  # the stall must lie within the requests
def test_stalled_server_on_another_node_delays_due_requests(nodes: OwnNetwork) -> None:
    """Only the client's clock times a request. The server stops for 400 ms while 200 requests/s are
    due, so that about 80 of them are late."""
    running = nodes.spawn(
        sys.executable, "-m", "switchmark", "trial", "existing", "--no-baseline", "--json",
        "--dimension", "latency", "--rate", "200", "--duration", "4s", "--set", "workload=tcp-rr",
        *(word for setting in FAR for word in ("--set", setting)), *permitted(nodes),
        "--results", str(nodes.folder / "stall"),
    )  # fmt: skip
    (pid,) = serving(nodes, lambda: running.poll() is None)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.4)
    os.kill(pid, signal.SIGCONT)
    running.communicate(timeout=60)
    (path,) = (nodes.folder / "stall").glob("*/trials/*.json")
    record = json.loads(path.read_text())
    assert record["status"] == "finished", record["message"]
    assert record["latency"]["intended_max_ns"] >= 380_000_000
    assert record["latency"]["intended_percentiles_ns"]["99"] >= 100_000_000
    assert record["transport"]["requests_answered"] == 800


def serving(host: OwnNetwork, alive: Any) -> list[int]:
    """Wait until a server in the second pod has received requests; return its process."""
    deadline, before = time.monotonic() + 3 * DEADLINE_S, None
    while True:
        assert time.monotonic() < deadline and alive(), "no server receives requests"
        if pids := servers(host):
            before = received(host) if before is None else before
            if received(host) > before + 60:
                return pids
        time.sleep(0.05)


def test_killed_bench_leaves_no_server_on_the_other_node(nodes: OwnNetwork) -> None:
    before = nodes.state(learned=False)
    running = nodes.spawn(
        sys.executable, "-m", "switchmark", "trial", "existing", "--no-baseline", "--rate", "200",
        "--duration", "10s", "--set", "workload=tcp-rr",
        *(word for setting in FAR for word in ("--set", setting)), *permitted(nodes),
        "--results", str(nodes.folder / "killed"),
    )  # fmt: skip
    serving(nodes, lambda: running.poll() is None)
    running.kill()
    running.wait()
    deadline = time.monotonic() + 30
    while servers(nodes) or list((nodes.folder / "pod").glob("*.ledger")):
        assert time.monotonic() < deadline, "the agent has not ended its server"
        time.sleep(0.1)
    nodes.bench("clean")
    assert nodes.state(learned=False) == before


@pytest.mark.slow  # the client runs to its end
def test_server_that_ends_fails_the_trial_with_its_reason(nodes: OwnNetwork) -> None:
    running = nodes.spawn(
        sys.executable, "-m", "switchmark", "trial", "existing", "--no-baseline", "--rate", "200",
        "--duration", "10s", "--set", "workload=tcp-rr",
        *(word for setting in FAR for word in ("--set", setting)), *permitted(nodes),
        "--results", str(nodes.folder / "ended"),
    )  # fmt: skip
    (pid,) = serving(nodes, lambda: running.poll() is None)
    os.kill(pid, signal.SIGKILL)
    text = running.communicate(timeout=90)[0]
    assert running.returncode == 1
    assert "FAILED" in text and "rx0" in text


def test_large_requests_above_the_cap_are_refused(nodes: OwnNetwork) -> None:
    """200 requests/s of 100 kB are 160 Mbit/s."""
    done = trial(nodes, *FAR, "workload=tcp-rr", "request_size=100000", more=permitted(nodes))
    assert done.returncode == 3 and "write max_rate" in done.stderr
