"""The matrix: cases by seed until the time is over, then a table and the failing seeds."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import count
from pathlib import Path

from switchmark.campaign.installed import installed
from switchmark.campaign.port_kinds import usable_ports
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.switch.registry import SWITCHES
from tests.faults import snapshot
from tests.faults.case import Case, draw
from tests.faults.decoys import decoys
from tests.faults.inflict import FAULTS
from tests.faults.judge import judge
from tests.faults.table import Row, table, tell

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
    top = Path(f"/var/tmp/faults{os.getpid()}")  # (a far host has a /tmp of its own)
    top.mkdir(mode=0o755)
    snapshot.leave_out_mounts()
    ends, rows = time.monotonic() + 60 * asked.minutes, list[Row]()
    try:
        with decoys():
            for number, case in enumerate(_cases(asked, pairs)):
                rows.append(Row.of(judge(case, top / str(number))))
                tell(rows[-1])
                if asked.tell_to is not None:
                    os.write(asked.tell_to, f"{json.dumps(asdict(rows[-1]))}\n".encode())
                longest_s = max(one.seconds for one in rows)
                if time.monotonic() + (longest_s if asked.within else 0) > ends:
                    break
    finally:
        shutil.rmtree(top, ignore_errors=True)
    if asked.tell_to is None:
        table(rows)
    return 1 if any(one.findings for one in rows) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (10)")
    parser.add_argument("--seed", type=int, default=1, help="of the first case (1)")
    parser.add_argument("--case", type=int, help="only the case of this seed")
    parser.add_argument("--switches", default="", help="only these, with commas")
    parser.add_argument("--environments", default="", help="only these, with commas")
    parser.add_argument("--faults", default="", help="only seeds of these, with commas")
    parser.add_argument("--every", type=int, default=1, help="every so many-th seed (1)")
    parser.add_argument("--tell-to", type=int, help="a descriptor for verdicts; no table then")
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


def _cases(asked: argparse.Namespace, pairs: list[tuple[str, str]]) -> Iterator[Case]:
    """By seed, without end, unless it is one."""
    if asked.case is not None:
        yield draw(asked.case, pairs)
        return
    names = asked.faults.split(",") if asked.faults else [fault.name for fault in FAULTS]
    if unknown := set(names) - {fault.name for fault in FAULTS}:
        sys.exit(f"faults: --faults: no fault is called {', '.join(sorted(unknown))}")
    for seed in count(asked.seed, asked.every):
        if (case := draw(seed, pairs)).fault.name in names:
            yield case


def _there(registry, without):  # type: ignore[no-untyped-def]
    """What this machine can run, by name."""
    names = [name for name in registry if name not in without]
    return [name for name in names if registry[name]().availability().available]


if __name__ == "__main__":
    sys.exit(main())
