"""Helpers for the tests of the main job: the bench as a user starts it, in a separate state
directory, waiting for its phases, and a search for leftovers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from switchmark.engine.binary import find_engine
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.errors import UnavailableError
from switchmark.host.cores.cpu_time import process_cpu_s
from switchmark.host.kernel import procfs
from switchmark.record import Record
from switchmark.results.find import find_latest
from switchmark.results.run_directory import open_run
from switchmark.switch.registry import SWITCHES
from tests.integration.machine import remains
from tests.integration.waiting import DEADLINE_S, TAUGHT_FRAMES, frames_sent, until

ROOT = Path(__file__).parents[2]
# Short trials with enough samples; measured figures are not judged. Applications that poll while
# no frame comes take the cores from tests that run at the same time.
SHORT = (
    "trim.warm_up=0.2s", "trim.cool_down=0.2s", "interval=0.1s", "idle=sleep", "repetitions=1",
)  # fmt: skip
POLLING = "idle=auto"  # `wait_measuring` may judge by CPU time
STARTED_CPU_S = 0.12  # more than an engine uses to start and to wait

STORING = ("run", "trial", "show", "reproduce")  # commands that take --results

# Messages of a trial on a machine so busy that an engine got no core for most of the time.
STARVED = "no sample of the"
ATTEMPTS = 6  # runs of trials that got no core

_NUMBERS = count()


def went_well(code: int, err: str) -> bool:
    """Return True if every trial finished, or failed only because it got no core.

    With --quiet the bench prints no failure."""
    return code == 0 or (code == 1 and 0 < err.count("FAILED: ") == err.count(f"FAILED: {STARVED}"))


def need(switches: Sequence[str] = (), environments: Sequence[str] = ()) -> None:
    """Skip, with the reason, if this machine cannot run one of these."""
    try:
        find_engine()
    except UnavailableError as error:
        pytest.skip(str(error))
    availabilities = {name: SWITCHES[name]().availability() for name in switches}
    availabilities |= {name: ENVIRONMENTS[name]().availability() for name in environments}
    for name, availability in availabilities.items():
        if not availability.available:
            pytest.skip(f"{name}: {availability.reason}; {availability.remedy}")


@dataclass
class Job:
    """A bench that runs in the background."""

    bench: Bench
    process: subprocess.Popen[str]
    session: str = ""

    def until(self, condition: Callable[[], bool], phase: str) -> None:
        """Wait for a condition while the bench runs, at most 120 s."""

        def holds() -> bool:
            if condition():
                return True
            assert self.process.poll() is None, (
                f"ended before {phase}: {self.process.communicate()}"
            )
            return False

        until(holds, phase, 120)

    def wait_session(self) -> str:
        """Wait until the bench has opened a session; return its id."""

        def opened() -> bool:
            for path in self.bench.state.glob("*.ledger"):
                try:
                    first = path.read_text().partition("\n")[0]
                except FileNotFoundError:  # a dead session was cleaned up meanwhile
                    continue
                if first and json.loads(first)["pid"] == self.process.pid:
                    self.session = path.stem
            return bool(self.session)

        self.until(opened, "a session")
        return self.session

    def ledger_lines(self) -> int:
        path = self.bench.state / f"{self.session}.ledger"
        return len(path.read_text().splitlines())

    def pids_of(self, *parts: str) -> list[int]:
        """Return the session's processes whose program and arguments contain all these words.

        A launcher that has the command as its arguments does not count."""
        found = []
        for pid in pids_of_session(self.session):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            except OSError:
                continue
            named = Path(command[0]).name == parts[0]
            if named and all(any(word in part for part in command) for word in parts):
                found.append(pid)
        return found

    def wait_measuring(self, more_frames: int = 0) -> None:
        """Wait until the sender has sent so many frames of traffic by the counters of its devices.

        If the port is not a device, or the network is the machine's, CPU time shows that it
        sends."""
        own_network = Path("/proc/self/ns/net").readlink()

        def sends(pid: int) -> bool:
            with suppress(OSError):  # the process may have ended
                is_own = Path(f"/proc/{pid}/ns/net").readlink() != own_network
                if is_own and (sent := frames_sent(pid)):
                    return sent > TAUGHT_FRAMES + more_frames
            return process_cpu_s(pid) > STARTED_CPU_S

        self.until(lambda: any(map(sends, self.pids_of("switchmark-traffic", "sender"))), "traffic")

    def wait_stored(self, count: int) -> None:
        self.until(lambda: len(self.bench.stored()) >= count, f"{count} stored records")

    def end(self, timeout_s: float = 240.0) -> tuple[int, str, str]:
        """Return exit code, standard output and standard error when it has ended."""
        out, err = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, out, err


@dataclass
class Bench:
    """`switchmark` as a user starts it, with separate state, results and cache."""

    state: Path
    results: Path
    cache: Path
    sessions: list[str] = field(default_factory=list)
    program: Sequence[str] = ("-m", "switchmark.cli.main")

    def start(self, *args: str) -> Job:
        where = ["--results", str(self.results)] if args[0] in STORING else []
        process = subprocess.Popen(
            [sys.executable, *self.program, *args, *where],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "SWITCHMARK_STATE_DIR": str(self.state),
                "SWITCHMARK_CACHE_DIR": str(self.cache),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return Job(self, process)

    def run(self, *args: str, timeout_s: float = 400.0) -> tuple[int, str, str]:
        """Run a command to its end; return exit code and both outputs. Kill it at the timeout."""
        job = self.start(*args)
        try:
            return job.end(timeout_s)
        finally:
            if job.process.poll() is None:
                job.process.send_signal(signal.SIGTERM)
                job.process.communicate(timeout=60)

    def run_to_the_end(self, *args: str) -> tuple[int, str, str]:
        """Run a measuring command, and repeat trials that got no core: a run by `--resume`, a trial
        anew."""
        again = ("--resume",) if args[0] == "run" else ()
        ended = self.run(*args)
        for _ in range(ATTEMPTS - 1):
            code, _, err = ended
            if code == 0 or not went_well(code, err):
                break
            ended = self.run(*args, *again)
        return ended

    def stored(self) -> dict[str, tuple[int, int]]:
        """Return the stored records: trial id to inode and modification time."""
        found = {}
        for path in self.results.glob("*/trials/*.json"):
            if not path.name.startswith("."):
                stat = path.stat()
                found[path.name.removesuffix(".json")] = (stat.st_ino, stat.st_mtime_ns)
        return found

    def records(self) -> list[Record]:
        """Return all records of the latest run, each validated when it is read."""
        latest = find_latest(self.results)
        assert latest is not None, f"no run in {self.results}"
        return list(open_run(latest).records())

    def left(self, session: str) -> list[str]:
        """Return the leftovers of a session, after the kernel has had time to remove its
        objects."""
        deadline = time.monotonic() + DEADLINE_S
        while (found := self._left(session)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def _left(self, session: str) -> list[str]:
        assert session
        found = remains(self.state, session)
        for folder in ("/var/run/dpdk", "/dev/hugepages", "/run/lxc", "/tmp"):
            if Path(folder).is_dir():
                found += [str(path) for path in Path(folder).glob(f"*sm{session}*")]
        return found


def new_bench(tmp_path: Path) -> Iterator[Bench]:
    """A bench whose state directory must contain only the lock at the end."""
    state = Path(f"/tmp/smmj{os.getpid()}-{next(_NUMBERS)}")  # short, for socket paths to fit
    assert not state.exists(), f"{state} is left from another run"
    bench = Bench(state, tmp_path / "results", tmp_path / "cache")
    try:
        yield bench
        left = sorted(path.name for path in state.iterdir()) if state.exists() else []
        assert [name for name in left if name != "measuring.lock"] == []
    finally:
        if list(state.glob("*.ledger")):  # a test has failed, clean up
            bench.run("clean")
        shutil.rmtree(state, ignore_errors=True)


def settings(*pairs: str) -> list[str]:
    """Return `--set` for each pair."""
    return [word for pair in pairs for word in ("--set", pair)]


def campaign_file(tmp_path: Path, text: str, name: str = "job") -> str:
    path = tmp_path / f"{name}.yaml"
    path.write_text(text)
    return str(path)


def totals(record: Record, role: str) -> dict[str, int]:
    """Return the sums that the engine of this role reported."""
    (result,) = (one.result for one in record.engines if one.role == role)
    return dict(result["totals"])


def moved(record: Record, port: int, counter: str) -> int:
    """Return the growth of the switch's own counter during the measurement."""
    before, after = record.switch_counters_before, record.switch_counters_after
    return int(after["ports"][str(port)][counter] - before["ports"][str(port)][counter])


def describe(record: Record) -> str:
    """Return the trial's parameters, and the reason if it failed."""
    trial = record.trial
    return (
        f"{trial.switch} {trial.packet_size_bytes} B {trial.dimension.value} {trial.environment}: "
        f"{record.message or record.status}"
    )


def pids_of_session(session: str) -> set[int]:
    """Return the session's processes by their mark, and those in its containers by their group."""
    found = {identity.pid for identity in procfs.session_processes(session)}
    for pid in procfs.pids():
        with suppress(OSError):
            if f"sm{session}" in Path(f"/proc/{pid}/cgroup").read_text():
                found.add(pid)
    return found


def measured(bench: Bench, tmp_path: Path, text: str, *more: str) -> list[Record]:
    """Return the records of a campaign whose trials all ended; skip on a machine that is too busy
    in all attempts."""
    file = campaign_file(tmp_path, text)
    args = settings(*SHORT, *more)
    code, _, err = bench.run_to_the_end("run", file, "--no-baseline", *args)
    records = bench.records()
    failed = [describe(record) for record in records if record.status != "finished"]
    assert (code == 1) == bool(failed) and went_well(code, err), err
    if failed:
        pytest.skip(f"the machine is too busy, in {ATTEMPTS} attempts: {failed}")
    return records
