"""A noisy neighbour: background load on chosen cores, which runs only while a trial measures.

The kinds are those of stress-ng, and Apache httpd with ApacheBench as the Phoronix test suite runs
them (Dagar 2017, section 4.4). A program of the user can also be a neighbour. The kernel reports
its CPU time when it has ended, so that it does not count as a disturbance.
"""

from __future__ import annotations

import resource
import time
from contextlib import suppress
from pathlib import Path

from switchmark.errors import SwitchmarkError, TrialFailed
from switchmark.host.host import Session, Spawned
from switchmark.host.programs import which
from switchmark.model.capabilities import Availability, unavailable
from switchmark.model.rights import Rights
from switchmark.model.trial import Trial
from switchmark.record import Neighbour, Placement

# The stress-ng options for N workers, by kind.
KINDS: dict[str, str] = {
    "cpu": "--cpu {n}",
    "cache": "--cache {n}",
    "memory": "--vm {n} --vm-bytes 64M",
    "stream": "--stream {n}",
    "switch": "--switch {n}",
    "socket": "--sock {n}",
}
APACHE = "apache"
APACHE_SCRIPT = Path(__file__).with_name("apache.sh")
APACHE_CLIENTS = 100  # as in the suite
START_S = 0.1  # a program that cannot run ends within this time


def availability(neighbour: str) -> Availability:
    """Return the availability of this load on this machine."""
    if neighbour.startswith("/"):
        return Availability(which(neighbour) is not None, neighbour, "there is no such program")
    if neighbour == APACHE:
        for program in ("apache2", "ab"):
            if which(program) is None:
                remedy = "apt install apache2-bin apache2-utils"
                return unavailable(f"no `{program}` program", remedy=remedy)
        return Availability(True, "apache2")
    if which("stress-ng") is None:
        return unavailable("no `stress-ng` program", remedy="apt install stress-ng")
    return Availability(True, "stress-ng")


def cores_of(trial: Trial, placement: Placement) -> list[int]:
    """Return the cores that the load is pinned to; empty if the kernel places it."""
    match trial.neighbour_cpus:
        case "any":
            return []
        case "switch":
            return placement.switch_cores or _applications(placement)
        case "applications":
            return _applications(placement)
        case chosen:
            return list(chosen.cores)


def _applications(placement: Placement) -> list[int]:
    return sorted({core for cores in placement.application_cores.values() for core in cores})


class NoisyNeighbour:
    """One background load. `stop` returns its command and the CPU time that it used."""

    def __init__(self, session: Session, trial: Trial, placement: Placement) -> None:
        self._session = session
        self._trial = trial
        self.cores = cores_of(trial, placement)
        self._process: Spawned | None = None
        self._command: list[str] = []
        self._begun = 0.0

    def start(self) -> None:
        """Start the load. Raises `TrialFailed` if it ends at once."""
        if self._trial.neighbour == "none":
            return
        workers = len(self.cores) or 1
        self._command = command(self._trial.neighbour, workers, self._session.run_dir)
        self._begun = time.monotonic()
        try:
            self._process = self._session.host.spawn(
                self._command,
                cores=self.cores or None,
                log=self._session.run_dir / "neighbour.log",
                rights=_rights(self._trial.neighbour),
            )
            with suppress(TimeoutError):
                code = self._process.wait(START_S)
                raise TrialFailed(
                    f"neighbour {self._command[0]} ended at once with exit code {code}"
                )
        except SwitchmarkError as error:
            raise TrialFailed(f"neighbour: {error}") from None

    def stop(self) -> Neighbour | None:
        """End the load; return None without a load. Raises `TrialFailed` if it had already
        ended."""
        process, self._process = self._process, None
        if process is None:
            return None
        ended = process.poll()
        if ended is not None:
            raise TrialFailed(f"neighbour {self._command[0]} ended too early, exit code {ended}")
        before = _children_s()
        process.terminate(grace_s=3.0)
        return Neighbour(
            kind=self._trial.neighbour,
            command=self._command,
            cores=self.cores,
            cpu_s=_children_s() - before,
            wall_s=time.monotonic() - self._begun,
        )

    def close(self) -> None:
        """Make sure that the load has ended. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate(grace_s=3.0)


def _rights(neighbour: str) -> Rights | None:
    """Return the capabilities of the load: none for stress-ng, all for a program of the user, and
    for Apache those that its own network and its own user need."""
    if neighbour.startswith("/"):
        return None
    apache = ("sys_admin", "net_admin", "setuid", "setgid", "kill")
    return Rights(apache if neighbour == APACHE else ())


def command(neighbour: str, workers: int, run_dir: Path) -> list[str]:
    """Return the command line of the load."""
    if neighbour.startswith("/"):
        return [neighbour]
    if neighbour == APACHE:  # in its own network, which no other program reaches
        folder = run_dir / "apache"
        folder.mkdir(exist_ok=True)
        script = ["sh", str(APACHE_SCRIPT), str(folder), str(APACHE_CLIENTS)]
        return ["unshare", "--net", "--", *script]
    return ["stress-ng", "--quiet", *KINDS[neighbour].format(n=workers).split()]


def _children_s() -> float:
    """Return the CPU time in seconds of all children that have ended, and of their children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
