"""The file of runs of run.py: one line each, and those of the present engine."""

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
class StoredRun:
    """A line of the file."""

    part: str
    program: str
    rate_pps: float
    disturbed: float
    cpu_rate_pps: float | None
    distance_ns: float | None  # distance of the two cores before the run
    engine: str
    after_ns: float | None = None  # distance of the two cores after the run

    @property
    def cores(self) -> Cores:
        """The distance of the cores during the run, if it did not change."""
        return where(self.distance_ns, self.after_ns)


class Results:
    """The file of runs, and the runs of this engine."""

    def __init__(self, path: Path, engine: Path) -> None:
        self.path = path
        self._program = engine
        self.engine = hashlib.sha256(engine.read_bytes()).hexdigest()[:12]
        text = path.read_text() if path.exists() else ""
        whole, _, cut_off = text.rpartition("\n")
        if cut_off:  # the previous call was killed while it wrote
            path.write_text(whole + "\n" if whole else "")
        every = [StoredRun(**json.loads(line)) for line in whole.splitlines()]
        self.stored = [one for one in every if one.engine == self.engine]
        self.others = len(every) - len(self.stored)

    def add(
        self,
        part: str,
        program: str,
        sample: Sample,
        distance_ns: float | None,
        after_ns: float | None,
    ) -> None:
        """Store a run."""
        self.stored.append(
            StoredRun(
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
            file.write(json.dumps(asdict(self.stored[-1])) + "\n")

    def origin(self) -> str:
        """Return the machine and the engine's build in words."""
        return _origin(self._program)

    def of(self, part: str, program: str) -> list[StoredRun]:
        """Return the runs of a program."""
        return [one for one in self.stored if (one.part, one.program) == (part, program)]

    def rounds(self, part: Part) -> int:
        """Return how often all programs of the part have run."""
        return min(len(self.of(part.name, program)) for program in part.programs)


def _origin(engine: Path) -> str:
    """Return the machine and the build in words: CPU, kernel, and the output of `--version`."""
    done = subprocess.run([engine, "--version"], capture_output=True, text=True, check=False)
    cpu = read_cpu_info().model or platform.machine()
    built = ", ".join(done.stdout.splitlines()[:2])
    return f"{os.cpu_count()} CPUs of {cpu}, Linux {platform.release()}, {built}"
