"""SMT siblings and NUMA nodes: a guest has two sockets of two cores of two threads, a node each.
The plan is judged by what the guest's kernel says of its CPUs, and a trial by where they ran."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from switchmark.testbed.facts import parse_cpu_list
from tests.vm.conftest import check_forwarded, records, trial
from tests.vm.guest import MEMORY_MB, Machine, Outcome

NODES = tuple(
    word
    for node, cpus in ((0, "0-3"), (1, "4-7"))
    for word in (
        *("-object", f"memory-backend-ram,id=m{node},size={MEMORY_MB // 2}M"),
        *("-numa", f"node,nodeid={node},cpus={cpus},memdev=m{node}"),
    )
)
ASKED = ("auto", "smt=avoid", "smt=siblings", "numa=same", "numa=other")
CAMPAIGN = "switch: af-packet\nsweeps:\n  - {smt: [auto, avoid, siblings]}\n" + (
    "  - {numa: [same, other]}\n"
)
ENGINES = """\
watch() {
  while sleep 0.3; do
    for name in $(grep -ls switchmark-traf /proc/[0-9]*/comm); do
      words=$(tr '\0' ' ' <${name%comm}cmdline)
      grep -hs Cpus_allowed_list ${name%comm}task/*/status | while read -r key cpus; do
        echo "$cpus $words"
      done
    done
  done >>/exchange/ran 2>/dev/null
}
"""
JOB = f"""\
cd /sys/devices/system/cpu
for cpu in cpu[0-9]*; do
  echo "${{cpu#cpu}} $(cat $cpu/topology/thread_siblings_list)"
done >/exchange/siblings
cat /sys/devices/system/node/node[0-9]*/cpulist >/exchange/nodes
cd - >/dev/null
printf '{CAMPAIGN}' >/tmp/campaign.yaml
python -m switchmark.cli.main plan /tmp/campaign.yaml --json >/exchange/plan.json
python -m switchmark.cli.main plan /tmp/campaign.yaml
{ENGINES}
watch &
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
        if asked == "smt=siblings":
            assert all(self.siblings[cpu] & switch for cpu in applications), (asked, used)
        else:
            assert not any(self.siblings[cpu] & used - {cpu} for cpu in used), (asked, used)
        (of_switch,) = (n for n, node in enumerate(self.nodes) if switch <= node)
        there = applications & self.nodes[of_switch]
        if asked == "numa=other":
            assert not there
        elif asked in ("numa=same", "smt=siblings"):
            assert there == applications


@pytest.fixture
def outcome(new_machine: Callable[..., Machine], keep: Callable[[Outcome], Outcome]) -> Outcome:
    # (The kernel believes in threads of emulated CPUs of this maker's only.)
    guest = new_machine(
        processors="8,sockets=2,cores=2,threads=2",
        devices=NODES,
        emulated_cpu="max,vendor=GenuineIntel",
    )
    lines = "".join(
        f"echo {asked} >>/exchange/ran\n"
        f"{trial(f'af-packet --rate 200 --set idle=sleep --set {asked}')} || true\n"
        for asked in ("smt=siblings", "numa=other")
    )
    return keep(guest.run(f"{JOB}{lines}cp -r /tmp/results /exchange/\n"))


def test_the_plan_and_where_things_run(outcome: Outcome) -> None:
    outcome.check()
    cpus = Cpus.read(outcome.folder)
    assert len(cpus.siblings) == 8 and len(cpus.nodes) == 2
    assert all(len(them) == 2 for them in cpus.siblings.values()), cpus
    for asked, placement in planned(outcome):
        cpus.check(asked, *cores_of(placement))
    for asked, record in zip(("smt=siblings", "numa=other"), records(outcome, 2), strict=True):
        check_forwarded(record, "af-packet", "cross-connect")
        assert record.placement is not None
        switch, applications = cores_of(record.placement.model_dump())
        cpus.check(asked, switch, applications)
        assert ran(outcome, asked) == (switch, applications), asked


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
    """Where the programs of that trial were allowed to run, as the kernel said meanwhile; not
    before they were put there."""
    text = (outcome.folder / "ran").read_text()
    part = re.split(r"^(?:smt|numa)=\w+$", text.partition(f"{asked}\n")[2], flags=re.MULTILINE)[0]
    switch: set[int] = set()
    applications: set[int] = set()
    for line in part.splitlines():
        allowed, _, words = line.partition(" ")
        cpus = set(parse_cpu_list(allowed))
        if len(cpus) == 1:
            (switch if " forwarder " in words else applications).update(cpus)
    return switch, applications
