"""An ordinary user measures: the bench restarts itself in namespaces, and only results remain,
however it ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.switch.registry import SWITCHES as KNOWN
from tests.integration.machine import needs_root, remains
from tests.integration.ordinary_user import (
    ROOT,
    SWITCHES,
    OrdinaryUser,
    first_and_bench_of,
    ordinary_user,
    wait_until,
)

pytestmark = pytest.mark.integration
SHORT = ("environment=netns", "duration=0.3s", "rate=5k", "repetitions=1", "idle=sleep")
LONG = ("environment=netns", "duration=60s", "rate=1k", "repetitions=1", "idle=sleep")


ENDS_S, DIES_S = 300.0, 60.0  # only a hanging process takes so long


def settings(*words: str) -> list[str]:
    return [part for word in words for part in ("--set", word)]


def trial(*words: str, switch: str = "linux-bridge") -> list[str]:
    return ["trial", switch, "--no-baseline", "--quiet", *settings(*words)]


@pytest.fixture
def user() -> Iterator[OrdinaryUser]:
    with ordinary_user() as account:
        yield account


def test_each_switch_carries_frames(user: OrdinaryUser) -> None:
    here = [name for name in SWITCHES if KNOWN[name]().availability().available]
    if not here:
        pytest.skip("no switch is installed")
    campaign = user.home / "all.yaml"
    names = ", ".join(here)
    campaign.write_text(f"name: all\nswitch: [{names}]\nmixed_connect_modes: true\n")
    done = user.run("run", str(campaign), "--no-baseline", "--quiet", *settings(*SHORT))
    records = [json.loads(path.read_text()) for path in user.results.glob("*/trials/*.json")]
    assert done.returncode == 0, done.stderr
    assert sorted(record["trial"]["switch"] for record in records) == sorted(here)
    for record in records:
        assert record["status"] == "finished", record
        assert record["throughput"]["forwarded_pps"] > 0, record
    owner = user.home.stat()
    for path in user.results.rglob("*"):
        assert (path.stat().st_uid, path.stat().st_gid) == (owner.st_uid, owner.st_gid), path


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (trial(switch="no-such-switch"), 2),
        ([*trial(), "--store", "postgresql://host/x"], 2),
        (["doctor", "--watch", "0"], 0),
    ],
)
def test_exit_codes_are_those_of_the_command(
    user: OrdinaryUser, args: list[str], code: int
) -> None:
    done = user.run(*args)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not list(user.home.iterdir())


REFUSED = """
name: refused
switch: xdp-redirect
environment: [netns, lxc]
io: af-xdp
tuning: papers
"""
REASONS = (
    "switch xdp-redirect cannot run here: {who} cannot load BPF programs",
    "io af-xdp cannot run here: {who} cannot open AF_XDP sockets",
    "environment lxc cannot run here: {who} cannot make control groups",
    "tuning papers cannot be set here: {who} cannot write kernel settings",
)


def check_refused(done: subprocess.CompletedProcess[str], who: str, remedy: str) -> None:
    assert done.returncode == 3, done.stderr
    for reason in REASONS:
        line = next((x for x in done.stderr.splitlines() if reason.format(who=who) in x), "")
        assert line.endswith(remedy), done.stderr


def test_switch_that_needs_root_is_refused_by_name(user: OrdinaryUser) -> None:
    campaign = user.home / "refused.yaml"
    campaign.write_text(REFUSED)
    done = user.run("run", str(campaign))
    check_refused(done, "an ordinary user", "sudo switchmark ...")


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("certify",), "certify: an ordinary user cannot load BPF programs"),
        (("otg", "--port", "lo"), "--port lo: an ordinary user cannot open packet sockets"),
        (("otg", "--port", "lo=af_xdp"), "--port lo: an ordinary user cannot open AF_XDP sockets"),
    ],
)
def test_command_that_needs_root_is_refused_in_one_line(
    user: OrdinaryUser, args: tuple[str, ...], reason: str
) -> None:
    done = user.run(*args)
    assert (done.returncode, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert reason in line and line.endswith("sudo switchmark ...")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGABRT, -6)]
)
def test_signals_reach_the_bench_and_nothing_remains(
    user: OrdinaryUser, number: signal.Signals, code: int
) -> None:
    with user.started(*trial(*LONG), stderr=subprocess.PIPE) as job:
        wait_until(lambda: engines(user), "two engines")
        os.kill(job.pid, number)
        assert job.wait(ENDS_S) == code, job.stderr and job.stderr.read()
    wait_until(lambda: not user.processes(), f"no process remains: {user.processes()}", DIES_S)


def test_the_terminal_interrupts_the_bench_once(user: OrdinaryUser) -> None:
    """Ctrl-C reaches all processes of the terminal's group, but must reach the bench only once."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(user.home)
        command = user.command(*trial(*LONG))
        os.execvpe(command[0], command, user.environment())
    try:
        wait_until(lambda: engines(user), "two engines")
        os.write(terminal, b"\x03")
        output = b""
        try:
            while part := os.read(terminal, 4096):
                output += part
        except OSError:  # the terminal's other end is closed
            pass
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130, output
    assert output.count(b"interrupted") == 1, output
    assert not user.processes()


