"""Each access of a bench to its machine is refused once, one bench after the other.

An access is a place in its code that opens, makes, renames or lists something, starts a program or
makes a socket. The matrix draws faults at random; here every place is tried."""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import switchmark
from tests.faults import snapshot
from tests.faults.bench import ROOT, Job, Places, campaign
from tests.faults.decoys import decoys
from tests.faults.judge import end, is_faulty, wait, wait_until_unchanged
from tests.known_state import establish

HOOK = Path(__file__).with_name("refuse")
ENDS_WITHIN_S = 300.0  # only a hanging bench takes so long
KNOWN_CODES = (0, 1, 2, 3)  # exit codes of `run`
CHANGES = (errno.ENOSPC, errno.EACCES)  # errors of calls that change something
LOOKS = (errno.EMFILE, errno.EIO)  # errors of calls that only read
STARTS = (errno.EMFILE, errno.ENOMEM)  # errors of calls that start a program
ANSWERS = {
    "open": LOOKS, "os.listdir": LOOKS, "os.scandir": LOOKS, "socket.__new__": LOOKS,
    "socket.bind": CHANGES, "socket.connect": CHANGES, "fcntl.flock": (errno.EIO,),
    "fcntl.ioctl": (errno.EIO, errno.EPERM), "subprocess.Popen": STARTS,
}  # fmt: skip
# Without a descriptor an event loop prints a traceback of Python. The bench checks for descriptors
# before it starts a loop (`host/kernel/descriptors.py`), so this refusal is not a case.
ASKED_BEFORE = "host/kernel/netlink.py"


def main() -> int:
    """Return 0 without findings, otherwise 1."""
    establish()
    options = _arguments()
    top = Path(f"/var/tmp/accesses{os.getpid()}")
    top.mkdir(mode=0o755)
    snapshot.leave_out_mounts()
    wrong = tried = 0
    try:
        with decoys():
            for place in _places(options, top):
                for number in answers_to(place):
                    found = _try(options, top, place, number)
                    tried += 1
                    wrong += bool(found)
                    print("; ".join(found) or "ok", f"{place}: {errno.errorcode[number]}", sep=": ")
                    sys.stdout.flush()
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print(
        f"{tried} refusals through {options.switch}, {options.environment}; {wrong} with findings"
    )
    return 1 if wrong or not tried else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/accesses", description=__doc__)
    parser.add_argument("--switch", default="linux-bridge")
    parser.add_argument("--environment", default="netns")
    parser.add_argument("--only", default="", help="places with this in them")
    return parser.parse_args()


def _places(options: argparse.Namespace, top: Path) -> list[str]:
    """Return the places of an undisturbed run, in their order."""
    bench = _Bench(top, options)
    code = bench.run()
    if code != 0:
        sys.exit(f"accesses: a run that nothing is refused ends with {code}: {bench.said}")
    return [one for one in bench.reached() if options.only in one and ASKED_BEFORE not in one]


def answers_to(place: str) -> Sequence[int]:
    """Return the errors with which the kernel may refuse such a place."""
    event = place.split()[1]
    return CHANGES if place.endswith(" to write") else ANSWERS.get(event, CHANGES)


def _try(options: argparse.Namespace, top: Path, place: str, number: int) -> list[str]:
    """Refuse the access; return the findings."""
    before = snapshot.take([top], ())
    bench = _Bench(top, options, f"{place} {number}")
    code = bench.run()
    found = [] if code in KNOWN_CODES else [f"ends with {code}: {bench.said[-300:]}"]
    if place not in bench.reached():
        found.append("was not met")
    if is_faulty(bench.said):
        found.append(f"a traceback: {bench.said[-800:]}")
    if (cleaned := bench.clean()) != 0:
        found.append(f"clean ends with {cleaned}: {bench.said[-300:]}")
    found += snapshot.differences(before, wait_until_unchanged(before, top, bench.sessions))
    return found


class _Bench:
    """A bench with separate results and state that lists its places, or is refused an access."""

    def __init__(self, top: Path, options: argparse.Namespace, refused: str = "") -> None:
        for path in top.iterdir():  # without a cache each bench reaches the same places
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.places = Places(top / "state", top / "results", top / "cache", top / "accesses.yaml")
        text, _ = campaign(options.switch, options.environment, "local", idle="sleep")
        self.places.campaign.write_text(text)
        self.said = ""
        self.sessions: list[str] = []
        self._file = top / "told"
        self._more = {
            "PYTHONPATH": f"{HOOK}:{ROOT}",
            "SM_PACKAGE": str(Path(switchmark.__file__).parent),
            "SM_TELL": str(self._file),
            "SM_REFUSE": refused,
        }

    def reached(self) -> list[str]:
        """Return the places, or the place that was refused."""
        return self._file.read_text().splitlines() if self._file.exists() else []

    def run(self) -> int | str:
        """Run the campaign; return the exit code."""
        results = str(self.places.results)
        arguments = (
            "run",
            str(self.places.campaign),
            "--no-baseline",
            "--quiet",
            "--results",
            results,
        )
        return self._ended(Job.start(self.places, *arguments, more=self._more))

    def clean(self) -> int | str:
        """Run `clean`; return the exit code."""
        return self._ended(Job.start(self.places, "clean"))

    def _ended(self, job: Job) -> int | str:
        ended = wait(job, ENDS_WITHIN_S)
        end(job)
        self.said = job.stderr()
        if job.session:
            self.sessions.append(job.session)
        return job.process.returncode if ended else "a hang"


if __name__ == "__main__":
    sys.exit(main())
