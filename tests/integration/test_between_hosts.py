"""Trials between two hosts: the cable's set rate and time are measured, clocks that differ do no
harm, and every switch that can be there carries its frames."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from switchmark.host.kernel import capabilities
from switchmark.record import Record
from tests.integration.hosts_bench import (
    AHEAD_S,
    ATTEMPTS,
    CABLE_MBIT,
    measured,
    repeated,
    trial_args,
)
from tests.integration.two_hosts import TwoHosts, missing, run, sh
from tests.places import needs_namespaces

SIZE = 1500  # with the FCS, which the kernel's limit does not count
CABLE_PPS = CABLE_MBIT * 1e6 / 8 / (SIZE - 4)
OFFERED_PPS = 4000
AT_ONCE = 80  # frames: the limiter's bucket, and what its queue holds
SETTLED_NS = 20_000_000  # after which the limiter has let through what it lets through at once
LEAST_NS = 500_000_000
ONE_WAY_NS = 20_000_000
LATE_ANSWERS = 20  # a tenth of a second's: of a server that had no core at the end

CAMPAIGN = f"""
name: between-hosts
switch: linux-bridge
location: remote
trim: {{warm_up: 0.2s, cool_down: 0.2s}}
sweeps:
  - {{packet_size: {SIZE}, rate: {OFFERED_PPS}, burst: 4, duration: 2s, interval: 0.1s}}
  - {{packet_size: 64, rate: 200, duration: 2s, scenario: pairs-8}}
  - {{packet_size: 64, rate: 200, duration: 2s, scenario: loopback-2, bidirectional: true}}
  - {{packet_size: 64, rate: 200, duration: 1s, dimension: latency, environment: bare}}