def test_the_terminal_stops_the_bench_and_continues_it(user: OrdinaryUser) -> None:
    with user.started(*trial(*LONG)) as job:
        wait_until(lambda: engines(user), "two engines")
        _, bench = first_and_bench_of(job.pid) or (0, 0)
        os.killpg(job.pid, signal.SIGTSTP)
        wait_until(lambda: state_of(job.pid) == state_of(bench) == "T", "both stop")
        os.killpg(job.pid, signal.SIGCONT)
        wait_until(lambda: "T" not in (state_of(job.pid), state_of(bench)), "both go on")
        os.kill(job.pid, signal.SIGINT)
        assert job.wait(ENDS_S) == 130
    assert not user.processes()


@pytest.mark.parametrize("moment", ["started", "engines"])
@pytest.mark.parametrize("victim", ["supervisor", "first", "bench"])
def test_killed_bench_leaves_nothing(user: OrdinaryUser, victim: str, moment: str) -> None:
    """The fault matrix compares the whole host."""
    session = ""
    with user.started(*trial(*LONG)) as job:
        wait_until(lambda: first_and_bench_of(job.pid), "the bench has started")
        first, bench = first_and_bench_of(job.pid) or (0, 0)
        if moment == "engines":
            wait_until(lambda: engines(user), "two engines")
            state = Path(f"/proc/{first}/root/run/switchmark")
            session = next(path.stem for path in state.glob("*.ledger"))
        pids = {"supervisor": job.pid, "first": first, "bench": bench}
        os.kill(pids[victim], signal.SIGKILL)
        assert job.wait(ENDS_S) == -signal.SIGKILL
    wait_until(lambda: not user.processes(), "no process remains", DIES_S)
    assert not session or remains(Path("/run/switchmark"), session) == []
    assert [path.name for path in user.home.iterdir()] in ([], ["results"])


def test_named_folders_in_tmp_are_the_real_folders(user: OrdinaryUser) -> None:
    work = user.home / "work"  # below /var/tmp, which is hidden
    done = user.run(*trial(*SHORT), "--results", str(work / "deep"))
    assert done.returncode == 0, done.stderr
    assert list(work.glob("deep/*/trials/*.json"))


@needs_root
def test_root_can_use_private_namespaces(tmp_path: Path) -> None:
    root = OrdinaryUser(tmp_path, ())
    done = root.run(*trial(*SHORT), "--private")
    assert done.returncode == 0, done.stderr
    (record,) = root.results.glob("*/trials/*.json")
    assert json.loads(record.read_text())["granted"]["place"] == "private"
    (tmp_path / "refused.yaml").write_text(REFUSED)
    done = root.run("run", "refused.yaml", "--private")
    check_refused(done, "a bench in its own namespaces", "leave out --private")


@needs_root
def test_private_namespaces_start_with_mounts_below_sys() -> None:
    """Most machines have debugfs or tracefs there."""
    program = (
        "from switchmark.host.private.start import Reason, start_again\n"
        "start_again([], Reason.CHOICE)\n"
        "print('started')\n"
    )
    mount = 'mount -t tmpfs none /sys/kernel/debug && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount, "sh", sys.executable, "-c", program],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "started\n", done.stderr


@needs_root
def test_root_cannot_change_the_machine_from_private_namespaces(tmp_path: Path) -> None:
    """Root's files could be written if they were not read-only."""
    program = (
        "from switchmark.host.private.start import Reason, start_again\n"
        "start_again(['/tmp/x'], Reason.CHOICE)\n"
        "import os\n"
        "paths = ['/proc/sys/vm/nr_hugepages', '/proc/sys/kernel/numa_balancing',\n"
        "         '/sys/kernel/mm/transparent_hugepage/enabled',\n"
        "         '/proc/irq/default_smp_affinity']\n"
        "print([path for path in paths if os.access(path, os.W_OK)])\n"
        "print([one for one in os.walk('/sys/fs/cgroup') if os.access(one[0], os.W_OK)])\n"
        "print(os.access('/proc/sys/net/ipv6/conf/lo/disable_ipv6', os.W_OK))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.stdout.split("\n")[:3] == ["[]", "[]", "True"], done.stdout + done.stderr


def engines(user: OrdinaryUser) -> bool:
    """Return True if both engines of a trial run."""
    programs = [Path(words[0]).name for words in user.processes().values()]
    return programs.count("switchmark-traffic") > 1


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
