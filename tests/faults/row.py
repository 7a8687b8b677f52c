"""A stored case: a line of JSON with everything needed to check and repeat it."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache

from tests.faults.bench import ROOT
from tests.faults.case import ROOT as ROOT_USER
from tests.faults.judge import Verdict


@dataclass(frozen=True, slots=True)
class Row:
    """A verdict as a line that is sent between processes and stored."""

    seed: int
    fault: str
    phase: str
    trial: int
    switch: str
    environment: str
    location: str
    switch_environment: str
    met: bool  # the bench was in the phase before it ended
    inflicted: bool  # the fault had a target
    findings: list[str]
    trials_kept: int
    seconds: float
    revision: str
    user: str = ROOT_USER  # older rows are from root

    @classmethod
    def of(cls, verdict: Verdict) -> Row:
        """Return the row of a verdict."""
        case = verdict.case
        return cls(
            seed=case.seed,
            fault=case.fault.name,
            phase=case.phase,
            trial=case.finished_before + 1,
            switch=case.switch,
            environment=case.environment,
            location=case.location,
            switch_environment=case.place,
            met=verdict.met,
            inflicted=verdict.inflicted,
            findings=verdict.findings,
            trials_kept=verdict.trials_kept,
            seconds=round(verdict.seconds, 1),
            revision=revision(),
            user=case.user,
        )

    @property
    def case(self) -> str:
        """Return a description of the case."""
        whose = ", an ordinary user's" if self.user != ROOT_USER else ""
        far = ", between two hosts" if self.location == "remote" else ""
        inside = self.switch_environment
        within = f" in {inside}" if inside != "host" else ""
        return (
            f"case {self.seed}: {self.fault} in {self.phase} (trial {self.trial}), "
            f"{self.switch}{within}, {self.environment}{far}{whose}"
        )

    @property
    def again(self) -> str:
        """Return the command that repeats the case, on any machine with this switch."""
        return shlex.join(
            ["tools/faults", "--case", str(self.seed), "--faults", self.fault,
             "--phases", self.phase, "--switches", self.switch,
             "--environments", self.environment, "--locations", self.location,
             "--switch-environments", self.switch_environment, "--users", self.user]
        )  # fmt: skip

    def line(self) -> str:
        """Return the row as a line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))


def rows_in(lines: Iterable[str]) -> list[Row]:
    """Return the rows of such lines."""
    return [Row(**json.loads(line)) for line in lines]


@cache
def revision() -> str:
    """Return the revision of this checkout, marked if files differ; empty without git."""
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT)]
    command += ["describe", "--always", "--exclude=*", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()
