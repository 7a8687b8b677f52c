"""Output of cases: a line for each, and the tables of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from tests.faults.inflict import FAULTS
from tests.faults.machines import OWN
from tests.faults.phases import PHASES
from tests.faults.row import Row


def tell(row: Row) -> None:
    """Print the result of a case."""
    without = "" if row.inflicted else ", no target for the fault"
    met = without if row.met else ", ended before the phase"
    state = "FOUND" if row.findings else "ok"
    lines = [f"{state}: {row.case} ({row.seconds:.0f} s{met})"]
    lines += [f"    {line}" for line in row.findings]
    if row.findings:
        lines.append(f"    again: {row.again}")
    print("\n".join(lines), flush=True)


def by(title: str, key: Callable[[Row], str], order: Sequence[str], rows: Sequence[Row]) -> str:
    """Return a table of the rows by a property; the ordered values first, then the others."""
    done, met, inflicted, found = (Counter[str]() for _ in range(4))
    for row in rows:
        name = key(row)
        done[name] += 1
        met[name] += row.met
        inflicted[name] += row.inflicted
        found[name] += bool(row.findings)
    names = [name for name in order if name in done]
    names += sorted(set(done) - set(names))
    lines = [
        f"| {title} | cases | in their phase | inflicted | with findings |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | {done[name]} | {met[name]} | {inflicted[name]} | {found[name]} |"
            for name in names
        ),
    ]
    return "\n".join(lines)


def tables(rows: Sequence[Row]) -> str:
    """Return all tables and the summary of the rows."""
    seeds = [one.seed for one in rows]
    total = (
        f"{len(rows)} cases, seeds {min(seeds)} to {max(seeds)}; "
        f"{sum(one.trials_kept for one in rows)} finished trials kept through faults; "
        f"{sum(bool(one.findings) for one in rows)} cases with findings"
    )
    faults = [fault.name for fault in (*FAULTS, *OWN)]
    return "\n\n".join(
        [
            total,
            by("fault", lambda row: row.fault, faults, rows),
            by("phase", lambda row: row.phase, list(PHASES), rows),
            by("switch", lambda row: row.switch, (), rows),
            by("environment", lambda row: row.environment, (), rows),
            by("location", lambda row: row.location, (), rows),
            by("the switch is in", lambda row: row.switch_environment, (), rows),
            by("run by", lambda row: row.user, (), rows),
        ]
    )


def tell_all(rows: Sequence[Row]) -> None:
    """Print the tables and the cases with findings."""
    print(f"\n{tables(rows)}")
    for row in rows:
        if row.findings:
            print(f"FOUND: {row.case}: {row.findings[0][:200]}\n    again: {row.again}")
