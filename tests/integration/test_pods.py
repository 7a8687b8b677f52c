"""Pods: every command of docs/kubernetes.md, with `crictl` and `kubectl` that act on namespaces.

The host of the test is the first node. A network namespace is the second node; a VXLAN joins them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.machine import needs_root
from tests.integration.own_network import ROOT, OwnNetwork
from tests.integration.pod_rig import trial, two_nodes, write_testbed
from tests.integration.waiting import DEADLINE_S

pytestmark = [pytest.mark.integration, needs_root]
PAGE = ROOT / "docs/kubernetes.md"


@pytest.fixture(scope="module")
def nodes() -> Iterator[OwnNetwork]:
    with two_nodes(Path(f"/var/tmp/smpods{os.getpid()}")) as host:
        yield host


def blocks() -> Iterator[tuple[str, str, str]]:
    """The blocks of code of the page: the file that a comment names, the language, the text."""
    pattern = r"(?:<!-- file: (\S+) -->\n)?\s*```(\w+)\n(.*?)```"
    for name, language, text in re.findall(pattern, PAGE.read_text(), re.DOTALL):
        lines = text.splitlines()
        margin = len(lines[0]) - len(lines[0].lstrip())
        yield name, language, "\n".join(line[margin:] for line in lines) + "\n"


@pytest.mark.slow  # four trials and a survey, each with an agent in the pod
def test_page_commands_run_in_their_order(nodes: OwnNetwork) -> None:
    """The campaigns have one repetition of 1 s here; everything else is as the page has it."""
    folder = nodes.folder / "page"
    folder.mkdir()
    ran = []
    for name, language, text in blocks():
        if name:
            short = text.replace("repetitions: 5", "repetitions: 1").replace("2s", "1s")
            (folder / name).write_text(short)
        elif language == "sh":
            ran.append(text)
            nodes.sh(f"cd {folder}; export PYTHONPATH={shlex.quote(str(ROOT))}; {text}")
    assert len(ran) == 7, "the page has the commands that the test expects"
    records = [json.loads(path.read_text()) for path in folder.glob("results/*/trials/*.json")]
    assert len(records) == 5
    assert {one["status"] for one in records} == {"finished"}
    (application,) = [one for one in records if one["transport"] is not None]
    assert application["latency"]["percentiles_ns"]["50"] > 0
    records.remove(application)
    assert all(one["throughput"]["forwarded_pps"] > 0 for one in records)


@pytest.fixture
def testbed(nodes: OwnNetwork) -> Path:
    return write_testbed(nodes)


def test_container_of_a_pod_is_entered(nodes: OwnNetwork) -> None:
    done = trial(nodes, "endpoints=pod:shop/web-0/app+pod:shop/db-0/app")
    assert done.stdout, done.stderr
    (record,) = json.loads(done.stdout)
    assert record["status"] == "finished", record["message"]
    assert [one["device"] for one in record["crossing"]["devices"]] == ["eth0", "va", "vc", "eth0"]


def test_pod_on_another_node_is_measured(nodes: OwnNetwork, testbed: Path) -> None:
    before = nodes.state(learned=False)
    done = trial(
        nodes, "location=remote", "endpoints=pod:shop/web-0+pod:shop/db-1", "dimension=latency",
        more=("--testbed", str(testbed), "--yes-this-network", "flannel.1"),
    )  # fmt: skip
    assert done.stdout, done.stderr
    (record,) = json.loads(done.stdout)
    assert record["status"] == "finished", record["message"]
    assert record["latency"]["percentiles_ns"]["50"] > 0
    crossing = record["crossing"]
    assert (crossing["ttl_forth"], crossing["ttl_back"], crossing["path_mtu"]) == (62, 62, 1450)
    far = crossing["devices"][-1]
    assert (far["namespace"], far["device"]) == ("host db (pod shop/db-1)", "eth0")
    assert all(one["bytes"] >= crossing["least_bytes"] > 0 for one in crossing["devices"])
    assert record["far_host"]["address"] == "pod shop/db-1"
    assert any("flannel.1" in line for line in crossing["path"])
    assert nodes.state(learned=False) == before
    assert not list((nodes.folder / "pod").glob("*.ledger")), "the agent has left nothing"


def test_path_to_another_node_needs_permission(nodes: OwnNetwork, testbed: Path) -> None:
    settings = ("location=remote", "endpoints=pod:shop/web-0+pod:shop/db-1")
    done = trial(nodes, *settings, more=("--testbed", str(testbed)))
    assert done.returncode == 3
    assert (
        "flannel.1 is a vxlan tunnel to another host; --yes-this-network flannel.1" in done.stderr
    )
    capped = trial(
        nodes, *settings, "rate=2k",
        more=("--testbed", str(testbed), "--yes-this-network", "flannel.1"),
    )  # fmt: skip
    assert capped.returncode == 3 and "write max_rate" in capped.stderr


def test_another_pod_than_the_testbeds_is_refused(nodes: OwnNetwork, testbed: Path) -> None:
    done = trial(
        nodes, "location=remote", "endpoints=pod:shop/web-0+pod:shop/db-7",
        more=("--testbed", str(testbed)),
    )  # fmt: skip
    assert done.returncode == 2 and "name the same pod in both" in done.stderr


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("workload=redis", "redis-benchmark sends as fast as it can"),
        ("abort_if=3", "abort_if works on one host only"),
        ("endpoints=pod:shop/web-0+netns:b", "leads to a pod on another node"),
    ],
)
def test_combinations_between_nodes_are_refused(
    nodes: OwnNetwork, testbed: Path, setting: str, text: str
) -> None:
    done = trial(
        nodes, "location=remote", "endpoints=pod:shop/web-0+pod:shop/db-1", setting,
        more=("--testbed", str(testbed)),
    )  # fmt: skip
    assert done.returncode == 2 and text in done.stderr


def test_pod_that_ends_fails_the_trial(nodes: OwnNetwork, testbed: Path) -> None:
    running = nodes.spawn(
        sys.executable, "-m", "switchmark", "trial", "existing", "--no-baseline", "--rate", "200",
        "--duration", "100s", "--set", "location=remote", "--set", "max_rate=1k",
        "--set", "endpoints=pod:shop/web-0+pod:shop/db-1", "--testbed", str(testbed),
        "--yes-this-network", "flannel.1", "--results", str(nodes.folder / "r"),
    )  # fmt: skip
    deadline = time.monotonic() + 2 * DEADLINE_S
    while not (engines := nodes.engines(" receiver ", "10.244.2.2")):
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.1)
    # The agent is first, since it would report the end of its engine.
    pids = sorted(map(int, nodes.sh("ip netns pids b").split()), key=lambda pid: pid in engines)
    nodes.run("kill", "-9", *map(str, pids), check=False)
    text = running.communicate(timeout=2 * DEADLINE_S)[0]
    assert running.returncode != 0
    assert "host db (pod shop/db-1): connection lost" in text
