"""Trials between two hosts: the cable's set rate is measured, clocks that differ do no harm, and
whatever ends too early leaves nothing behind on either side."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from switchmark.environment.engine_binary import find_engine
from switchmark.errors import UnavailableError
from switchmark.results.record import Record
from switchmark.switch.registry import make_switch
from switchmark.testbed import capabilities
from tests.integration.two_hosts import TwoHosts, missing, run, sh

AHEAD_S = 5000  # the right host's clock
CABLE_MBIT = 20
SIZE = 1500  # with the FCS, which the kernel's limit does not count
CABLE_PPS = CABLE_MBIT * 1e6 / 8 / (SIZE - 4)
OFFERED_PPS = 4000
SETTLED_NS = 20_000_000  # after which the limiter has let through what it lets through at once
LEAST_NS = 500_000_000
ONE_WAY_NS = 20_000_000
ATTEMPTS = 4  # on a machine that others use, a paced frame may come late

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

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="hosts of namespaces need root"),
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]


@pytest.fixture(scope="module")
def engine() -> Path:
    try:
        return find_engine()
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    made = TwoHosts.make(Path(f"/var/tmp/smhosts{os.getpid()}"), ahead_s=AHEAD_S)
    try:
        made.limit(CABLE_MBIT)
        yield made
    finally:
        made.end()


def measured(hosts: TwoHosts, engine: Path, *args: str) -> tuple[int, list[Record], str]:
    """A bench on the left host to its end: exit code, records, what it said."""
    command = [*args, "--no-baseline", "--quiet", "--json"]
    results = ["--results", str(hosts.folder / "results")]
    code, out, err = run(hosts.bench(*command, *results, engine=engine))
    documents = json.loads(out) if out.strip() else []
    return code, [Record.model_validate(one) for one in documents], err


def trial_args(**more: Any) -> list[str]:
    keys = {"location": "remote", "duration": "60s", "rate": "1000", "packet_size": "64"} | more
    return ["trial", "linux-bridge", *(w for k, v in keys.items() for w in ("--set", f"{k}={v}"))]


def begin_traffic(hosts: TwoHosts, engine: Path) -> subprocess.Popen[str]:
    """A bench in the middle of a trial: more frames have come over the cable than are sent to
    teach and to verify."""
    before = hosts.cable_frames()
    results = ["--results", str(hosts.folder / "results")]
    args = [*trial_args(), "--no-baseline", "--quiet", "--json", *results]
    bench = hosts.bench(*args, engine=engine)
    deadline = time.monotonic() + 60
    while hosts.cable_frames() < before + 300:
        assert bench.poll() is None and time.monotonic() < deadline, "no traffic"
        time.sleep(0.05)
    assert any("receiver" in one for one in hosts.right.processes())
    return bench


REACH = """
import sys
from pathlib import Path
from switchmark.errors import SwitchmarkError
from switchmark.method.plan import check_available, plan_steps
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_settings
from switchmark.remote.site import Site
from switchmark.testbed.testbed_file import read_testbed
there = installed()
given = {"switch": "linux-bridge", "location": "remote"}
campaign = load_settings(given, there.known, name="reach")
for name in sys.argv[1:]:
    site = Site(read_testbed(Path(name)))
    try:
        check_available(plan_steps(campaign, there, baselines=False, site=site))
        print("reached")
    except SwitchmarkError as error:
        print(error.exit_code, " ".join(str(error).split()))
    finally:
        site.close()
