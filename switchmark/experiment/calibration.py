"""Stored baselines of this machine: highest rates and shortest times without a switch.

The result of each valid baseline trial is stored together with everything that it depends on: the
machine (CPU model, microcode, kernel, governor, build of the engine), the cores, and the load that
it shares with trials (model/parameter_table.py). A campaign that measures no baseline uses the
stored one. If one of these values differs, no stored baseline applies, and the result has a mark.
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

# Parameters that the placement has decided. The point contains the cores that applications use.
_PLACED = {"idle", *(one.field for one in of_kinds(Kind.CORES))}
LARGEST_BYTES = 1 << 20  # limit of the size of a file, which is usually some kilobytes
_BASELINE = TypeAdapter(Baseline)
UNFIT_MARKS = frozenset({"disturbed", "unstable", "short-window", "two-bands"})


@dataclass(frozen=True, slots=True)
class Calibrations:
    """The stored baselines of one machine. `directory` has a small JSON file for each point."""

    directory: Path
    machine: Mapping[str, Any]

    @classmethod
    def of_this_machine(cls) -> Calibrations:
        """Return this user's calibrations of this machine (in `SWITCHMARK_CACHE_DIR`)."""
        return cls(cache_dir() / "calibration", machine_facts())

    def find(self, plan: TrialPlan) -> Baseline:
        """Return the baseline at this trial's point; empty if it is unknown."""
        with suppress(OSError, ValueError, KeyError, SwitchmarkError):
            text = read_trusted(self._path(plan), LARGEST_BYTES)
            return parse_baseline(text, self.machine, point_of(plan))
        return Baseline()

    def keep(self, plan: TrialPlan, record: Record) -> bool:
        """Store the figure of a baseline trial. Return True if it is fit to judge others."""
        baseline = _figure(plan, record)
        if baseline is None:
            return False
        baseline = replace(baseline, source=f"calibration of {record.started_at[:19]}Z")
        document = {
            "machine": dict(self.machine),
            "point": point_of(plan),
            "baseline": asdict(baseline),
            "trial_id": record.trial_id,
            "run_id": record.run_id,
        }
        try:
            keep_file(self._path(plan), json.dumps(document, indent=1))
        except OSError:
            return False  # a full disk must not end the trial
        return True

    def forget(self, plan: TrialPlan) -> None:
        """Delete the stored baseline of this point."""
        with suppress(OSError, KeyError, SwitchmarkError):
            self._path(plan).unlink()

    def _path(self, plan: TrialPlan) -> Path:
        text = json.dumps([dict(self.machine), point_of(plan)], sort_keys=True)
        return self.directory / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def keep_file(path: Path, text: str) -> None:
    """Write a file atomically, such that `read_trusted` accepts it. Raise OSError if it cannot be
    written."""
    make_folder(path.parent)
    write_atomically(path, f"{text}\n", 0o644)


def parse_baseline(
    text: str | bytes, machine: Mapping[str, Any], point: Mapping[str, Any]
) -> Baseline:
    """Return the baseline of a stored file; empty if the file is invalid, or belongs to another
    machine or point."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        document = json.loads(text, parse_constant=refuse_constant)
        if document["machine"] == dict(machine) and document["point"] == dict(point):
            return _BASELINE.validate_python(document["baseline"])
    return Baseline()


def point_of(plan: TrialPlan) -> dict[str, Any]:
    """Return the parameters of a trial that its baseline depends on.

    Raise SwitchmarkError or KeyError if it needs another host that cannot be reached."""
    load = {field: value for field, value in load_at(plan).items() if field not in _PLACED}
    point = load | {
        "idle": plan.placement.idle,
        "application_cores": plan.placement.application_cores,
        "catch_up_us": plan.placement.catch_up_us,
        "page_size": ends_kib(plan),
    }
    if plan.far is None or not over_cable(plan):
        return point
    cable, remote = plan.far.site.testbed.cable, plan.far.place()
    return point | {
        "port_kind": "cable",  # replaces the port kind of nodes behind a switch
        "cable": [cable.near, cable.far],
        "far_machine": machine_facts(plan.far.site.facts),
        "far_cores": remote.application_cores,
        "far_idle": remote.idle,
    }


def machine_facts(facts: Facts | None = None) -> dict[str, Any]:
    """Return the facts that the figures of a machine depend on. The default is this machine."""
    known = asdict(gather() if facts is None else facts)
    return {
        "cpu_model": known["cpu_model"],
        "microcode": known["microcode"],
        "kernel": f"{known['kernel']} {known['kernel_build']}",
        "governor": known["governor"],
        "turbo": known["turbo"],
        "smt": known["smt_active"],
        "cores": list(known["usable_cpus"]),
        "engine": _engine_build(),
    }


@lru_cache(maxsize=1)
def _engine_build() -> str | None:
    """Return the engine's version and its digest, since builds of a version differ in speed."""
    try:
        engine = find_engine()
    except UnavailableError:
        return None
    return f"{engine_version(engine)} {digest(engine)[:12]}"


def _figure(plan: TrialPlan, record: Record) -> Baseline | None:
    """Return the baseline that a record shows; None if it is not fit to judge others."""
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
