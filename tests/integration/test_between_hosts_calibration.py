"""The engine is measured over the cable without switches; the result is stored for both machines,
and trials between them are judged by it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from switchmark.record import Record
from tests.integration.hosts_bench import ATTEMPTS, CABLE_MBIT, measured, trial_args
from tests.integration.two_hosts import TwoHosts, missing, run, sh
from tests.places import needs_namespaces

SIZE = 1500
CABLE_PPS = CABLE_MBIT * 1e6 / 8 / (SIZE - 4)  # limit of the kernel
LATEST = "latest frame at 50 % of the ceiling"

pytestmark = [
    pytest.mark.alone,
    pytest.mark.integration,
    needs_namespaces,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]


R_PLUS: dict[str, str | int] = {
    "method": "r-plus",
    "rate": "max",
    "duration": "0.3s",
    "budget": "4s",
    "burst": 4,
}


def stored(hosts: TwoHosts) -> list[dict[str, object]]:
    folder = hosts.folder / "cache/calibration"
    return [json.loads(path.read_text()) for path in folder.glob("*.json")]


def once(hosts: TwoHosts, engine: Path, switch: str, **more: str | int) -> Record:
    args = trial_args(packet_size=SIZE, **more)
    args[1] = switch
    for _ in range(ATTEMPTS):
        with hosts.favoured():
            _, (record,), stderr = measured(hosts, engine, *args)
        if record.status == "finished":
            return record
    pytest.fail(f"not once finished: {record.message} {stderr}")


@pytest.mark.slow
def test_the_cable_itself_is_measured_and_kept(hosts: TwoHosts, engine: Path) -> None:
    record = once(hosts, engine, "direct", method="calibrate", duration="0.3s", rate="max", burst=4)
    found, far = record.method, record.far_host
    assert record.topology == ["[netns: sender 0] --cable--> [other host, netns: receiver 0]"]
    assert found is not None and far is not None and record.reconciliation is not None
    ceiling, floor = found.figure("ceiling"), found.figure("one-way floor, median")
    assert ceiling is not None and floor is not None and found.figure(LATEST)
    assert floor.low is not None and floor.high is not None, "two clocks"
    assert floor.low < floor.value < floor.high
    # No more frames than the cable carries, apart from the limiter's first burst.
    assert ceiling.value <= CABLE_PPS * 1.2 + 300
    assert record.limit is not None and record.limit.factor in ("link", "receiver"), record.limit
    assert record.reconciliation.cable_lost > 0
    assert record.switch_details["cable"] == "cable0 to cable0"
    for host in (hosts.left, hosts.right):
        link = sh("ip", "link", "show", "cable0", inside=host.pid)
        assert ",UP" in link and "PROMISC" not in link, link
    assert hosts.remains() == []
    if "disturbed" not in (record.verdict.marks if record.verdict else []):
        (calibration,) = stored(hosts)
        point = calibration["point"]
        assert isinstance(point, dict) and point["cable"] == ["cable0", "cable0"]
        assert point["far_machine"]["kernel"], "that of the other host"


def test_a_trial_is_judged_by_the_cable_without_switches(hosts: TwoHosts, engine: Path) -> None:
    """The bench measures the bare cable first without being asked."""
    results = ["--results", str(hosts.folder / "results")]
    args = trial_args(packet_size=SIZE, dimension="latency", rate=200, duration="0.5s")
    for _ in range(ATTEMPTS):
        with hosts.favoured():
            bench = hosts.bench(*args, "--quiet", "--json", *results, engine=engine)
            _, out, stderr = run(bench)
        records = [Record.model_validate(one) for one in json.loads(out)]
        if {one.status for one in records} == {"finished"}:
            break
    else:
        pytest.fail(f"not once finished: {[one.message for one in records]} {stderr}")
    wire, trial = sorted(records, key=lambda one: one.trial.switch != "direct")
    assert (wire.trial.switch, wire.trial.location) == ("direct", "remote")
    assert wire.latency is not None and trial.latency is not None
    assert trial.verdict is not None and "no-baseline" not in trial.verdict.marks
    assert trial.limit is not None
    floor = f"the median of the baseline is {wire.latency.percentiles_ns['50'] / 1e3:.1f} us"
    assert any(one.startswith(floor) for one in trial.limit.evidence), trial.limit


@pytest.mark.slow
def test_r_plus_and_its_one_way_times(hosts: TwoHosts, engine: Path) -> None:
    """The uncertainty of the clocks stands beside each one-way time, with a mark if it is as long
    as the time itself."""
    record = once(hosts, engine, "linux-bridge", **R_PLUS)
    found = record.method
    assert found is not None and record.verdict is not None and len(found.latency) == 3
    for level in found.latency:
        unsure, median = level.latency.clock_uncertainty_ns, level.latency.percentiles_ns["50"]
        assert unsure is not None and unsure > 0
        figure = found.figure(f"one-way median at {level.fraction:g} R+")
        assert figure is not None and (figure.value, figure.high) == (median, median + unsure)
    times = [level.latency for level in found.latency]
    vague = any(level.percentiles_ns["50"] <= (level.clock_uncertainty_ns or 0) for level in times)
    assert ("clocks-uncertain" in record.verdict.marks) is vague
    headline = found.figure("R+")
    assert headline is not None and headline.value <= CABLE_PPS * 1.2 + 300
