"""Trials between two hosts that end too early or cannot begin: the message names the remedy, and
nothing remains on either host."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.integration.hosts_bench import begin_traffic, fail_without_agent, measured, trial_args
from tests.integration.two_hosts import TwoHosts, missing, run, sh
from tests.places import needs_namespaces

pytestmark = [
    pytest.mark.alone,
    pytest.mark.integration,
    needs_namespaces,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]


REACH = """
import sys
from pathlib import Path
from switchmark.errors import SwitchmarkError
from switchmark.experiment.steps import check_available, plan_steps
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
def test_unusable_host_is_refused_with_a_remedy(hosts: TwoHosts) -> None:
    good = hosts.testbed.read_text()
    cases = [
        ("", "", r"reached"),
        ("known_hosts: known_hosts", "known_hosts: key.pub", r"3 .*ssh-keyscan -p 22 192\.0\.2\.2"),
        ("key: key", "key: left_host_key", r"3 .*root cannot log in with key .*authorized_keys"),
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
        ("left: cable0", "left: nowhere", r"3 .*case6\.yaml: cables: interface nowhere: is not"),
        (
            "left: cable0",
            'left: "ffff:ff:1f.7"',
            r"2 .*case7\.yaml: cables: ffff:ff:1f\.7: linux-bridge takes interfaces of the kernel",
        ),
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


def test_lost_connection_fails_trial_and_leaves_nothing(hosts: TwoHosts, engine: Path) -> None:
    bench = begin_traffic(hosts, engine)
    for pid in hosts.right.sshd_sessions():
        os.kill(pid, 9)
    code, out, err = run(bench)
    (record,) = json.loads(out)
    assert code == 1 and record["status"] == "failed", err
    assert record["message"].startswith("host right (192.0.2.2): connection lost: "), record
    assert hosts.remains() == []


@pytest.mark.slow
def test_interface_of_killed_bench_is_usable_by_the_next(hosts: TwoHosts, engine: Path) -> None:
    """The interface stays in the killed bench's namespace until cleanup."""
    bench = begin_traffic(hosts, engine)
    bench.kill()
    bench.communicate()
    results = ["--results", str(hosts.folder / "results")]
    args = [*trial_args(duration="1s"), "--no-baseline", "--quiet", "--json", *results]
    code, out, err = run(hosts.bench(*args, engine=engine))
    assert code == 0, err
    assert json.loads(out)[0]["status"] == "finished"
    assert hosts.remains() == []


def test_killed_bench_leaves_nothing_on_other_host(hosts: TwoHosts, engine: Path) -> None:
    bench = begin_traffic(hosts, engine)
    bench.kill()
    bench.communicate()
    cleaned = run(hosts.bench("clean", engine=engine))
    assert cleaned[0] == 0, cleaned
    assert hosts.remains() == []
    for host in (hosts.left, hosts.right):
        sh("ip", "link", "show", "cable0", inside=host.pid)


@pytest.mark.slow
def test_cut_control_path_ends_both_sides(hosts: TwoHosts, engine: Path) -> None:
    """No side closes the connection: each side detects the timeout by itself."""
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
def test_leftovers_of_killed_agent_are_removed_by_the_next(hosts: TwoHosts, engine: Path) -> None:
    fail_without_agent(hosts, begin_traffic(hosts, engine))
    code, (record,), stderr = measured(hosts, engine, *trial_args(duration="2s"))
    assert code == 0 and record.status == "finished", (stderr, record.message)
    assert hosts.remains() == []
