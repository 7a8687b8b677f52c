"""The file of runs that run.py keeps: one line each, those of the engine as it is now."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from cores import Cores, where
from parts import Part, Sample

from switchmark.host.facts import read_cpu_info


@dataclass(frozen=True, slots=True)
class Made:
    """One line of the file."""

    part: str
    program: str
    rate_pps: float
    disturbed: float
    cpu_rate_pps: float | None
    distance_ns: float | None  # distance of the two cores before the run
    engine: str
    after_ns: float | None = None  # and after

    @property
    def cores(self) -> Cores:
        """Where the cores were all the time."""
        return where(self.distance_ns, self.after_ns)


class Results:
    """The file of runs, and those of this engine."""

    def __init__(self, path: Path, engine: Path) -> None:
        self.path = path
        self._program = engine
        self.engine = hashlib.sha256(engine.read_bytes()).hexdigest()[:12]
        text = path.read_text() if path.exists() else ""
        whole, _, cut_off = text.rpartition("\n")
        if cut_off:  # the call before was ended while it wrote
            path.write_text(whole + "\n" if whole else "")
        every = [Made(**json.loads(line)) for line in whole.splitlines()]
        self.made = [one for one in every if one.engine == self.engine]
        self.others = len(every) - len(self.made)

    def add(
        self,
        part: str,
        program: str,
        sample: Sample,
        distance_ns: float | None,
        after_ns: float | None,
    ) -> None:
        """Keep a run."""
        self.made.append(
            Made(
                part,
                program,
                **asdict(sample),
                distance_ns=distance_ns,
                engine=self.engine,
                after_ns=after_ns,
            )
        )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(self.made[-1])) + "\n")

    def origin(self) -> str:
        """The machine and the engine's build in words."""
        return _origin(self._program)

    def of(self, part: str, program: str) -> list[Made]:
        """The runs of a program."""
        return [one for one in self.made if (one.part, one.program) == (part, program)]

    def rounds(self, part: Part) -> int:
        """Return how often all programs of the part have run."""
        return min(len(self.of(part.name, program)) for program in part.programs)


def _origin(engine: Path) -> str:
    """The machine and the build in words: CPU, kernel, and what `--version` prints."""
    told = subprocess.run([engine, "--version"], capture_output=True, text=True, check=False)
    cpu = read_cpu_info().model or platform.machine()
    built = ", ".join(told.stdout.splitlines()[:2])
    return f"{os.cpu_count()} CPUs of {cpu}, Linux {platform.release()}, {built}"
