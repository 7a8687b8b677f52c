"""The fault matrix itself: a seed is a case, and added or removed objects are detected."""

from __future__ import annotations

import random
import signal
import subprocess
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from switchmark.environment.vm import accelerator, packages
from switchmark.environment.vm.accelerator import Accelerator
from switchmark.environment.vm.command import EMULATED, KVM
from tests.faults import judge, machines, network, shortages, snapshot, storage, undo
from tests.faults.bench import Job
from tests.faults.case import BETWEEN, ROOT, USER, Scope, draw
from tests.faults.inflict import FAULTS
from tests.faults.judge import Verdict
from tests.faults.phases import PHASES
from tests.faults.row import Row, rows_in
from tests.faults.table import tell, tell_all

PAIRS = [(s, e) for s in ("linux-bridge", "ovs-dpdk") for e in ("netns", "lxc")]
PLACES = {"linux-bridge": ["host", "netns"], "ovs-dpdk": ["host", "lxc"]}
THERE = Scope(PAIRS, places=PLACES, users=(ROOT, USER))


def test_seed_is_a_case_and_all_faults_and_phases_are_drawn() -> None:
    cases = [draw(seed, THERE) for seed in range(2000)]
    assert cases == [draw(seed, THERE) for seed in range(2000)]
    assert {case.fault.name for case in cases} == {fault.name for fault in FAULTS}
    assert {case.phase for case in cases} == set(PHASES)
    assert {(case.switch, case.environment) for case in cases} == set(PAIRS)
    assert all(case.phase in (case.fault.phases or PHASES) for case in cases)
    assert {(case.switch, case.place) for case in cases} == {
        (switch, place) for switch, places in PLACES.items() for place in places
    }
    far = [case for case in cases if case.location == "remote"]
    assert len({case.fault.name for case in far}) > 20
    assert all(
        (case.switch, case.environment, case.place) == ("linux-bridge", "netns", "host")
        for case in far
    )


def test_printed_options_give_the_same_case_elsewhere() -> None:
    for seed in range(200):
        case = draw(seed, THERE)
        elsewhere = Scope(
            [(case.switch, case.environment)], [case.fault], [case.phase], [case.location],
            {case.switch: [case.place]}, [case.user],
        )  # fmt: skip
        assert draw(seed, elsewhere) == case


def test_bench_of_an_ordinary_user_is_drawn_if_possible() -> None:
    cases = [draw(seed, THERE) for seed in range(2000)]
    user_cases = [case for case in cases if case.user == USER]
    assert {(case.environment, case.location, case.place) for case in user_cases} == {
        ("netns", "local", "host")
    }
    assert all(case.fault.user for case in user_cases)
    assert {fault.name for fault in FAULTS if fault.only_user} < {
        case.fault.name for case in user_cases
    }
    assert all(case.user == USER for case in cases if case.fault.only_user)
    roots = [draw(seed, Scope(PAIRS, places=PLACES)) for seed in range(500)]
    assert not any(case.user == USER or case.fault.only_user for case in roots)


def test_switch_of_two_hosts_can_run_between_them() -> None:
    cases = [draw(seed, THERE) for seed in range(2000)]
    assert all(c.switch in BETWEEN for c in cases if c.fault.location == "remote")


def test_files_of_a_checkout_in_tmp_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """own-host.sh mounts the checkout into the host's /tmp; tests and Python write into it."""
    checkout = tmp_path / "check out"
    checkout.mkdir()
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"9 8 0:7 / {tmp_path}/check\\040out rw - ext4 /dev/sda rw\n")
    for name, value in (("_foreign", set()), ("_foreign_places", set()), ("MOUNTS", mounts)):
        monkeypatch.setattr(snapshot, name, value)
    monkeypatch.setattr(snapshot, "FOLDERS", (str(tmp_path),))
    snapshot.leave_out_mounts()
    before = {"files": snapshot._files([])}
    (checkout / ".hypothesis").mkdir()
    (checkout / "__pycache__").mkdir()
    (tmp_path / "left").touch()
    after = {"files": snapshot._files([])}
    assert snapshot.differences(before, after) == [f"files: left behind: {tmp_path}/left"]


def test_added_and_removed_objects_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "FOLDERS", (str(tmp_path),))
    (tmp_path / "a").write_text("x")
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "b").write_text("x")
    before = {"files": snapshot._files([tmp_path / "ours"])}
    (tmp_path / "a").unlink()
    (tmp_path / "c").mkdir()
    after = {"files": snapshot._files([tmp_path / "ours"])}
    assert snapshot.differences(before, after) == [
        f"files: left behind: {tmp_path}/c",
        f"files: taken away: {tmp_path}/a",
    ]
    assert snapshot.differences(before, before) == []


