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

from switchmark.campaign.model import WIRE, Dimension, Method
from switchmark.campaign.possible import bare_cable_problem
from switchmark.environment.engine_binary import engine_version, find_engine
from switchmark.errors import SwitchmarkError, UnavailableError
from switchmark.method.arguments import resolve_io
from switchmark.method.judge import Baseline
from switchmark.method.trial import TrialPlan
from switchmark.results.record import Record
from switchmark.scenario.registry import without_vnfs
from switchmark.testbed.facts import gather
from switchmark.testbed.state import cache_dir

WIRE_ENVIRONMENT = "netns"  # where wire ends live: apart from the host, and from containers
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
        with suppress(OSError, ValueError, KeyError, TypeError, SwitchmarkError):
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
        with suppress(OSError, KeyError, SwitchmarkError):
            self._path(plan).unlink()

    def _path(self, plan: TrialPlan) -> Path:
        text = json.dumps([dict(self.machine), point_of(plan)], sort_keys=True)
        return self.directory / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def over_cable(plan: TrialPlan) -> bool:
    """Whether the bare wire of a trial is the cable between its two hosts."""
    if plan.far is None:
        return False
    io = resolve_io(plan.trial.io, plan.port_kind)
    return bare_cable_problem(len(plan.topology.paths), io) is None


def point_of(plan: TrialPlan) -> dict[str, Any]:
    """Of a trial, what a ceiling (or a floor) depends on; the switch is not in it. Raises
    SwitchmarkError and KeyError where another host is in it that is not reached."""
    trial = plan.trial
    latency = trial.dimension is Dimension.LATENCY
    point = {
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
    if plan.far is None or not over_cable(plan):
        return point
    cable, there = plan.far.site.testbed.cable, plan.far.placement or plan.far.place()
    return point | {
        "environment": WIRE_ENVIRONMENT if trial.environment == "bare" else trial.environment,
        "scenario": without_vnfs(trial.scenario),
        "port_kind": "cable",  # of the interfaces, whatever ports nodes have behind a switch
        "cable": [cable.near, cable.far],
        "far_machine": machine_facts(plan.far.site.facts),
        "far_cores": there.application_cores,
        "far_idle": there.idle,
    }


def machine_facts(facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Of a machine (this one, or that of these facts), what its figures depend on."""
    seen = asdict(gather()) if facts is None else facts
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
    if record.trial.switch != WIRE or verdict is None or not verdict.valid:
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