"""


@pytest.mark.slow
def test_hosts_that_cannot_be_used_are_refused_with_a_remedy(hosts: TwoHosts) -> None:
    good = hosts.testbed.read_text()
    cases = [
        ("", "", r"reached"),
        ("known_hosts: known_hosts", "known_hosts: key.pub", r"3 .*ssh-keyscan -p 22 192\.0\.2\.2"),
        ("key: key", "key: left_host_key", r"3 .*root is not let in with key .*authorized_keys"),
        (
            "192.0.2.2",
            "192.0.2.2, port: 23",
            r"3 .*cannot be reached on port 23: .*is sshd running",
        ),
        ("user: root", "python: /bin/nothing", r"3 .*ended with code 127: .*/bin/nothing"),
        (
            "right: cable0",
            "right: ctl0",
            r"3 .*ctl0: has the address 192\.0\.2\.2/24, and the host",
        ),
        ("left: cable0", "left: nowhere", r"3 interface nowhere: is not there"),
    ]
    files = []
    for number, (before, after, _) in enumerate(cases):
        assert before in good
        files.append(hosts.folder / f"case{number}.yaml")
        files[-1].write_text(good.replace(before, after))
    done = run(hosts.start([sys.executable, "-c", REACH, *map(str, files)]))
    answers = done[1].splitlines()
    assert len(answers) == len(cases), done
    for answer, (_, _, expected) in zip(answers, cases, strict=True):
        assert re.match(expected, answer), (answer, expected)
    named = hosts.bench("list", "hosts", "--json", "--testbed", str(files[4]), engine=Path("none"))
    left, right = json.loads(run(named)[1])["hosts"]
    assert left["seen"] == "this machine" and right["seen"].startswith("no: "), right
    assert hosts.remains() == []


def test_trials_between_hosts(hosts: TwoHosts, engine: Path) -> None:
    campaign = hosts.folder / "campaign.yaml"
    campaign.write_text(CAMPAIGN)
    for _ in range(2):  # applications that get no core may miss a deadline
        with hosts.favoured():
            code, records, said = measured(hosts, engine, "run", str(campaign))
        if all(one.verification and one.verification.passed for one in records):
            break
    assert code == 0 and len(records) == 4, [said, *(one.message for one in records)]
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
    assert round_trip.latency.kind == "rtt" and round_trip.latency.lost == 0
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
    args = trial_args(dimension="latency", rate=300, duration="0.5s")
    uncertainties = []
    with hosts.delayed(ONE_WAY_NS / 1e9):
        for _ in range(ATTEMPTS):
            with hosts.favoured():
                code, (record,), said = measured(hosts, engine, *args)
            assert code == 0 and record.status == "finished", (said, record.message)
            there, round_trip = record.one_way, record.latency
            assert there is not None and round_trip is not None and there.kind == "one_way"
            assert there.count >= round_trip.count > 0
            unsure = there.clock_uncertainty_ns
            assert unsure is not None
            # What the truth is: at least the set time, at most the round trip.
            assert there.min_ns + unsure >= ONE_WAY_NS
            assert there.min_ns - unsure <= round_trip.min_ns
            uncertainties.append(unsure)
            if unsure < ONE_WAY_NS / 4:
                break
        else:
            pytest.skip(f"machine too busy: the clocks' offset is unsure by {uncertainties} ns")
    assert record.verdict is not None and "clocks-uncertain" not in record.verdict.marks
    assert record.far_host is not None and record.far_host.cpu is not None
    assert record.far_host.cpu.applications_cores_used > 0 and record.far_host.cpu.frames


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
    """The cable's set rate is what was measured. Noise can only take from it, beyond what the
    limiter itself lets through at once; so one good run is enough."""
    errors = []
    for attempt in range(ATTEMPTS):
        errors.append(saturated_pps(record) / CABLE_PPS - 1)
        assert errors[-1] < 0.05, "more than the cable carries"
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
        assert record.limit is not None and record.limit.what == "link", record.limit
    assert record.switch_details["far:connect_mode"] == record.switch_details["connect_mode"]
    for clock in (far.clock_before, far.clock_after):
        assert clock is not None
        assert abs(clock.ahead_ns - AHEAD_S * 10**9) <= clock.uncertainty_ns, "the set difference"
        assert clock.uncertainty_ns < 10**9
    sender, receiver = record.engines
    spans = [(one.intervals[0].t_ns, one.intervals[-1].t_ns) for one in (sender, receiver)]
    assert spans[0][0] < spans[1][1] and spans[1][0] < spans[0][1], "times of one clock"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("switch", "more"), [("ovs-dpdk", {"switch_options": "pmd_maxsleep_us:500"}), ("basicfwd", {})]
)
def test_vhost_user_switches_reach_the_cable(
    hosts: TwoHosts, engine: Path, switch: str, more: dict[str, str]
) -> None:
    """Their nodes have sockets, and DPDK's AF_PACKET driver the interface."""
    if not make_switch(switch).probe().available:
        pytest.skip(f"{switch} does not run here")
    args = trial_args(rate=200, burst=1, duration="2s", **more)
    args[1] = switch
    with hosts.favoured():
        code, (record,), said = measured(hosts, engine, *args)
    assert code == 0 and record.status == "finished", (said, record.message)
    assert record.port_kind == "vhost-user" and record.throughput is not None
    assert record.throughput.pairs[0].lost_frames == 0
    assert record.reconciliation is not None and record.reconciliation.cable_lost == 0
    assert record.far_host is not None and record.far_host.cpu is not None
    assert (record.far_host.cpu.switch_cores_used or 0) > 0, "of the switch over there"
    assert hosts.remains() == []
    for host in (hosts.left, hosts.right):
        assert "UP" in sh("ip", "-br", "link", "show", "cable0", inside=host.pid)


