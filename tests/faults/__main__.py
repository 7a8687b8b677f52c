"""The matrix: cases by seed until the time is over, then a table and the failing seeds."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

from switchmark.campaign.installed import installed
from switchmark.campaign.port_kinds import usable_ports
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.switch.registry import SWITCHES
from tests.faults import snapshot
from tests.faults.case import draw
from tests.faults.decoys import decoys
from tests.faults.inflict import FAULTS
from tests.faults.judge import Verdict, judge

NOT_DRAWN = ("direct", "reference")  # the bare wire, and known truth
MACHINES = ("qemu",)  # minutes a case where they are emulated


def main() -> int:
    """0: nothing found; 1: something, with its seeds; 3: nothing can be tried here."""
    asked = _arguments()
    pairs = _pairs(asked)
    if not pairs:
        print("faults: no switch or no environment can run here; see switchmark doctor")
        return 3
    print("with", ", ".join(sorted({word for pair in pairs for word in pair})), flush=True)
    top = Path(f"/tmp/faults{os.getpid()}")
    top.mkdir(mode=0o755)
    snapshot.leave_out_mounts()
    seeds = [asked.case] if asked.case is not None else _seeds(asked.seed)
    ends, verdicts = time.monotonic() + 60 * asked.minutes, []
    try:
        with decoys():
            for number, seed in enumerate(seeds):
                case = draw(seed, pairs)
                verdicts.append(judge(case, top / str(number)))
                _tell(verdicts[-1])
                longest_s = max(one.seconds for one in verdicts)
                if time.monotonic() + (longest_s if asked.within else 0) > ends:
                    break
    finally:
        shutil.rmtree(top, ignore_errors=True)
    _table(verdicts)
    return 1 if any(one.findings for one in verdicts) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (10)")
    parser.add_argument("--seed", type=int, default=1, help="of the first case (1)")
    parser.add_argument("--case", type=int, help="only the case of this seed")
    parser.add_argument("--switches", default="", help="only these, with commas")
    parser.add_argument("--environments", default="", help="only these, with commas")
    parser.add_argument("--within", action="store_true", help="begin no case that may end later")
    return parser.parse_args()


def _pairs(asked: argparse.Namespace) -> list[tuple[str, str]]:
    """What this machine can run together, as far as it is asked for."""
    there = installed()
    switches = asked.switches.split(",") if asked.switches else _there(SWITCHES, NOT_DRAWN)
    environments = asked.environments.split(",") if asked.environments else None
    environments = environments or _there(ENVIRONMENTS, MACHINES)
    return [
        (switch, environment)
        for switch in switches
        for environment in environments
        if usable_ports(there.switches[switch], there.environments[environment])
    ]


def _seeds(first: int):  # type: ignore[no-untyped-def]
    while True:
        yield first
        first += 1


def _there(registry, without):  # type: ignore[no-untyped-def]
    """What this machine can run, by name."""
    names = [name for name in registry if name not in without]
    return [name for name in names if registry[name]().availability().available]


def _tell(verdict: Verdict) -> None:
    met = "" if verdict.met else ", ended before the phase"
    state = "FOUND" if verdict.findings else "ok"
    print(f"{state}: {verdict.case} ({verdict.seconds:.0f} s{met})", flush=True)
    for line in verdict.findings:
        print(f"    {line}", flush=True)
    if verdict.findings:
        print(f"    again: tools/faults --case {verdict.case.seed}", flush=True)


def _table(verdicts: list[Verdict]) -> None:
    done, met, found = Counter[str](), Counter[str](), Counter[str]()
    for one in verdicts:
        name = one.case.fault.name
        done[name] += 1
        met[name] += one.met
        found[name] += bool(one.findings)
    print("\n| fault | cases | in their phase | with findings |\n|---|---|---|---|")
    for fault in FAULTS:
        if done[fault.name]:
            print(f"| {fault.name} | {done[fault.name]} | {met[fault.name]} | "
                  f"{found[fault.name]} |")  # fmt: skip
    phases = Counter(one.case.phase for one in verdicts)
    print("\nphases:", ", ".join(f"{name} {count}" for name, count in sorted(phases.items())))
    for what in ("switch", "environment"):
        counts = Counter(getattr(one.case, what) for one in verdicts)
        print(f"{what}:", ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    print(f"{len(verdicts)} cases, seeds {verdicts[0].case.seed} to {verdicts[-1].case.seed}; "
          f"{sum(one.trials_kept for one in verdicts)} finished trials kept through faults; "
          f"{sum(bool(one.findings) for one in verdicts)} cases with findings")  # fmt: skip
    for one in verdicts:
        if one.findings:
            print(f"FOUND: {one.case}: {one.findings[0][:200]}")


if __name__ == "__main__":
    sys.exit(main())