"""

ONE_WAY = """
name: one-way
switch: linux-bridge
location: remote
dimension: latency
packet_size: 64
rate: 300
duration: 0.5s
trim: {warm_up: 0.05s, cool_down: 0s}
"""

BOTH_WAYS = """
name: both-ways
switch: linux-bridge
location: remote
method: one-way
bidirectional: true
packet_size: 64
rate: 300
probe_rate: 200
duration: 1s
"""

pytestmark = [
    pytest.mark.alone,
    pytest.mark.integration,
    needs_namespaces,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]


@pytest.mark.slow
def test_trials_between_hosts(hosts: TwoHosts, engine: Path) -> None:
    campaign = hosts.folder / "campaign.yaml"
    campaign.write_text(CAMPAIGN)

    def once() -> tuple[int, list[Record], str]:
        with hosts.favoured():
            return measured(hosts, engine, "run", str(campaign))

    records = repeated(once)
    assert len(records) == 4
    (limited,) = (one for one in records if one.trial.packet_size_bytes == SIZE)
    check_limited(limited)
    (pairs,) = (one for one in records if one.trial.pairs == 8)
    (chain,) = (one for one in records if one.trial.scenario == "loopback-2")
    for record, streams in ((pairs, 8), (chain, 2)):
        assert record.throughput is not None and record.verification is not None
        assert record.verification.passed and len(record.throughput.pairs) == streams
        assert [one.lost_frames for one in record.throughput.pairs] == [0] * streams
        assert sum(one.sent > 0 for one in record.reconciliation.paths) == streams
    assert {one.node for one in chain.vnfs} == {"v0-1", "v0-2"}
    sent = sum(one.sent for one in chain.reconciliation.paths)
    assert all((one.forwarded_frames or 0) >= sent for one in chain.vnfs), "both ways through both"
    (round_trip,) = (one for one in records if one.latency is not None)
    assert round_trip.latency.kind == "rtt" and round_trip.latency.lost <= LATE_ANSWERS
    assert hosts.remains() == []
    for host in (hosts.left, hosts.right):  # what was lent is back, and up
        assert "UP" in sh("ip", "-br", "link", "show", "cable0", inside=host.pid)
    check_rate(hosts, engine, limited)


def test_hosts_are_listed_with_their_clocks(hosts: TwoHosts, engine: Path) -> None:
    code, out, err = run(hosts.bench("list", "hosts", "--json", engine=engine))
    assert code == 0, err
    left, right = json.loads(out)["hosts"]
    assert (left["name"], left["seen"]) == ("left", "this machine")
    assert right["hostname"] == "right" and right["reached"] and right["problem"] == ""
    clock = right["clock"]
    assert abs(clock["ahead_ns"] - AHEAD_S * 10**9) <= clock["uncertainty_ns"]
    assert hosts.remains() == []


def test_one_way_times_are_those_of_the_cable(hosts: TwoHosts, engine: Path) -> None:
    """The cable takes a set time on the way there, and none on the way back, so neither half a
    round trip nor a clock that is hours ahead could pass for it. A frame is never early: bounds
    hold on any machine; only how far the truth is narrowed down depends on it."""
    campaign = hosts.folder / "one-way.yaml"
    campaign.write_text(ONE_WAY)
    story: list[str] = []
    with hosts.delayed(ONE_WAY_NS / 1e9):
        for _ in range(ATTEMPTS):
            with hosts.favoured():
                _, (record,), said = measured(hosts, engine, "run", str(campaign))
            if record.status == "failed":  # an application had no core for seconds
                story.append(record.message or said)
                continue
            there, round_trip = record.one_way, record.latency
            assert there is not None and round_trip is not None and there.kind == "one_way"
            assert there.count >= round_trip.count > 0
            unsure = there.clock_uncertainty_ns
            assert unsure is not None
            # What the truth is: at least the set time, at most the round trip.
            assert there.min_ns + unsure >= ONE_WAY_NS
            assert there.min_ns - unsure <= round_trip.min_ns
            story.append(f"the clocks' offset is unsure by {unsure:.0f} ns")
            if unsure < ONE_WAY_NS / 4:
                break
        else:
            pytest.skip(f"this machine is too busy: {'; '.join(story)}")
    assert record.verdict is not None and "clocks-uncertain" not in record.verdict.marks
    assert record.far_host is not None and record.far_host.cpu is not None
    assert record.far_host.cpu.applications_cores_used > 0 and record.far_host.cpu.frames


@pytest.mark.slow
def test_probes_both_ways_have_the_cable_s_time_one_way_only(hosts: TwoHosts, engine: Path) -> None:
    """Each end times its peer's probes by its own clock, hours from the other's."""
    campaign = hosts.folder / "both-ways.yaml"
    campaign.write_text(BOTH_WAYS)

    def once() -> tuple[int, list[Record], str]:
        with hosts.favoured():
            return measured(hosts, engine, "run", str(campaign))

    with hosts.delayed(ONE_WAY_NS / 1e9):
        (record,) = repeated(once)
    assert record.method is not None
    (at,) = record.method.latency
    forward, reverse = (one.latency for one in at.latency.directions)
    unsure = at.latency.clock_uncertainty_ns
    assert unsure is not None and forward.clock_uncertainty_ns is not None
    assert forward.min_ns + unsure >= ONE_WAY_NS
    assert reverse.min_ns < forward.min_ns
    assert forward.min_ns + reverse.min_ns + 2 * unsure >= ONE_WAY_NS
    assert at.probe_rate_pps == 400 and forward.count > 0 and reverse.count > 0


def saturated_pps(record: Record) -> float:
    """The forwarded load while the sender was sending as it should. On a busy machine it gets
    no core for up to a second, and then the cable has nothing to carry; its own samples tell
    when, by the same clock as the receiver's: for that they have been converted."""
    assert record.throughput is not None, record.message
    sender, receiver = record.engines
    full: list[tuple[int, int]] = []  # spans in which it sent at its rate
    for one in sender.intervals:
        if one.counters["tx_offered"] * 1e9 < 0.9 * OFFERED_PPS * max(1, one.duration_ns):
            continue
        begin = one.t_ns - one.duration_ns
        joined = bool(full) and begin - full[-1][1] < 1_000_000
        full[-1:] = [(full[-1][0], one.t_ns)] if joined else [*full[-1:], (begin, one.t_ns)]
    kept = [
        one
        for one in receiver.intervals
        if any(b + SETTLED_NS <= one.t_ns - one.duration_ns and one.t_ns <= e for b, e in full)
    ]
    lasted_ns = sum(one.duration_ns for one in kept)
    if lasted_ns < LEAST_NS:  # no core for most of the time
        return record.throughput.forwarded_pps
    return sum(one.counters["rx_frames"] for one in kept) * 1e9 / lasted_ns