def test_rows_are_sent_unchanged_between_processes(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        Row.of(
            Verdict(
                draw(seed, THERE), met=True, inflicted=seed == 7, trials_kept=1,
                findings=["lost"] * (seed == 7),
            )
        )
        for seed in (7, 3)
    ]  # fmt: skip
    assert rows_in(row.line() for row in rows) == rows
    tell_all(rows)
    output = capsys.readouterr().out
    assert (
        "2 cases, seeds 3 to 7; 2 finished trials kept through faults; 1 cases with findings"
        in output
    )
    assert f"| {rows[0].fault} | 1 | 1 | 1 | 1 |" in output
    assert f"| {rows[1].fault} | 1 | 1 | 0 | 0 |" in output
    assert f"again: tools/faults --case 7 --faults '{rows[0].fault}' --phases" in output
    tell(rows[1])
    assert "no target for the fault" in capsys.readouterr().out


def test_remote_faults_do_nothing_without_sshd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "missing", lambda: "no sshd here")
    monkeypatch.setattr(judge, "_sh", lambda *_words: None)
    case = next(c for c in (draw(seed, THERE) for seed in count()) if c.fault.name == "SSH cut")
    with judge._Rig(tmp_path / "case", case) as rig:
        assert rig.hosts is None
        assert "location: local" in rig.places.campaign.read_text()
        job = cast(Job, SimpleNamespace(hosts=rig.hosts))
        assert case.fault.inflict(job, random.Random(1)) is None


def test_group_that_is_busy_at_first_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = tmp_path / "faults-1"
    group.mkdir()
    procs = group / "cgroup.procs"
    procs.write_text("")  # a folder with a file cannot be removed, like a busy group
    monkeypatch.setattr(judge.time, "sleep", lambda _s: procs.rename(tmp_path / "gone"))
    monkeypatch.setattr(Path, "read_text", lambda _path: "")
    judge._remove_group(group)
    assert not group.exists()


def ended_job(tmp_path: Path) -> Job:
    """Return a bench that has ended and left nothing."""
    process = SimpleNamespace(pid=2**22 + 1, poll=lambda: 0)
    places = SimpleNamespace(state=tmp_path, results=tmp_path, campaign=tmp_path / "faults.yaml")
    return cast(
        Job,
        SimpleNamespace(
            process=process, running=False, session="", places=places, groups=[], hosts=None,
            engines=lambda _role="": [], switches=lambda: [], monitors=lambda: [],
            processes=lambda: [], bench=process.pid, first=None,
        ),
    )  # fmt: skip