@pytest.mark.slow
def test_an_account_with_capabilities_needs_no_root(hosts: TwoHosts, engine: Path) -> None:
    """All that runs on the other host is an ordinary account's, with four capabilities."""
    python = hosts.folder / "python3"
    shutil.copy(os.path.realpath("/usr/bin/python3"), python)
    hosts.folder.chmod(0o755)
    hosts.right.add_account("bench")
    testbed = hosts.folder / "account.yaml"
    testbed.write_text(
        hosts.testbed.read_text().replace("user: root", f"user: bench, python: {python}")
    )
    args = [*trial_args(duration="2s"), "--testbed", str(testbed)]
    code, _, said = measured(hosts, engine, *args)
    assert code == 3 and "/run/switchmark: cannot be written; run as root" in said
    sh("setcap", capabilities.SETCAP, str(python))
    code, (record,), said = measured(hosts, engine, *args)
    assert code == 0 and record.status == "finished", (said, record.message)
    assert record.throughput is not None and record.throughput.pairs[0].lost_frames == 0
    assert hosts.remains() == []


def test_a_lost_connection_fails_the_trial_and_leaves_nothing(
    hosts: TwoHosts, engine: Path
) -> None:
    bench = begin_traffic(hosts, engine)
    for pid in hosts.right.sshd_sessions():
        os.kill(pid, 9)
    code, out, err = run(bench)
    (record,) = json.loads(out)
    assert code == 1 and record["status"] == "failed", err
    assert record["message"].startswith("host right (192.0.2.2): connection lost: "), record
    assert hosts.remains() == []


def test_a_killed_bench_leaves_nothing_on_the_other_host(hosts: TwoHosts, engine: Path) -> None:
    bench = begin_traffic(hosts, engine)
    bench.kill()
    bench.communicate()
    cleaned = run(hosts.bench("clean", engine=engine))
    assert cleaned[0] == 0, cleaned
    assert hosts.remains() == []
    for host in (hosts.left, hosts.right):
        sh("ip", "link", "show", "cable0", inside=host.pid)


@pytest.mark.slow
def test_a_cut_control_path_ends_both_sides(hosts: TwoHosts, engine: Path) -> None:
    """Nobody says goodbye: each side notices by itself that it no longer hears the other."""
    bench = begin_traffic(hosts, engine)
    sh("ip", "link", "set", "ctl0", "down", inside=hosts.left.pid)
    try:
        code, out, err = run(bench)
        (record,) = json.loads(out)
        assert code == 1 and record["status"] == "failed", err
        assert record["message"].startswith("host right (192.0.2.2): connection lost: "), record
        assert hosts.remains(patience_s=90.0) == []
    finally:
        sh("ip", "link", "set", "ctl0", "up", inside=hosts.left.pid)


@pytest.mark.slow
def test_what_a_killed_agent_left_the_next_one_removes(hosts: TwoHosts, engine: Path) -> None:
    bench = begin_traffic(hosts, engine)
    (agent,) = (pid for pid in hosts.right.pids() if "memfd_create" in words_of(pid))
    os.kill(agent, 9)
    code, out, err = run(bench)
    (record,) = json.loads(out)
    assert code == 1 and "connection lost" in record["message"], (record["message"], err)
    assert hosts.right.remains(), "it was in the middle of a trial"
    code, (record,), said = measured(hosts, engine, *trial_args(duration="2s"))
    assert code == 0 and record.status == "finished", (said, record.message)
    assert hosts.remains() == []


def words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""
