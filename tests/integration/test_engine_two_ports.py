"""Roles with two ports: the tester with both ends of a wire, the forwarder between two wires."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.integration.engine_tools import (
    Engine,
    engine,
    needs_engine,
    port,
    run_pair,
    veth_pair,
)
from tests.integration.machine import needs_root

pytestmark = [*needs_engine, needs_root]

SLEEP = ["--idle", "sleep"]


@pytest.mark.parametrize("cores", [[], ["--core", "0"], ["--core", "0,1"]])
@pytest.mark.parametrize("direction", [[], ["--bidirectional"]])
def test_tester_owns_both_ends(cores: list[str], direction: list[str]) -> None:
    if len(os.sched_getaffinity(0)) < 2 and cores:
        pytest.skip("this machine has one core")
    with veth_pair("t") as (a, b):
        moved = f"{b.device}x"[:15]  # both ends in one namespace: a process has only one
        ip_move = [
            "ip",
            "-n",
            b.namespace,
            "link",
            "set",
            b.device,
            "name",
            moved,
            "netns",
            a.namespace,
        ]
        subprocess.run(["ip", "-n", b.namespace, "link", "set", b.device, "down"], check=True)
        subprocess.run(ip_move, check=True)
        subprocess.run(["ip", "-n", a.namespace, "link", "set", moved, "up"], check=True)
        b.device = moved
        with engine(
            "tester",
            "--port",
            port("raw-mmsg", a),
            "--port",
            port("raw-mmsg", b),
            "--rate",
            "5k",
            "--burst",
            "2",
            "--duration",
            "0.4",
            "--idle",
            "yield",
            "--touch",
            "--frame-size",
            "100",
            "--catch-up-us",
            "1M",
            *cores,
            *direction,
            node=a,
        ) as tester:
            tester.tell("start")
            result, code = tester.finish("wait")
    assert code == 0
    assert len(result["directions"]) == (2 if direction else 1)
    for direction_result in result["directions"]:
        offered = direction_result["totals"]["tx_offered"]
        assert offered == 2000
        assert direction_result["totals"]["rx_frames"] == offered
        assert direction_result["loss"]["lost"] == 0
        assert direction_result["loss"]["received_unique"] == offered
        assert direction_result["latency"]["kind"] == "one_way"
        assert direction_result["latency"]["count"] == offered
        assert 100 < direction_result["latency"]["percentiles"]["50"] < 100_000_000
    sums = result["totals"]
    assert sums["tx_offered"] == sum(d["totals"]["tx_offered"] for d in result["directions"])
    assert sums["rx_frames"] == sums["tx_offered"]


@pytest.mark.parametrize("io", ["raw", "raw-mmsg"])
def test_forwarder_joins_two_wires(io: str) -> None:
    with veth_pair("f") as (a, fa), veth_pair("g") as (b, fb):
        for node in (fb,):  # move the forwarder's second port into its namespace
            subprocess.run(
                ["ip", "-n", node.namespace, "link", "set", node.device, "down"], check=True
            )
            subprocess.run(
                ["ip", "-n", node.namespace, "link", "set", node.device, "netns", fa.namespace],
                check=True,
            )
            subprocess.run(["ip", "-n", fa.namespace, "link", "set", node.device, "up"], check=True)
        a.peer, b.peer = b, a
        b.address = "198.18.0.9"
        forwarder = Engine(
            "forwarder", ["--port", port(io, fa), "--port", port(io, fb), *SLEEP], fa.namespace
        )
        try:
            forwarder.wait("ready")
            forwarder.tell("start")
            forwarder.wait("started")
            sent, received = run_pair((a, b), io, ["--rate", "5k", "--touch"], duration="0.3")
            result, code = forwarder.finish("stop")
        finally:
            forwarder.close()
    assert code == 0
    offered = sent["totals"]["tx_offered"]
    assert received["totals"]["rx_frames"] == offered > 0
    assert received["totals"]["rx_corrupt"] == 0
    assert result["ports"][0]["rx_frames"] >= offered
    assert result["ports"][1]["tx_offered"] >= offered
    assert result["ports"][1]["tx_dropped"] == 0