def test_fault_without_a_target_reports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a case in which nothing happened would count as survived."""
    monkeypatch.setattr(network, "run", lambda *_words: False)
    monkeypatch.setattr(shortages, "run", lambda *_words: False)
    monkeypatch.setattr(storage, "run", lambda *_words: False)
    monkeypatch.setattr(storage, "FILE_SYSTEMS", tmp_path / "ext4")  # no disk fails here
    always = ("none", "disk of results full", "disk of the state folder full")
    for fault in FAULTS:
        if fault.name not in always:
            assert fault.inflict(ended_job(tmp_path), random.Random(1)) is None, fault.name


@pytest.mark.parametrize("disk", ["none", "the machine's", "another's", "ours"])
def test_only_the_disk_of_the_case_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: str
) -> None:
    """The requested error is real, so it must never hit a disk with files of others."""
    results, systems = tmp_path / "results", tmp_path / "ext4"
    results.mkdir()
    devices = tmp_path / "block" / storage._device(results)
    trigger = systems / devices.name / "trigger_fs_error"
    devices.mkdir(parents=True)
    trigger.parent.mkdir(parents=True)
    trigger.write_text("0")
    (tmp_path / "results.disk").write_text("")
    (tmp_path / "other.disk").write_text("")
    if disk in ("another's", "ours"):
        (devices / "loop").mkdir()
        image = tmp_path / ("results.disk" if disk == "ours" else "other.disk")
        (devices / "loop" / "backing_file").write_text(f"{image}\n")
    elif disk == "none":
        devices.rmdir()
    monkeypatch.setattr(storage, "BLOCK_DEVICES", tmp_path / "block")
    monkeypatch.setattr(storage, "FILE_SYSTEMS", systems)
    job = cast(Job, SimpleNamespace(places=SimpleNamespace(results=results)))
    failed = storage.fail_disk(job, random.Random(1))
    assert (failed is not None) == (disk == "ours")
    assert trigger.read_text() == ("1" if disk == "ours" else "0")


def test_limits_need_control_groups_of_version_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shortages, "CGROUPS", tmp_path)
    job = cast(Job, SimpleNamespace(running=True))
    assert shortages.no_more_processes(job, random.Random(1)) is None
    assert shortages.no_more_memory(job, random.Random(1)) is None


def test_stopped_process_is_continued_and_ended_is_ignored() -> None:
    process = subprocess.Popen(["sleep", "100"])
    let_go = undo.send(process.pid, signal.SIGSTOP)
    assert let_go is not None
    let_go()
    assert undo.send(process.pid, signal.SIGKILL) is undo.for_good
    process.wait()
    assert undo.send(process.pid, signal.SIGTERM) is None


def test_path_of_the_next_socket_is_occupied(socket_folder: Path) -> None:
    folder = socket_folder / "abc123" / "vhost-rx0"
    folder.mkdir(parents=True)
    places = SimpleNamespace(state=socket_folder)
    job = cast(Job, SimpleNamespace(running=True, session="abc123", places=places))
    assert network.take_socket(job, random.Random(1)) is undo.for_good
    assert (folder / "port.sock").is_socket()


def test_rules_of_netfilter_are_compared_without_counters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = {
        "# Generated by iptables-save on Monday",
        ":INPUT ACCEPT [12:3400]",
        "-A INPUT -j DROP",
    }
    monkeypatch.setattr(snapshot, "RULES", (("sh",),))
    monkeypatch.setattr(snapshot, "_lines", lambda *_words: lines)
    assert snapshot._packet_rules() == {"sh: :INPUT ACCEPT ", "sh: -A INPUT -j DROP"}


def test_reserved_hugepages_are_compared_and_free_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hugepages-2048kB").mkdir()
    for name, number in (("nr_hugepages", 1024), ("free_hugepages", 900)):
        (tmp_path / "hugepages-2048kB" / name).write_text(f"{number}\n")
    monkeypatch.setattr(snapshot, "HUGEPAGES", tmp_path)
    assert snapshot._hugepages() == {"hugepages-2048kB/nr_hugepages: 1024"}


def test_unnamed_namespace_is_found_by_its_process() -> None:
    own_namespace = snapshot._target(Path("/proc/self/ns/user"))
    with subprocess.Popen(["unshare", "--user", "sleep", "100"]) as process:
        try:
            while (its := snapshot._target(Path(f"/proc/{process.pid}/ns/user"))) in (
                "",
                own_namespace,
            ):
                if process.poll() is not None:
                    pytest.skip("no user namespaces here")
            assert its in snapshot._unnamed_namespaces()
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("how", "built", "is_possible"),
    [(EMULATED, False, False), (EMULATED, True, True), (KVM, False, True)],
)
def test_machine_needs_an_engine_that_its_cpu_can_run(
    how: str, built: bool, is_possible: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "qemu", lambda: None)
    monkeypatch.setattr(packages, "kernel_at_hand", lambda: tmp_path)
    monkeypatch.setattr(accelerator, "known", lambda _: Accelerator(how, "as set"))
    monkeypatch.setattr(machines, "ROOT", tmp_path)
    monkeypatch.delenv("SWITCHMARK_VM_TRAFFIC", raising=False)
    if built:
        engine = tmp_path / "build-vm" / "switchmark-traffic"
        engine.parent.mkdir()
        engine.touch()
    problem = machines.problem()
    assert problem is None if is_possible else "run tools/guest-engine" in str(problem)


@pytest.mark.parametrize(
    ("stderr", "whose"),
    [
        ("Traceback (most recent call last):\n  File ...asyncio/base_events.py", "the bench's"),
        ("Fatal Python error: init_import_site: ...\nTraceback (most ...", "Python's"),
        ('Traceback (most ...\n  File "<frozen runpy>", line 1\nOSError: ...', "Python's"),
        (
            'Traceback (most ...\n  File "<frozen runpy>"\n  .../switchmark/__main__.py',
            "the bench's",
        ),
        ("switchmark: all is well", "nobody's"),
    ],
)
def test_traceback_counts_unless_python_cannot_start(stderr: str, whose: str) -> None:
    assert judge._traceback(stderr) == (whose == "the bench's")
