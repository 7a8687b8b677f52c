"""SMT siblings and NUMA nodes, in a guest that has two sockets with a NUMA node each, and two
threads a core. The plan is judged by what the guest's kernel says of its CPUs, a trial by where
its programs were allowed to run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from switchmark.host.facts import parse_cpu_list
from tests.vm.conftest import check_forwarded, records, trial
from tests.vm.guest import MEMORY_MB, Machine, Outcome

SOCKETS = 2  # of two threads a core, and a node each


def nodes(cpus: int) -> tuple[str, ...]:
    """Half of the CPUs and of the memory for each."""
    half = cpus // SOCKETS
    return tuple(
        word
        for node in range(SOCKETS)
        for word in (
            *("-object", f"memory-backend-ram,id=m{node},size={MEMORY_MB // SOCKETS}M"),
            "-numa",
            f"node,nodeid={node},cpus={half * node}-{half * (node + 1) - 1},memdev=m{node}",
        )
    )


APART = "numa=generator-apart"
ASKED = ("auto", "smt=avoid", "smt=siblings", "numa=same", "numa=other", APART)
CAMPAIGN = "switch: af-packet\nsweeps:\n  - {smt: [auto, avoid, siblings]}\n" + (
    "  - {numa: [same, other]}\n  - {numa: generator-apart, scenario: p2v}\n"
)
WATCH = """\
watch() {
  set +e  # what is looked at may have ended
  while sleep 0.3; do
    for name in $(grep -ls switchmark-traf /proc/[0-9]*/comm); do
      words=$(tr '\\0' ' ' <${name%comm}cmdline)
      grep -hs Cpus_allowed_list ${name%comm}task/*/status | while read -r key cpus; do
        echo "$cpus $words"
      done
    done
  done >/exchange/ran-$1 2>/dev/null
}
"""
RUN = ("smt=siblings", "numa=other", APART)
WHAT = "af-packet --rate 200 --set idle=sleep"  # few, and no program that keeps a core busy
TELL = """\
cd /sys/devices/system/cpu
for cpu in cpu[0-9]*; do
  echo "${cpu#cpu} $(cat $cpu/topology/thread_siblings_list)"
done >/exchange/siblings
cat /sys/devices/system/node/node[0-9]*/cpulist >/exchange/nodes
cd - >/dev/null
"""
PLAN = f"""\
printf '{CAMPAIGN}' >/tmp/campaign.yaml
python -m switchmark.cli.main plan /tmp/campaign.yaml --json >/exchange/plan.json
python -m switchmark.cli.main plan /tmp/campaign.yaml
"""


@dataclass(frozen=True)
class Cpus:
    """As the guest's kernel has them."""

    siblings: dict[int, set[int]]
    nodes: list[set[int]]

    @classmethod
    def read(cls, folder: Path) -> Cpus:
        lines = [line.split() for line in (folder / "siblings").read_text().splitlines()]
        nodes = (folder / "nodes").read_text().splitlines()
        return cls(
            {int(cpu): set(parse_cpu_list(them)) for cpu, them in lines},
            [set(parse_cpu_list(line)) for line in nodes],
        )

    def check(self, asked: str, switch: set[int], applications: set[int]) -> None:
        """That placement is what was asked for."""
        assert switch and applications and not switch & applications
        used = switch | applications
        with_switch = [cpu for cpu in applications if self.siblings[cpu] & switch]
        assert len(with_switch) == (len(applications) if asked == "smt=siblings" else 0)
        if asked == "smt=avoid":
            assert not any(self.siblings[cpu] & used - {cpu} for cpu in used), used
        (of_switch,) = (n for n, node in enumerate(self.nodes) if switch <= node)
        there = applications & self.nodes[of_switch]
        if asked == "numa=other":
            assert not there
        elif asked == APART:  # what is outside, and what is beside the switch
            assert len(there) == len(applications - there) == 1
        elif asked in ("numa=same", "smt=siblings"):
            assert there == applications


def run(
    job: str,
    cores_a_socket: int,
    new_machine: Callable[..., Machine],
    keep: Callable[[Outcome], Outcome],
) -> tuple[Outcome, Cpus]:
    """What came of a job in such a guest, and its CPUs."""
    cpus = SOCKETS * cores_a_socket * 2
    guest = new_machine(
        processors=f"{cpus},sockets={SOCKETS},cores={cores_a_socket},threads=2",
        devices=nodes(cpus),
        # (The kernel believes in threads of emulated CPUs of this maker's only.)
        emulated_cpu="max,vendor=GenuineIntel",
    )
    outcome = keep(guest.run(TELL + job))
    outcome.check()
    found = Cpus.read(outcome.folder)
    assert len(found.siblings) == cpus and len(found.nodes) == SOCKETS
    assert all(len(them) == 2 for them in found.siblings.values()), found
    return outcome, found


def test_the_plan(new_machine: Callable[..., Machine], keep: Callable[[Outcome], Outcome]) -> None:
    outcome, cpus = run(PLAN, 2, new_machine, keep)
    for asked, placement in planned(outcome):
        cpus.check(asked, *cores_of(placement))
    assert "map of the cores" in outcome.output


def test_where_the_programs_of_trials_ran(
    new_machine: Callable[..., Machine], keep: Callable[[Outcome], Outcome]
) -> None:
    job = WATCH
    for asked in RUN:
        line = trial(f"{WHAT} --set {asked}" + (" --set scenario=p2v" if asked == APART else ""))
        job += f"watch {asked} &\nwatcher=$!\n{line} || true\nkill $watcher || true\n"
    outcome, cpus = run(job + "cp -r /tmp/results /exchange/\n", 2, new_machine, keep)
    for asked, record in zip(RUN, records(outcome, len(RUN)), strict=True):
        check_forwarded(record, "af-packet", "cross-connect")
        assert record.placement is not None
        placed = cores_of(record.placement.model_dump())
        cpus.check(asked, *placed)
        assert ran(outcome, asked) == placed, asked


def planned(outcome: Outcome) -> list[tuple[str, dict[str, Any]]]:
    """What was asked for, and the plan's placement of it."""
    plan = json.loads((outcome.folder / "plan.json").read_text())
    found = []
    for one in plan["placements"]:
        asked = [f"{key}={one[key]}" for key in ("smt", "numa") if one[key] != "auto"]
        found.append((asked[0] if asked else "auto", one["placement"]))
    assert sorted(asked for asked, _ in found) == sorted(ASKED)
    return found


def cores_of(placement: dict[str, Any]) -> tuple[set[int], set[int]]:
    """Of the switch, and of the applications."""
    applications = placement["application_cores"].values()
    return set(placement["switch_cores"]), {core for own in applications for core in own}


def ran(outcome: Outcome, asked: str) -> tuple[set[int], set[int]]:
    """Where switch and applications were allowed to run, as the kernel said meanwhile; not before
    they were put there."""
    switch: set[int] = set()
    applications: set[int] = set()
    for line in (outcome.folder / f"ran-{asked}").read_text().splitlines():
        allowed, _, words = line.partition(" ")
        cpus = set(parse_cpu_list(allowed))
        if len(cpus) == 1:
            (switch if " forwarder " in words else applications).update(cpus)
    return switch, applications
