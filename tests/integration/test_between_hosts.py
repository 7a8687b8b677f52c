"""Trials between two hosts: the cable's set rate and delay are measured, different clocks do no
harm, and every switch that can run there carries frames."""

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

SIZE = 1500  # with the FCS, which the kernel's limiter does not count
CABLE_PPS = CABLE_MBIT * 1e6 / 8 / (SIZE - 4)
OFFERED_PPS = 4000
AT_ONCE = 80  # frames in the limiter's bucket and its queue
SETTLED_NS = 20_000_000  # the limiter's first burst has passed
LEAST_NS = 500_000_000
ONE_WAY_NS = 20_000_000
LATE_ANSWERS = 20  # answers of 0.1 s, if the server had no core at the end

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
    for host in (hosts.left, hosts.right):  # the lent devices are back, and up
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
    """The cable delays frames on the way there only, so that half a round trip or a wrong clock
    could not pass for the delay. A frame is never early, so the bounds hold on any machine; a busy
    one makes the interval wider."""
    campaign = hosts.folder / "one-way.yaml"
    campaign.write_text(ONE_WAY)
    story: list[str] = []
    with hosts.delayed(ONE_WAY_NS / 1e9):
        for _ in range(ATTEMPTS):
            with hosts.favoured():
                _, (record,), stderr = measured(hosts, engine, "run", str(campaign))
            if record.status == "failed":  # an application had no core for seconds
                story.append(record.message or stderr)
                continue
            one_way, round_trip = record.one_way, record.latency
            assert one_way is not None and round_trip is not None and one_way.kind == "one_way"
            assert one_way.count >= round_trip.count > 0
            unsure = one_way.clock_uncertainty_ns
            assert unsure is not None
            # The true value is at least the set delay and at most the round trip.
            assert one_way.min_ns + unsure >= ONE_WAY_NS
            assert one_way.min_ns - unsure <= round_trip.min_ns
            story.append(f"the clocks' offset is unsure by {unsure:.0f} ns")
            if unsure < ONE_WAY_NS / 4:
                break
        else:
            pytest.skip(f"this machine is too busy: {'; '.join(story)}")
    assert record.verdict is not None and "clocks-uncertain" not in record.verdict.marks
    assert record.far_host is not None and record.far_host.cpu is not None
    assert record.far_host.cpu.applications_cores_used > 0 and record.far_host.cpu.frames


@pytest.mark.slow
def test_probes_both_ways_show_delay_of_one_way_only(hosts: TwoHosts, engine: Path) -> None:
    """Each end times its peer's probes by its own clock, hours apart."""
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
    """Return the forwarded load while the sender kept its rate.

    On a busy machine the sender gets no core for up to a second. Its own samples show when; they
    have been converted to the clock of the receiver."""
    assert record.throughput is not None, record.message
    sender, receiver = record.engines
    full: list[tuple[int, int]] = []  # spans in which the sender kept its rate
    for interval in sender.intervals:
        if interval.counters["tx_offered"] * 1e9 < 0.9 * OFFERED_PPS * max(1, interval.duration_ns):
            continue
        begin = interval.t_ns - interval.duration_ns
        joined = bool(full) and begin - full[-1][1] < 1_000_000
        full[-1:] = (
            [(full[-1][0], interval.t_ns)] if joined else [*full[-1:], (begin, interval.t_ns)]
        )
    saturated = [
        interval
        for interval in receiver.intervals
        if any(
            b + SETTLED_NS <= interval.t_ns - interval.duration_ns and interval.t_ns <= e
            for b, e in full
        )
    ]
    lasted_ns = sum(interval.duration_ns for interval in saturated)
    if lasted_ns < LEAST_NS:  # no core for most of the time
        return record.throughput.forwarded_pps
    return sum(interval.counters["rx_frames"] for interval in saturated) * 1e9 / lasted_ns


def check_rate(hosts: TwoHosts, engine: Path, record: Record) -> None:
    """The measured rate is the set rate of the cable. Except for the first burst of the limiter,
    noise only lowers the rate of the whole trial, so that one good run is enough."""
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
    deviations = ", ".join(f"{error:+.1%}" for error in errors)
    if record.verdict is not None and "disturbed" in record.verdict.marks:
        pytest.skip(
            f"every run was disturbed by other work on this machine: {deviations} of the limit"
        )
    pytest.fail(f"the cable carries {CABLE_PPS:.0f}/s, measured {deviations} off")


def check_total(record: Record) -> None:
    """No more arrived in the whole trial than the cable carries. In a part of it more may arrive,
    if a receiver without a core fetches frames later."""
    (receiver,) = (one for one in record.engines if one.role == "receiver")
    first, last = receiver.intervals[0], receiver.intervals[-1]
    listened_s = (last.t_ns - first.t_ns + first.duration_ns) / 1e9
    arrived = receiver.result["totals"]["rx_frames"]
    assert arrived <= CABLE_PPS * listened_s * 1.02 + AT_ONCE, "more than the cable carries"


def check_limited(record: Record) -> None:
    """The record contains the losses of the cable, the switches and the clocks."""
    far, loads, found = record.far_host, record.throughput, record.reconciliation
    assert far is not None and loads is not None and found is not None
    assert record.topology == [
        "[netns: sender 0] --veth--> [linux-bridge, learning] --cable--> [linux-bridge, learning] "
        "--veth--> [other host, netns: receiver 0]"
    ]
    lost = loads.pairs[0].lost_frames or 0
    assert abs(found.cable_lost - lost) <= 50, "except for frames still in the cable at the end"
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
def test_account_with_capabilities_needs_no_root(hosts: TwoHosts, engine: Path) -> None:
    """An ordinary account with four capabilities runs everything on the other host."""
    python = hosts.folder / "python3"
    shutil.copy(os.path.realpath("/usr/bin/python3"), python)
    hosts.folder.chmod(0o755)
    hosts.right.add_account("bench")
    sh(
        "rm", "-rf", "/run/switchmark", inside=hosts.right.pid
    )  # root's state folder of earlier tests
    testbed = hosts.folder / "account.yaml"
    testbed.write_text(
        hosts.testbed.read_text().replace("user: root", f"user: bench, python: {python}")
    )
    args = [*trial_args(duration="2s"), "--testbed", str(testbed)]
    code, _, stderr = measured(hosts, engine, *args)
    assert code == 3 and "cannot make network namespaces" in stderr
    sh("rm", "-r", "/tmp/switchmark-12345", inside=hosts.right.pid)  # the account's state folder
    needed = ",".join(f"cap_{name}" for name in capabilities.NEEDED)
    sh("setcap", f"{needed}+ep", str(python))
    code, (record,), stderr = measured(hosts, engine, *args)
    assert code == 0 and record.status == "finished", (stderr, record.message)
    assert record.throughput is not None and record.throughput.pairs[0].lost_frames == 0
    assert hosts.remains() == []
