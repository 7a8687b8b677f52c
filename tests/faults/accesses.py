"""Each access of a bench to its machine is refused once: at each place of its code that opens,
makes, renames or lists something, starts a program or makes a socket, one bench after the other.
The matrix draws what befalls a bench; here nothing is drawn."""

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
from tests.faults.judge import end, is_faulty, settled, wait
from tests.known_state import establish

HOOK = Path(__file__).with_name("refuse")
ENDS_WITHIN_S = 300.0  # only what hangs takes so long
KNOWN_CODES = (0, 1, 2, 3)  # of `run`
CHANGES = (errno.ENOSPC, errno.EACCES)  # what the kernel may answer to who changes something
LOOKS = (errno.EMFILE, errno.EIO)  # to who only looks
STARTS = (errno.EMFILE, errno.ENOMEM)  # to who starts a program
ANSWERS = {
    "open": LOOKS, "os.listdir": LOOKS, "os.scandir": LOOKS, "socket.__new__": LOOKS,
    "socket.bind": CHANGES, "socket.connect": CHANGES, "fcntl.flock": (errno.EIO,),
    "fcntl.ioctl": (errno.EIO, errno.EPERM), "subprocess.Popen": STARTS,
}  # fmt: skip
# An event loop that gets no descriptor says so by a traceback of Python's own; that there are some
# is asked before one is begun (`host/kernel/descriptors.py`), so a refusal here is no case.
ASKED_BEFORE = "host/kernel/netlink.py"


def main() -> int:
    """0: nothing found; 1: something."""
    establish()
    asked = _arguments()
    top = Path(f"/var/tmp/accesses{os.getpid()}")
    top.mkdir(mode=0o755)
    snapshot.leave_out_mounts()
    wrong = tried = 0
    try:
        with decoys():
            for place in _places(asked, top):
                for number in answers_to(place):
                    found = _try(asked, top, place, number)
                    tried += 1
                    wrong += bool(found)
                    print("; ".join(found) or "ok", f"{place}: {errno.errorcode[number]}", sep=": ")
                    sys.stdout.flush()
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print(f"{tried} refusals through {asked.switch}, {asked.environment}; {wrong} with findings")
    return 1 if wrong or not tried else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/accesses", description=__doc__)
    parser.add_argument("--switch", default="linux-bridge")
    parser.add_argument("--environment", default="netns")
    parser.add_argument("--only", default="", help="places with this in them")
    return parser.parse_args()


def _places(asked: argparse.Namespace, top: Path) -> list[str]:
    """Of a run that nothing is refused, in their order."""
    bench = _Bench(top, asked)
    code = bench.run()
    if code != 0:
        sys.exit(f"accesses: a run that nothing is refused ends with {code}: {bench.said}")
    return [one for one in bench.told() if asked.only in one and ASKED_BEFORE not in one]


def answers_to(place: str) -> Sequence[int]:
    """With what errors the kernel may refuse such a place."""
    event = place.split()[1]
    return CHANGES if place.endswith(" to write") else ANSWERS.get(event, CHANGES)


def _try(asked: argparse.Namespace, top: Path, place: str, number: int) -> list[str]:
    """Refuse it; returns what is wrong."""
    before = snapshot.take([top], ())
    bench = _Bench(top, asked, f"{place} {number}")
    code = bench.run()
    found = [] if code in KNOWN_CODES else [f"ends with {code}: {bench.said[-300:]}"]
    if place not in bench.told():
        found.append("was not met")
    if is_faulty(bench.said):
        found.append(f"a traceback: {bench.said[-800:]}")
    if (cleaned := bench.clean()) != 0:
        found.append(f"clean ends with {cleaned}: {bench.said[-300:]}")
    found += snapshot.differences(before, settled(before, top, bench.sessions))
    return found


class _Bench:
    """A bench with results and state of its own, which tells its places, or is refused one."""

    def __init__(self, top: Path, asked: argparse.Namespace, refused: str = "") -> None:
        for path in top.iterdir():  # (the cache, too: each bench comes to the same places)
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.places = Places(top / "state", top / "results", top / "cache", top / "accesses.yaml")
        text, _ = campaign(asked.switch, asked.environment, "local", idle="sleep")
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

    def told(self) -> list[str]:
        """The places, or the one that was refused."""
        return self._file.read_text().splitlines() if self._file.exists() else []

    def run(self) -> int | str:
        """The code with which it ends."""
        results = str(self.places.results)
        words = ("run", str(self.places.campaign), "--no-baseline", "--quiet", "--results", results)
        return self._ended(Job.start(self.places, *words, more=self._more))

    def clean(self) -> int | str:
        """The code with which `clean` ends."""
        return self._ended(Job.start(self.places, "clean"))

    def _ended(self, job: Job) -> int | str:
        ended = wait(job, ENDS_WITHIN_S)
        end(job)
        self.said = job.said()
        if job.session:
            self.sessions.append(job.session)
        return job.process.returncode if ended else "a hang"


if __name__ == "__main__":
    sys.exit(main())
