"""`switchmark doctor`: the switches that this machine can measure, and remedies for the others.

It reads facts of the machine and tries operations; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from switchmark.cli import doctor_lines
from switchmark.cli.options import seconds_of
from switchmark.cli.output import Line, Tone, print_json, print_lines
from switchmark.engine.binary import build_problem, engine_version, find_engine
from switchmark.environment.qemu import kvm_here
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.errors import UnavailableError
from switchmark.host import facts, place
from switchmark.host.cores.watch import MachineWatch, watch_machine
from switchmark.host.diagnosis import Finding, Level, diagnose
from switchmark.host.facts import Facts
from switchmark.host.limits_diagnosis import diagnose_limits
from switchmark.host.local import LocalHost
from switchmark.host.place import Facility, Kind, PlaceLimits
from switchmark.host.watch_findings import findings
from switchmark.instrument.registry import INSTRUMENTS
from switchmark.instrument.support import nginx
from switchmark.model.capabilities import (
    Availability,
    available,
    refused,
    unavailable,
    unavailable_for,
)
from switchmark.model.choices import WIRE
from switchmark.results.proving import usual_time_to_prove_s
from switchmark.statistics.defaults import PROVE
from switchmark.switch.registry import SWITCHES
from switchmark.switch.support.applications import without_dpdk
from switchmark.switch.support.base import Switch
from switchmark.trial.place_needs import no_room_to_poll

LONGEST_WATCH_S = 3600.0
_CONTINUED = 8  # spaces before a line that continues a finding
_TONES = {
    f"  {Level.POOR}": Tone.CAUTION,
    "nothing can be measured": Tone.FAILED,
    "can be measured here": Tone.HEADING,
    "cannot be measured here": Tone.HEADING,
}
EPILOG = """
Examples:
  switchmark doctor
  switchmark doctor --watch 30s     watch longer
  switchmark doctor --watch 0       do not watch
  switchmark doctor --json | jq .switches

Exit codes:
  0    switches can be measured here
  3    no switch can be measured; the last line gives the reason
"""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that doctor reports, as JSON has it."""

    able: bool  # at least one switch can be measured
    verdict: str
    switches: dict[str, Availability]
    environments: dict[str, Availability]
    programs: dict[str, Availability]
    generators: dict[str, Availability]  # optional programs that make traffic
    place: Kind  # in words: root, an ordinary user, an ordinary container
    facilities: dict[Facility, Availability]  # operations of this system, tried out
    limits: PlaceLimits
    machine: list[Finding]
    watch: MachineWatch | None  # None: not asked for
    watched: list[Finding]
    time_to_prove_s: float | None  # None: more than usual, or not watched
    facts: Facts
    tools: dict[str, str]


def command(
    watch: Annotated[
        str,
        typer.Option(
            "--watch", metavar="TIME", help="How long to watch the machine; 0: not at all."
        ),
    ] = "5s",
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with all facts.")] = False,
) -> int:
    """Print what this machine can measure, what it cannot, and the remedies.

    The command lists each switch with its version, or with the reason why it cannot run, then the
    environments, cores, clock, memory and hugepages. Afterwards it watches the machine for some
    seconds and estimates how long it takes to prove a difference here. It changes nothing.
    """
    diagnosis = examine(seconds_of("--watch", watch, 0.0, LONGEST_WATCH_S))
    if json:
        print_json(diagnosis)
    else:
        _tell(diagnosis)
    return 0 if diagnosis.able else UnavailableError.exit_code


def examine(watch_s: float = 0.0) -> Diagnosis:
    """Read the machine's facts, and watch it for so long."""
    limits = place.limits()
    instances = {name: make() for name, make in SWITCHES.items()}
    contenders = {name: one for name, one in instances.items() if not one.capabilities.known_truth}
    environments = {name: make().availability() for name, make in ENVIRONMENTS.items()}
    switches = {name: _somewhere(one, environments, limits) for name, one in contenders.items()}
    programs = {
        "traffic engine": _engine(), "KVM": kvm_here(),
    }  # fmt: skip
    machine_facts = facts.gather()
    able, verdict = judge(switches, environments, programs)
    watched = _watched(machine_facts, watch_s) if watch_s > 0 else None
    dwell_s = watched.lines.dwell_s if watched and watched.lines else None
    proof_s = usual_time_to_prove_s(dwell_s) if watched else None
    return Diagnosis(
        able=able,
        verdict=verdict,
        switches=switches,
        environments=environments,
        programs=programs,
        generators=_generators(),
        place=place.kind(),
        facilities=place.try_all(),
        limits=limits,
        machine=[*diagnose(machine_facts), *diagnose_limits(limits, place.kind())],
        watch=watched,
        watched=findings(watched, PROVE, proof_s) if watched else [],
        time_to_prove_s=proof_s,
        facts=machine_facts,
        tools=facts.tool_versions(),
    )


