"""SMT siblings and NUMA nodes, in a guest with two sockets (a NUMA node each) and two threads a
core. The plan is compared with the CPUs that the guest's kernel reports, a trial with the cores
that its programs were allowed to use."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from switchmark.host.facts import parse_cpu_list
from tests.vm.conftest import check_forwarded, records, trial
from tests.vm.guest import MEMORY_MB, Machine, Outcome

SOCKETS = 2  # each with two threads a core, and a node


def nodes(cpus: int) -> tuple[str, ...]:
    """Return QEMU's options for nodes with half of the CPUs and of the memory each."""
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
WHAT = "af-packet --rate 200 --set idle=sleep"  # few frames, and no polling program
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
    """The CPUs as the guest's kernel reports them."""

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

    def check(self, request: str, switch: set[int], applications: set[int]) -> None:
        """Check that the placement is the requested one."""
        assert switch and applications and not switch & applications
        used = switch | applications
        with_switch = [cpu for cpu in applications if self.siblings[cpu] & switch]
        assert len(with_switch) == (len(applications) if request == "smt=siblings" else 0)
        if request == "smt=avoid":
            assert not any(self.siblings[cpu] & used - {cpu} for cpu in used), used
        (of_switch,) = (n for n, node in enumerate(self.nodes) if switch <= node)
        near_applications = applications & self.nodes[of_switch]
        if request == "numa=other":
            assert not near_applications
        elif request == APART:  # applications outside and beside the switch's node
            assert len(near_applications) == len(applications - near_applications) == 1
        elif request in ("numa=same", "smt=siblings"):
            assert near_applications == applications


def run(
    job: str,
    cores_a_socket: int,
    new_machine: Callable[..., Machine],
    keep: Callable[[Outcome], Outcome],
) -> tuple[Outcome, Cpus]:
    """Run a job in such a guest; return the outcome and its CPUs."""
    cpus = SOCKETS * cores_a_socket * 2
    guest = new_machine(
        processors=f"{cpus},sockets={SOCKETS},cores={cores_a_socket},threads=2",
        devices=nodes(cpus),
        # The kernel accepts threads of emulated CPUs of this vendor only.
        emulated_cpu="max,vendor=GenuineIntel",
    )
    outcome = keep(guest.run(TELL + job))
    outcome.check()
    found = Cpus.read(outcome.folder)
    assert len(found.siblings) == cpus and len(found.nodes) == SOCKETS
    assert all(len(them) == 2 for them in found.siblings.values()), found
    return outcome, found


def test_plan_places_by_topology(
    new_machine: Callable[..., Machine], keep: Callable[[Outcome], Outcome]
) -> None:
    outcome, cpus = run(PLAN, 2, new_machine, keep)
    for request, placement in planned(outcome):
        cpus.check(request, *cores_of(placement))
    assert "map of the cores" in outcome.output


def test_programs_of_trials_run_on_planned_cores(
    new_machine: Callable[..., Machine], keep: Callable[[Outcome], Outcome]
) -> None:
    job = WATCH
    for request in RUN:
        line = trial(
            f"{WHAT} --set {request}" + (" --set scenario=p2v" if request == APART else "")
        )
        job += f"watch {request} &\nwatcher=$!\n{line} || true\nkill $watcher || true\n"
    outcome, cpus = run(job + "cp -r /tmp/results /exchange/\n", 2, new_machine, keep)
    for request, record in zip(RUN, records(outcome, len(RUN)), strict=True):
        check_forwarded(record, "af-packet", "cross-connect")
        assert record.placement is not None
        placed = cores_of(record.placement.model_dump())
        cpus.check(request, *placed)
        assert ran(outcome, request) == placed, request


def planned(outcome: Outcome) -> list[tuple[str, dict[str, Any]]]:
    """Return each request with the plan's placement."""
    plan = json.loads((outcome.folder / "plan.json").read_text())
    found = []
    for plan_entry in plan["placements"]:
        request = [
            f"{key}={plan_entry[key]}" for key in ("smt", "numa") if plan_entry[key] != "auto"
        ]
        found.append((request[0] if request else "auto", plan_entry["placement"]))
    assert sorted(request for request, _ in found) == sorted(ASKED)
    return found


def cores_of(placement: dict[str, Any]) -> tuple[set[int], set[int]]:
    """Return the cores of the switch and of the applications."""
    applications = placement["application_cores"].values()
    return set(placement["switch_cores"]), {core for own in applications for core in own}


def ran(outcome: Outcome, request: str) -> tuple[set[int], set[int]]:
    """Return the cores that switch and applications were allowed to use, as the kernel reported
    after their placement."""
    switch: set[int] = set()
    applications: set[int] = set()
    for line in (outcome.folder / f"ran-{request}").read_text().splitlines():
        allowed, _, command = line.partition(" ")
        cpus = set(parse_cpu_list(allowed))
        if len(cpus) == 1:
            (switch if " forwarder " in command else applications).update(cpus)
    return switch, applications
