"""The fault matrix: cases by seed until the time is over, then a table and the failing seeds."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from switchmark.campaign.installed import installed
from switchmark.campaign.port_kinds import usable_ports
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.switch.registry import SWITCHES
from switchmark.switch.support.contained import problem
from tests.faults import machines, snapshot
from tests.faults.bench import MACHINES
from tests.faults.case import HOST, LOCAL, REMOTE, ROOT, USER, Case, Scope, draw
from tests.faults.decoys import decoys
from tests.faults.inflict import FAULTS, Fault
from tests.faults.judge import judge
from tests.faults.phases import PHASES
from tests.faults.row import Row
from tests.faults.table import tell, tell_all
from tests.integration.ordinary_user import SWITCHES as USER_SWITCHES
from tests.integration.ordinary_user import user_with, why_not
from tests.integration.two_hosts import missing
from tests.known_state import establish

CONTAINERS_AND_NAMESPACES = (
    "netns",
    "lxc",
    "docker",
)  # environments that can also contain a switch
NOT_DRAWN = ("direct", "reference")  # the baseline and the reference
LONG_MINUTES = 60.0  # cases of longer runs may have virtual machines


def main() -> int:
    """Return 0 without findings, 1 with findings, 3 if no case can run here."""
    establish()
    options = _arguments()
    pairs, with_machines = _pairs(options), _pairs_with_machines(options)
    if not pairs and not with_machines:
        print("faults: no switch or no environment can run here; see switchmark doctor")
        return 3
    names = {word for pair in [*pairs, *with_machines] for word in pair}
    print("with", ", ".join(sorted(names)), flush=True)
    top = Path(f"/var/tmp/faults{os.getpid()}")  # a remote host has another /tmp
    top.mkdir(mode=0o755)
    snapshot.leave_out_mounts()
    ends, rows = time.monotonic() + 60 * options.minutes, list[Row]()
    try:
        with decoys():
            for number, case in enumerate(_cases(options, pairs, with_machines)):
                rows.append(Row.of(judge(case, top / str(number))))
                tell(rows[-1])
                if options.tell_to is not None:
                    os.write(options.tell_to, f"{rows[-1].line()}\n".encode())
                longest_s = max(one.seconds for one in rows)
                if time.monotonic() + (longest_s if options.within else 0) > ends:
                    break
    finally:
        shutil.rmtree(top, ignore_errors=True)
    if options.tell_to is None:
        tell_all(rows)
    return 1 if any(one.findings for one in rows) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (10)")
    parser.add_argument("--seed", type=int, default=1, help="of the first case (1)")
    parser.add_argument("--case", type=int, help="only the case of this seed")
    parser.add_argument("--switches", default="", help="only these, with commas")
    parser.add_argument("--environments", default="", help="only these, with commas")
    parser.add_argument("--faults", default="", help="only these, with commas")
    parser.add_argument("--phases", default="", help="only these, with commas")
    parser.add_argument("--locations", default="", help="local or remote; both")
    parser.add_argument("--switch-environments", default="", help="only these, with commas")
    parser.add_argument("--users", default="", help="root or user; both")
    parser.add_argument("--every", type=int, default=1, help="every so many-th seed (1)")
    parser.add_argument("--tell-to", type=int, help="a descriptor for verdicts; no table then")
    parser.add_argument("--within", action="store_true", help="begin no case that may end later")
    return parser.parse_args()


def _pairs(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the requested pairs of switch and environment that can run here."""
    switches = options.switches.split(",") if options.switches else _there(SWITCHES, NOT_DRAWN)
    environments = options.environments.split(",") if options.environments else None
    environments = environments or _there(ENVIRONMENTS, MACHINES)
    return _usable(switches, [one for one in environments if one not in MACHINES])


def _pairs_with_machines(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Return pairs with virtual machines, if requested or in long runs of all environments."""
    environments = [one for one in MACHINES if one in options.environments.split(",")]
    if not environments:
        if options.environments or options.case is not None or options.minutes < LONG_MINUTES:
            return []
        environments = _there(ENVIRONMENTS, ())
    if (problem := machines.problem()) is not None:
        print("without virtual machines:", problem)
        return []
    switches = options.switches.split(",") if options.switches else _there(SWITCHES, NOT_DRAWN)
    return _usable(
        [one for one in switches if one in machines.SWITCHES],
        [one for one in environments if one in MACHINES],
    )


def _usable(switches: list[str], environments: list[str]) -> list[tuple[str, str]]:
    found = installed()
    # Cases forward frames between their own ends, which routers do not.
    return [
        (switch, environment)
        for switch in switches
        if not found.switches[switch].only_routes
        for environment in environments
        if usable_ports(found.switches[switch], found.environments[environment])
    ]


def _cases(
    options: argparse.Namespace,
    pairs: list[tuple[str, str]],
    with_machines: list[tuple[str, str]],
) -> Iterator[Case]:
    """Yield cases by increasing seed without end, or the requested case."""
    phases = _chosen(options.phases, list(PHASES), "phases")
    locations = _chosen(options.locations, [LOCAL, REMOTE], "locations")
    locations = locations if missing() is None else [LOCAL]
    users = _users(options)
    known = {fault.name: fault for fault in (*FAULTS, *machines.OWN)}
    names = _chosen(options.faults, list(known), "faults")

    def there(pairs: list[tuple[str, str]], faults: list[Fault]) -> Scope:
        chosen = [
            fault for fault in faults
            if fault.name in names
            and (USER in users or not fault.only_user)
            and (ROOT in users or fault.user)
        ]  # fmt: skip
        if ROOT not in users:
            user_pairs = [one for one in pairs if one[0] in USER_SWITCHES and one[1] == "netns"]
            return Scope(user_pairs, chosen, phases, [LOCAL], {}, users)
        return Scope(pairs, chosen, phases, locations, _places(options), users)

    local = there(pairs, FAULTS)
    guests = there(with_machines, machines.MACHINE_FAULTS)
    if not (pairs and local.faults) and not (with_machines and guests.faults):
        sys.exit("faults: none of these faults applies to what can run here; request others")
    for seed in [options.case] if options.case is not None else count(options.seed, options.every):
        rare = seed % machines.EVERY == 0 or not pairs or not local.faults
        yield draw(seed, guests if with_machines and guests.faults and rare else local)


def _users(options: argparse.Namespace) -> list[str]:
    """Return the requested users that can run benches here."""
    users = _chosen(options.users, [ROOT, USER], "users")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        reason = why_not(user_with(Path(home))) if USER in users else None
    if reason is not None:
        print("without an ordinary user's benches:", reason)
        users.remove(USER)
    return users


def _chosen(given: str, known: list[str], option: str) -> list[str]:
    """Return the values of an option; all if it is not given."""
    names = given.split(",") if given else known
    if unknown := set(names) - set(known):
        sys.exit(f"faults: --{option}: there is no {', '.join(sorted(unknown))}; there is: "
                 f"{', '.join(known)}")  # fmt: skip
    return names


def _places(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the requested environments of each switch on this machine."""
    known = [HOST, *CONTAINERS_AND_NAMESPACES]
    requested = _chosen(options.switch_environments, known, "switch-environments")
    here = [one for one in requested if problem(one) is None]
    return {
        name: [one for one in can.runs_in if one in here]
        for name, can in installed().switches.items()
    }


def _there(registry, without):  # type: ignore[no-untyped-def]
    """Return the names of the registry that can run here."""
    names = [name for name in registry if name not in without]
    return [name for name in names if registry[name]().availability().available]


if __name__ == "__main__":
    sys.exit(main())