def _somewhere(
    switch: Switch, environments: Mapping[str, Availability], limits: PlaceLimits
) -> Availability:
    """Return whether a switch can run on the CPUs of this place, with its ports in an available
    environment."""
    found = switch.availability()
    if found.available:
        needs = switch.capabilities
        found = without_dpdk(needs) or no_room_to_poll(needs, limits) or found
    kinds = switch.capabilities.port_kinds
    offering = [name for name, make in ENVIRONMENTS.items() if set(make().port_kinds()) & {*kinds}]
    if not found.available or any(environments[name].available for name in offering):
        return found
    if not offering:
        return found
    why = environments[offering[0]]
    return unavailable(
        f"no environment with its ports ({', '.join(kinds)}) can run here: {why.reason}",
        why.remedy, why.instead,
    )  # fmt: skip


def _watched(machine_facts: Facts, watch_s: float) -> MachineWatch:
    engine: Path | None = None
    with suppress(UnavailableError):
        engine = find_engine()
    return watch_machine(LocalHost(), engine, machine_facts.usable_cpus, watch_s)


def judge(
    switches: dict[str, Availability],
    environments: dict[str, Availability],
    programs: dict[str, Availability],
) -> tuple[bool, str]:
    """Return True if a switch can be measured, and a sentence with the switches or the reason."""
    if not programs["traffic engine"].available:
        return False, f"nothing can be measured: {programs['traffic engine'].reason}"
    if not any(availability.available for availability in environments.values()):
        return False, "nothing can be measured: no environment for applications is available"
    ready = [
        name for name, availability in switches.items() if availability.available and name != WIRE
    ]
    missing = [name for name, availability in switches.items() if not availability.available]
    if not ready:
        return False, "nothing can be measured: no switch is available"
    text = f"this machine can measure {', '.join(ready)}"
    return True, text + (f"; not {', '.join(missing)}" if missing else "")


def _generators() -> dict[str, Availability]:
    """The optional programs that make traffic, and the web server of workload `http`."""
    foreign = {name: INSTRUMENTS[name]().availability() for name in INSTRUMENTS}
    return dict(sorted({**foreign, nginx.NAME: nginx.availability()}.items()))


def _engine() -> Availability:
    try:
        path = find_engine()
    except UnavailableError as error:
        return unavailable_for(error)
    if (problem := build_problem(path)) is not None:
        return refused(problem)
    return available(f"{engine_version(path) or 'version unknown'} ({path})")


def _tell(diagnosis: Diagnosis) -> None:
    machine, found = diagnosis.facts, diagnosis
    title = f"machine: {machine.cpu_model}, {machine.distribution}, Linux {machine.kernel}"
    lines = [
        *doctor_lines.place_lines(found.place, found.switches, found.environments),
        *doctor_lines.facility_lines(
            found.place, found.facilities, found.switches | found.environments
        ),
        *doctor_lines.program_lines(found.programs),
        *doctor_lines.generator_lines(found.generators),
        *doctor_lines.machine_lines(title, found.machine),
    ]
    if found.watch is not None:
        watched = doctor_lines.watched_title(found.watch.watched_s)
        lines += doctor_lines.machine_lines(watched, found.watched)
    lines += doctor_lines.verdict_lines(found.verdict)
    tone = Tone.PLAIN
    shown = []
    for line in lines:
        if not line.startswith(" " * _CONTINUED):
            tone = next(
                (tone for start, tone in _TONES.items() if line.startswith(start)), Tone.PLAIN
            )
        shown.append(Line(line, tone))
    print_lines(shown)