def check_rate(hosts: TwoHosts, engine: Path, record: Record) -> None:
    """The cable's set rate is what was measured. Over the whole trial noise can only take from it,
    beyond what the limiter itself lets through at once; so one good run is enough."""
    errors: list[float] = []
    for attempt in range(ATTEMPTS):
        if record.status == "finished":
            check_total(record)
            errors.append(saturated_pps(record) / CABLE_PPS - 1)
            if abs(errors[-1]) < 0.02:
                return
        if attempt + 1 < ATTEMPTS:
            with hosts.favoured():
                args = trial_args(
                    packet_size=SIZE, rate=OFFERED_PPS, burst=4, duration="3s", interval="0.1s"
                )
                (record,) = measured(hosts, engine, *args)[1]
    seen = ", ".join(f"{error:+.1%}" for error in errors)
    if record.verdict is not None and "disturbed" in record.verdict.marks:
        pytest.skip(f"every run was disturbed by other work on this machine: {seen} of the limit")
    pytest.fail(f"the cable carries {CABLE_PPS:.0f}/s, measured {seen} off")


def check_total(record: Record) -> None:
    """In all, no more arrived than the cable carries in that time, and lets through at once. (Of a
    part of it that is not so: a receiver without a core fetches later what came before.)"""
    (receiver,) = (one for one in record.engines if one.role == "receiver")
    first, last = receiver.intervals[0], receiver.intervals[-1]
    listened_s = (last.t_ns - first.t_ns + first.duration_ns) / 1e9
    arrived = receiver.result["totals"]["rx_frames"]
    assert arrived <= CABLE_PPS * listened_s * 1.02 + AT_ONCE, "more than the cable carries"


def check_limited(record: Record) -> None:
    """What the record says of the cable, of both switches and of the clocks."""
    far, loads, found = record.far_host, record.throughput, record.reconciliation
    assert far is not None and loads is not None and found is not None
    assert record.topology == [
        "[netns: sender 0] --veth--> [linux-bridge, learning] --cable--> [linux-bridge, learning] "
        "--veth--> [other host, netns: receiver 0]"
    ]
    lost = loads.pairs[0].lost_frames or 0
    assert abs(found.cable_lost - lost) <= 50, "but for what still waited in the cable at the end"
    assert found.unexplained_ratio < 0.01, found.findings
    if lost > 200:  # a sender that gets no core offers too little
        assert record.limit is not None and record.limit.factor == "link", record.limit
    assert record.switch_details["far:connect_mode"] == record.switch_details["connect_mode"]
    for clock in (far.clock_before, far.clock_after):
        assert clock is not None
        assert abs(clock.ahead_ns - AHEAD_S * 10**9) <= clock.uncertainty_ns, "the set difference"
        assert clock.uncertainty_ns < 10**9
    sender, receiver = record.engines
    spans = [(one.intervals[0].t_ns, one.intervals[-1].t_ns) for one in (sender, receiver)]
    assert spans[0][0] < spans[1][1] and spans[1][0] < spans[0][1], "times of one clock"


@pytest.mark.slow
def test_an_account_with_capabilities_needs_no_root(hosts: TwoHosts, engine: Path) -> None:
    """All that runs on the other host is an ordinary account's, with four capabilities."""
    python = hosts.folder / "python3"
    shutil.copy(os.path.realpath("/usr/bin/python3"), python)
    hosts.folder.chmod(0o755)
    hosts.right.add_account("bench")
    sh("rm", "-rf", "/run/switchmark", inside=hosts.right.pid)  # (root's, of the tests before)
    testbed = hosts.folder / "account.yaml"
    testbed.write_text(
        hosts.testbed.read_text().replace("user: root", f"user: bench, python: {python}")
    )
    args = [*trial_args(duration="2s"), "--testbed", str(testbed)]
    code, _, said = measured(hosts, engine, *args)
    assert code == 3 and "cannot make network namespaces" in said
    sh("rmdir", "/tmp/switchmark-12345", inside=hosts.right.pid)  # the state folder of an account
    sh("setcap", capabilities.SETCAP, str(python))
    code, (record,), said = measured(hosts, engine, *args)
    assert code == 0 and record.status == "finished", (said, record.message)
    assert record.throughput is not None and record.throughput.pairs[0].lost_frames == 0
    assert hosts.remains() == []
