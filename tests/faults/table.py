"""What came of many cases: a line for each, and the table of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.faults.bench import MACHINES
from tests.faults.inflict import FAULTS
from tests.faults.judge import Verdict
from tests.faults.machines import OWN


@dataclass(frozen=True, slots=True)
class Row:
    """A verdict as it is told from one process to another."""

    seed: int
    case: str
    fault: str
    phase: str
    switch: str
    environment: str
    met: bool
    findings: list[str]
    trials_kept: int
    seconds: float

    @classmethod
    def of(cls, verdict: Verdict) -> Row:
        """What is told of a verdict."""
        case = verdict.case
        return cls(
            case.seed, str(case), case.fault.name, case.phase, case.switch, case.environment,
            verdict.met, verdict.findings, verdict.trials_kept, verdict.seconds,
        )  # fmt: skip


def tell(row: Row) -> None:
    """Print what came of one case."""
    met = "" if row.met else ", ended before the phase"
    state = "FOUND" if row.findings else "ok"
    lines = [f"{state}: {row.case} ({row.seconds:.0f} s{met})"]
    lines += [f"    {line}" for line in row.findings]
    if row.findings:
        machines = f" --environments {row.environment}" if row.environment in MACHINES else ""
        lines.append(f"    again: tools/faults --case {row.seed}{machines}")
    print("\n".join(lines), flush=True)


def table(rows: Sequence[Row]) -> None:
    """Print the table by fault, the counts, and the cases with findings."""
    done, met, found = Counter[str](), Counter[str](), Counter[str]()
    for one in rows:
        done[one.fault] += 1
        met[one.fault] += one.met
        found[one.fault] += bool(one.findings)
    print("\n| fault | cases | in their phase | with findings |\n|---|---|---|---|")
    for fault in (*FAULTS, *OWN):
        if done[fault.name]:
            print(f"| {fault.name} | {done[fault.name]} | {met[fault.name]} | "
                  f"{found[fault.name]} |")  # fmt: skip
    phases = Counter(one.phase for one in rows)
    print("\nphases:", ", ".join(f"{name} {count}" for name, count in sorted(phases.items())))
    for what in ("switch", "environment"):
        counts = Counter(getattr(one, what) for one in rows)
        print(f"{what}:", ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    seeds = [one.seed for one in rows]
    print(f"{len(rows)} cases, seeds {min(seeds)} to {max(seeds)}; "
          f"{sum(one.trials_kept for one in rows)} finished trials kept through faults; "
          f"{sum(bool(one.findings) for one in rows)} cases with findings")  # fmt: skip
    for one in rows:
        if one.findings:
            print(f"FOUND: {one.case}: {one.findings[0][:200]}")
