"""What the engine can do over the cable with no switch on either host: measured, kept for both
machines, and what trials between them are judged by."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from switchmark.results.record import Record
from tests.integration.hosts_bench import CABLE_MBIT, measured, trial_args
from tests.integration.two_hosts import TwoHosts, missing, sh

SIZE = 1500
CABLE_PPS = CABLE_MBIT * 1e6 / 8 / (SIZE - 4)  # what the kernel's limit lets through

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="hosts of namespaces need root"),
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]


def kept(hosts: TwoHosts) -> list[dict[str, object]]:
    folder = hosts.folder / "cache/calibration"
    return [json.loads(path.read_text()) for path in folder.glob("*.json")]


def once(hosts: TwoHosts, engine: Path, switch: str, **more: str | int) -> Record:
    args = trial_args(packet_size=SIZE, **more)
    args[1] = switch
    with hosts.favoured():
        _, (record,), said = measured(hosts, engine, *args)
    assert record.status == "finished", (record.message, said)
    return record


def test_the_cable_itself_is_measured_and_kept(hosts: TwoHosts, engine: Path) -> None:
    record = once(hosts, engine, "direct", method="calibrate", duration="0.3s", rate="max", burst=4)
    found, far = record.method, record.far_host
    assert record.topology == ["[netns: sender 0] --cable--> [other host, netns: receiver 0]"]
    assert found is not None and far is not None and record.reconciliation is not None
    ceiling, floor = found.figure("ceiling"), found.figure("one-way floor, median")
    assert ceiling is not None and floor is not None and found.figure("latest frame at 0.5")
    assert floor.low is not None and floor.high is not None, "two clocks"
    assert floor.low < floor.value < floor.high
    # Not one frame more than the cable carries, beyond what its bucket lets through at once.
    assert ceiling.value <= CABLE_PPS * 1.2 + 300
    assert record.limit is not None and record.limit.what in ("link", "receiver"), record.limit
    assert record.reconciliation.cable_lost > 0
    assert record.switch_details["cable"] == "cable0 to cable0"
    for host in (hosts.left, hosts.right):
        link = sh("ip", "link", "show", "cable0", inside=host.pid)
        assert ",UP" in link and "PROMISC" not in link, link
    assert hosts.remains() == []
    if "disturbed" not in (record.verdict.marks if record.verdict else []):
        (one,) = kept(hosts)
        point = one["point"]
        assert isinstance(point, dict) and point["cable"] == ["cable0", "cable0"]
        assert point["far_machine"]["kernel"], "that of the other host"
