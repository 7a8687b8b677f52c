"""What the bare wire gave on this very machine, kept between runs: ceilings and floors.

Every valid bare-wire trial is kept, under everything it depends on: the machine (CPU model,
microcode, kernel, governor, the engine's own build) and the point (I/O, port kind, environment,
cores, frame size, ...). A campaign that measures no baseline of its own is judged by what is
kept; when anything of that differs, there is nothing to judge by, and the result says so.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from switchmark.campaign.model import Dimension, Method
from switchmark.environment.engine_binary import engine_version, find_engine
from switchmark.errors import UnavailableError
from switchmark.method.arguments import resolve_io
from switchmark.method.judge import Baseline
from switchmark.method.trial import TrialPlan
from switchmark.results.record import Record
from switchmark.testbed.facts import gather
from switchmark.testbed.state import cache_dir

UNFIT_MARKS = frozenset({"disturbed", "unstable", "short-window", "two-bands"})


@dataclass(frozen=True, slots=True)
class Calibrations:
    """The kept figures of one machine; `directory` holds a small JSON file for each point."""

    directory: Path
    machine: Mapping[str, Any]

    @classmethod
    def of_this_machine(cls) -> Calibrations:
        """Where this user's are kept (`SWITCHMARK_CACHE_DIR`)."""
        return cls(cache_dir() / "calibration", machine_facts())

    def find(self, plan: TrialPlan) -> Baseline:
        """What the bare wire gave at this trial's point; empty when that is not known."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            held = json.loads(self._path(plan).read_text())
            if held["machine"] == dict(self.machine) and held["point"] == point_of(plan):
                return Baseline(**held["baseline"])
        return Baseline()

    def keep(self, plan: TrialPlan, record: Record) -> bool:
        """Keep a bare-wire trial's figure, if it is one to judge others by."""
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
        path = self._path(plan)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(document, indent=1) + "\n")
            temporary.replace(path)
        except OSError:
            return False  # no place to keep it is no reason to lose a trial
        return True

    def forget(self, plan: TrialPlan) -> None:
        """Drop what is kept of this point."""
        with suppress(OSError):
            self._path(plan).unlink()

    def _path(self, plan: TrialPlan) -> Path:
        text = json.dumps([dict(self.machine), point_of(plan)], sort_keys=True)
        return self.directory / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def point_of(plan: TrialPlan) -> dict[str, Any]:
    """Of a trial, what a ceiling (or a floor) depends on; the switch is not in it."""
    trial = plan.trial
    latency = trial.dimension is Dimension.LATENCY
    return {
        "dimension": trial.dimension.value,
        "environment": plan.environment.name,
        "scenario": trial.scenario,
        "port_kind": plan.port_kind.value,
        "io": resolve_io(trial.io, plan.port_kind).value,
        "pairs": trial.pairs,
        "packet_size_bytes": trial.packet_size_bytes,
        "burst": trial.burst,
        "touch": trial.touch,
        "ring": trial.ring,
        "idle": plan.placement.idle,
        "application_cores": plan.placement.application_cores,
        "catch_up_us": plan.placement.catch_up_us,
        "rate_pps": trial.rate_pps if latency else None,  # a ceiling is that of saturation
    }


def machine_facts() -> dict[str, Any]:
    """Of a machine, what its figures depend on."""
    facts = gather()
    return {
        "cpu_model": facts.cpu_model,
        "microcode": facts.microcode,
        "kernel": f"{facts.kernel} {facts.kernel_build}",
        "governor": facts.governor,
        "turbo": facts.turbo,
        "smt": facts.smt_active,
        "cores": list(facts.usable_cpus),
        "engine": _engine_build(),
    }


@lru_cache(maxsize=1)
def _engine_build() -> str | None:
    """Its version and the digest of the program: builds of one version differ in speed."""
    try:
        engine = find_engine()
    except UnavailableError:
        return None
    digest = hashlib.sha256(engine.read_bytes()).hexdigest()[:12]
    return f"{engine_version(engine)} {digest}"


def _figure(plan: TrialPlan, record: Record) -> Baseline | None:
    """The ceiling or floor that a record of the bare wire shows; None when it shows none."""
    verdict = record.verdict
    if record.trial.switch != "direct" or verdict is None or not verdict.valid:
        return None
    if UNFIT_MARKS & set(verdict.marks):
        return None
    cost = record.cpu.ns_per_frame if record.cpu else None
    if plan.trial.method is Method.CALIBRATE and record.method is not None:
        ceiling = record.method.figure("ceiling")
        return Baseline(forwarded_pps=ceiling.value, ns_per_frame=cost) if ceiling else None
    if record.throughput is not None and plan.trial.rate_pps is None:
        return Baseline(forwarded_pps=record.throughput.forwarded_pps, ns_per_frame=cost)
    if record.latency is not None:
        median = record.latency.percentiles_ns["50"]
        return Baseline(rtt_median_ns=median, ns_per_frame=cost)
    return None
