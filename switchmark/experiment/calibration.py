"""Ceilings and floors of the bare wire on this very machine, kept between runs.

Every valid bare-wire trial is kept, under everything it depends on: the machine (CPU model,
microcode, kernel, governor, the engine's own build) and the load that the wire shares with a trial
(model/parameter_table.py), on the same cores. A campaign that measures no baseline is judged by the
kept ceiling. If one of these values differs, no ceiling applies, and the result says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from switchmark.atomic_files import write_atomically
from switchmark.engine.binary import engine_version, find_engine
from switchmark.errors import SwitchmarkError, UnavailableError
from switchmark.experiment.wire import load_at
from switchmark.host.facts import Facts, gather
from switchmark.host.process_output import refuse_constant
from switchmark.host.programs import digest
from switchmark.host.state import cache_dir, make_folder, read_trusted
from switchmark.method import calibrate
from switchmark.model.choices import WIRE
from switchmark.model.parameter_table import of_kinds
from switchmark.model.parameter_type import Kind
from switchmark.record import Record
from switchmark.trial.evidence import Baseline
from switchmark.trial.page_size import ends_kib
from switchmark.trial.plan import TrialPlan
from switchmark.trial.wire import over_cable

# Placement has decided these: where applications run counts, not what was asked.
_PLACED = {"idle", *(one.field for one in of_kinds(Kind.CORES))}
LARGEST_BYTES = 1 << 20  # limit of a file, which usually has some kilobytes
_BASELINE = TypeAdapter(Baseline)
UNFIT_MARKS = frozenset({"disturbed", "unstable", "short-window", "two-bands"})


@dataclass(frozen=True, slots=True)
class Calibrations:
    """The kept figures of one machine; `directory` holds a small JSON file for each point."""

    directory: Path
    machine: Mapping[str, Any]

    @classmethod
    def of_this_machine(cls) -> Calibrations:
        """This user's calibrations of this machine (in `SWITCHMARK_CACHE_DIR`)."""
        return cls(cache_dir() / "calibration", machine_facts())

    def find(self, plan: TrialPlan) -> Baseline:
        """The bare wire's result at this trial's point; empty when it is not known."""
        with suppress(OSError, ValueError, KeyError, SwitchmarkError):
            held = read_trusted(self._path(plan), LARGEST_BYTES)
            return believed(held, self.machine, point_of(plan))
        return Baseline()

    def keep(self, plan: TrialPlan, record: Record) -> bool:
        """Keep a bare-wire trial's figure, if others can be judged by it."""
        found = _figure(plan, record)
        if found is None:
            return False
        kept = replace(found, source=f"calibration of {record.started_at[:19]}Z")
        document = {
            "machine": dict(self.machine),
            "point": point_of(plan),
            "baseline": asdict(kept),
            "trial_id": record.trial_id,
            "run_id": record.run_id,
        }
        try:
            keep_file(self._path(plan), json.dumps(document, indent=1))
        except OSError:
            return False  # a full disk must not end the trial
        return True

    def forget(self, plan: TrialPlan) -> None:
        """Drop what is kept of this point."""
        with suppress(OSError, KeyError, SwitchmarkError):
            self._path(plan).unlink()

    def _path(self, plan: TrialPlan) -> Path:
        text = json.dumps([dict(self.machine), point_of(plan)], sort_keys=True)
        return self.directory / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def keep_file(path: Path, text: str) -> None:
    """Write a file that `read_trusted` believes later, whole or not at all. Raises OSError."""
    make_folder(path.parent)
    write_atomically(path, f"{text}\n", 0o644)


def believed(text: str | bytes, machine: Mapping[str, Any], point: Mapping[str, Any]) -> Baseline:
    """The figure of a kept file, if it is of this machine and this point, and has its form; else an
    empty one."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        held = json.loads(text, parse_constant=refuse_constant)
        if held["machine"] == dict(machine) and held["point"] == dict(point):
            return _BASELINE.validate_python(held["baseline"])
    return Baseline()


def point_of(plan: TrialPlan) -> dict[str, Any]:
    """Everything in a trial that a ceiling (or a floor) depends on, without the switch.

    Raises SwitchmarkError and KeyError where it takes another host that cannot be reached."""
    load = {field: value for field, value in load_at(plan).items() if field not in _PLACED}
    point = load | {
        "idle": plan.placement.idle,
        "application_cores": plan.placement.application_cores,
        "catch_up_us": plan.placement.catch_up_us,
        "page_size": ends_kib(plan),
    }
    if plan.far is None or not over_cable(plan):
        return point
    cable, there = plan.far.site.testbed.cable, plan.far.place()
    return point | {
        "port_kind": "cable",  # of the interfaces, whatever ports nodes have behind a switch
        "cable": [cable.near, cable.far],
        "far_machine": machine_facts(plan.far.site.facts),
        "far_cores": there.application_cores,
        "far_idle": there.idle,
    }


def machine_facts(facts: Facts | None = None) -> dict[str, Any]:
    """The facts of a machine that its figures depend on: of this one, or of the one with these
    facts."""
    seen = asdict(gather() if facts is None else facts)
    return {
        "cpu_model": seen["cpu_model"],
        "microcode": seen["microcode"],
        "kernel": f"{seen['kernel']} {seen['kernel_build']}",
        "governor": seen["governor"],
        "turbo": seen["turbo"],
        "smt": seen["smt_active"],
        "cores": list(seen["usable_cpus"]),
        "engine": _engine_build(),
    }


@lru_cache(maxsize=1)
def _engine_build() -> str | None:
    """The engine's version and its program's digest: builds of one version differ in speed."""
    try:
        engine = find_engine()
    except UnavailableError:
        return None
    return f"{engine_version(engine)} {digest(engine)[:12]}"


def _figure(plan: TrialPlan, record: Record) -> Baseline | None:
    """The ceiling or floor that a record of the bare wire shows; None when it shows none."""
    verdict = record.verdict
    if record.trial.switch != WIRE or verdict is None or not verdict.valid:
        return None
    if UNFIT_MARKS & set(verdict.marks):
        return None
    cost = record.cpu.ns_per_frame if record.cpu else None
    if plan.trial.method == calibrate.METHOD.name and record.method is not None:
        ceiling = record.method.figure(calibrate.CEILING)
        return Baseline(forwarded_pps=ceiling.value, ns_per_frame=cost) if ceiling else None
    saturating = plan.trial.rate_pps is None and not plan.trial.schedule.has_own_rate
    if record.latency is not None:
        median = record.latency.percentiles_ns["50"]
        return Baseline(rtt_median_ns=median, ns_per_frame=cost)
    loads, transfer = record.throughput, record.transfer
    if not saturating or (loads is None and transfer is None):
        return None
    return Baseline(
        forwarded_pps=loads.forwarded_pps if loads is not None else None,
        transfer_per_s=transfer.completed_per_s if transfer is not None else None,
        ns_per_frame=cost,
    )
