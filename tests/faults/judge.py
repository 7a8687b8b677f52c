"""A case from the start of its bench to the verdict: nothing hangs, no record is lost, nothing
remains, `--resume` completes, and no traceback is printed."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults import machines, snapshot, storage
from tests.faults.bench import MACHINES, Job, Places, begun, campaign, stored
from tests.faults.case import USER, Case
from tests.faults.phases import meet
from tests.faults.undo import Undo
from tests.integration.ordinary_user import OrdinaryUser, user_with
from tests.integration.two_hosts import TwoHosts, missing

ENDS_WITHIN_S = 400.0  # only a hanging bench takes so long, on any machine
RESUMES = 4  # a trial without a core is repeated
DISK_MB = 32
# Idle strategy of applications. The matrix detects that they measure by their CPU time; in other
# phases polling would only take the cores from the cases beside this one.
POLLING, SLEEPING = "auto", "sleep"
DIES_WITHIN_S = 10.0  # the kernel needs a core for that
SETTLES_S = 60.0  # the kernel removes namespaces and devices late


@dataclass
class Verdict:
    """The result of a case."""

    case: Case
    met: bool  # the bench was in the phase before it ended
    inflicted: bool = False  # the fault had a target
    findings: list[str] = field(default_factory=list)
    trials_kept: int = 0
    seconds: float = 0.0


def judge(case: Case, folder: Path) -> Verdict:
    """Run a case in this folder, which no other case uses."""
    began = time.monotonic()
    with _Rig(folder, case) as rig:
        before = snapshot.take([folder.parent], ())
        verdict = rig.run()
        after = wait_until_unchanged(before, folder.parent, rig.sessions)
        verdict.findings += snapshot.differences(before, after)
    verdict.seconds = time.monotonic() - began
    return verdict


def wait_until_unchanged(
    before: dict[str, set[str]], own_folder: Path, sessions: Sequence[str]
) -> dict[str, set[str]]:
    deadline = time.monotonic() + SETTLES_S
    while True:
        after = snapshot.take([own_folder], sessions)
        if not snapshot.differences(before, after) or time.monotonic() > deadline:
            return after
        time.sleep(0.2)


class _Rig:
    """The folders of a case; results and state are small separate file systems."""

    def __init__(self, folder: Path, case: Case) -> None:
        self.case = case
        self.folder = folder
        self.sessions: list[str] = []
        self.more: Mapping[str, str] = {}
        self.hosts: TwoHosts | None = None  # if the case has a remote host
        self.has_machines = case.environment in MACHINES
        self.trials = 0
        self.user: OrdinaryUser | None = None
        self.places = Places(
            folder / "state", folder / "results", folder.parent / "cache", folder / "faults.yaml"
        )

    def __enter__(self) -> _Rig:
        self.folder.mkdir()
        case = self.case
        for path in (self.places.state, self.places.results):
            path.mkdir()
            disk = case.fault.on_disk and path is self.places.results
            if not (disk and storage.mount_disk(path, DISK_MB)):
                _sh("mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=0755", "faults", str(path))
        location = case.location if missing() is None else "local"
        text, self.trials = campaign(
            case.switch,
            case.environment,
            location,
            case.place,
            POLLING if case.phase == "measure" else SLEEPING,
            case.fault.campaign,
            case.seed,
        )
        self.places.campaign.write_text(text)
        if case.user == USER:
            home = self.folder / "home"
            home.mkdir()
            self.user = user_with(home)
            owner = home.stat()
            os.chown(self.places.results, owner.st_uid, owner.st_gid)
        self.more = case.fault.prepare(self.folder) if case.fault.prepare else {}
        if self.has_machines:
            self.more = {**self.more, **machines.prepare(self.folder.parent)}
        if location == "remote":
            self.hosts = TwoHosts.make(self.folder / "hosts")
        return self

    def __exit__(self, *_: object) -> None:
        if self.hosts:
            self.hosts.end()
        for path in (self.places.state, self.places.results):
            _sh("umount", "-l", str(path))
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self) -> Verdict:
        """Start, wait for the phase, inflict, undo, resume, clean, compare."""
        case, verdict = self.case, Verdict(self.case, met=False)
        say = verdict.findings.append
        job = self._start()
        undo: Undo | None = None
        try:
            verdict.met = meet(job, case.phase, case.finished_before, case.delay)
            stored_before = stored(self.places)
            if verdict.met:
                undo = case.fault.inflict(job, random.Random(case.seed))
                verdict.inflicted = undo is not None
                if undo and case.fault.lasts_s is not None:
                    wait(job, case.fault.lasts_s / job.patience)
                    undo()
                    undo = None
            if not wait(job, ENDS_WITHIN_S):
                say(f"hangs: still running after {ENDS_WITHIN_S * job.patience:g} s: {_last(job)}")
        finally:
            end(job)
            if undo is not None:
                undo()
            for group in job.groups:
                _remove_group(group)
        self._look(job, say)
        self._look_for_processes(say)
        self._resume(say)
        after = stored(self.places)
        if not case.fault.takes_results:
            for name, was in stored_before.items():
                if was[2] == "finished" and after.get(name) != was:
                    say(f"lost or measured again: {name}: {was} became {after.get(name)}")
            verdict.trials_kept = sum(one[2] == "finished" for one in stored_before.values())
        if len(after) != self.trials:
            say(f"{len(after)} records of {self.trials} trials")
        self._clean(say)
        return verdict

    def _start(self, *more: str) -> Job:
        places = self.places
        return Job.start(
            places, "run", str(places.campaign), "--no-baseline", "--quiet", "--results",
            str(places.results), *more, more=self.more, hosts=self.hosts,
            has_machines=self.has_machines, user=self.user,
        )  # fmt: skip

    def _resume(self, say: Callable[[str], object]) -> None:
        """Resume until every trial has finished; report the errors of the last attempt."""
        wrong = ""
        for _ in range(RESUMES):
            job = self._start(*(["--resume"] if begun(self.places) else []))
            try:
                if not wait(job, ENDS_WITHIN_S):
                    say(f"--resume hangs: {_last(job)}")
                    return
            finally:
                end(job)
            self._look(job, say)
            if job.process.returncode == 0:
                return
            wrong = f"--resume ends with {job.process.returncode}: {_last(job)}{self._failed()}"
            if job.process.returncode != 1:
                break
        say(wrong)

    def _failed(self) -> str:
        """Return why trials failed, by their records."""
        import json

        messages = set()
        for path in self.places.results.glob("*/trials/????????????????.json"):
            with suppress(OSError, ValueError):
                messages.add(json.loads(path.read_text()).get("message", ""))
        return "; ".join(sorted(messages - {""}))[:300]

    def _clean(self, say: Callable[[str], object]) -> None:
        job = Job.start(self.places, "clean", more=self.more, hosts=self.hosts, user=self.user)
        if not wait(job, ENDS_WITHIN_S) or job.process.returncode:
            say(f"clean ends with {job.process.poll()}: {_last(job)}")
        end(job)
        self._look(job, say)
        if left := sorted(path.name for path in self.places.state.glob("*.ledger")):
            say(f"ledgers are left: {', '.join(left)}")
        for leftover in self.hosts.remains() if self.hosts else ():
            say(f"left on one of two hosts: {leftover}")

    def _look_for_processes(self, say: Callable[[str], object]) -> None:
        """Check that no process of an ordinary user's bench runs and that the user owns all
        results."""
        if self.user is None:
            return
        deadline = time.monotonic() + DIES_WITHIN_S
        while (living := self.user.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        if living:
            say(f"processes live on: {living}")
        owner = self.user.home.stat().st_uid
        for path in self.places.results.rglob("*"):
            with suppress(FileNotFoundError):
                if path.stat().st_uid != owner and path.name != "filled":
                    say(f"not the user's: {path}")

    def _look(self, job: Job, say: Callable[[str], object]) -> None:
        """Store its session, and check its output for forbidden messages."""
        if job.session:
            self.sessions.append(job.session)
        stderr = job.stderr()
        if is_faulty(stderr):
            say(f"a traceback: {stderr[-800:]}")


def is_faulty(stderr: str) -> bool:
    """Return True if the bench reports its own fault, by a traceback or in a trial."""
    return _traceback(stderr) or "a fault of the bench itself" in stderr


def _traceback(stderr: str) -> bool:
    """Return True if the bench printed a traceback.

    A traceback of Python itself, before the first line of the bench, does not count."""
    if "Traceback" not in stderr:
        return False
    of_start = "Fatal Python error: init_" in stderr or "<frozen runpy>" in stderr
    return not of_start or "/switchmark/__main__.py" in stderr


def wait(job: Job, seconds: float) -> bool:
    """Return True if it has ended by then; meanwhile its ledger is read for the session's name."""
    deadline = time.monotonic() + seconds * job.patience
    while time.monotonic() < deadline:
        if not job.session:
            job.ledger()
        with suppress(subprocess.TimeoutExpired):
            job.process.wait(0.02)
            return True
    return False


def end(job: Job) -> None:
    """Kill it if it still runs."""
    if job.running:
        job.process.kill()
        job.process.wait()


def _last(job: Job) -> str:
    return " | ".join(job.stderr().strip().splitlines()[-3:])[-500:]


def _remove_group(group: Path) -> None:
    """Move its processes, if any, back to their former groups; a dying process keeps the group for
    a moment."""
    deadline = time.monotonic() + SETTLES_S
    while group.exists() and time.monotonic() < deadline:
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):
                (group.parent / "cgroup.procs").write_text(pid)
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.05)


def _sh(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
