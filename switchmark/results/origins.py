"""The origins of the records of a run: the versions of switch, bench and engine, and the machine.

They complement the table of figures (query.py), which has parameters and results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import duckdb

from switchmark.results.machine_id import MachineId
from switchmark.results.query import as_utf8, connect
from switchmark.results.run_directory import Run

_PLACES = {
    "trial_id": "/trial_id",
    "version": "/switch_details/version",
    "switchmark": "/provenance/switchmark",
    "program": "/switch_details/program_build_id",
    "program_sha256": "/switch_details/program_sha256",
    "library": "/switch_details/dpdk_library_build_id",
    "engine": "/engines/0/ready/engine_version",
    "engine_build": "/engines/0/ready/build",
    "engine_build_b": "/engines/1/ready/build",
    "testbed": "/provenance/testbed",
    "hostname": "/provenance/hostname",
    "architecture": "/provenance/architecture",
    "cpu_model": "/provenance/cpu_model",
    "cpus": "/provenance/cpus",
}
_FILES = 2048  # for each query


@dataclass(frozen=True, slots=True)
class Origin:
    """The versions and the machine of one record; an unknown version is empty."""

    version: str  # version that the switch reports
    machine: MachineId
    switchmark: str = ""  # version of the bench with the revision of its sources
    engine: str = ""
    engine_build: str = ""  # description of its build; empty: unknown
    program_build: str = ""  # build IDs of the switch program and of its DPDK library


def build_in_words(*builds: str | None) -> str:
    """Return a description of the builds of a trial's engines, from the JSON texts of their `ready`
    lines. It has the options that distinguish builds of one revision, but not the build ID, which
    differs between revisions."""
    descriptions: dict[str, None] = {}
    for text in builds:
        with suppress(ValueError, KeyError, TypeError):
            build = json.loads(text or "")
            parts = [build["compiler"], f"-O{build['optimisation']}", build["cpu"] or "any CPU"]
            parts += [str(build[name]) for name in ("options",) if build[name]]
            parts += [f"sanitizers {build['sanitizers']}"] if build["sanitizers"] else []
            parts += ["coverage"] if build["coverage"] else []
            parts += [f"DPDK {build['dpdk']}"] if build["dpdk"] else []
            descriptions[" ".join(parts)] = None
    return "; ".join(sorted(descriptions))


def read_origins(run: Run) -> dict[str, Origin]:
    """Return the origins of a run's records by trial id. Files that are not records are left out;
    the table of figures names them."""
    names = [as_utf8(name) for name in run.file_names()]
    places = ", ".join(f"'{place}'" for place in _PLACES.values())
    sql = f"""
        SELECT json_extract_string(CASE WHEN json_valid(content) THEN content END, [{places}])
        FROM read_text($paths)
    """
    origins: dict[str, Origin] = {}
    with connect() as connection:
        for begin in range(0, len(names), _FILES):
            try:
                rows = connection.execute(sql, {"paths": names[begin : begin + _FILES]}).fetchall()
            except duckdb.InvalidInputException:  # a file that is not text
                rows = []
            for (texts,) in rows:
                pairs = zip(_PLACES, texts or (), strict=False)
                facts = {name: text for name, text in pairs if text}
                if "trial_id" in facts:
                    origins[facts["trial_id"]] = _origin(facts, run.info.host)
    return origins


def _origin(facts: dict[str, Any], host: Mapping[str, Any]) -> Origin:
    with suppress(ValueError):  # a record may have any text there
        facts["cpus"] = json.loads(facts.get("cpus", ""))
    return Origin(
        facts.get("version", ""),
        MachineId.of(facts, host),
        facts.get("switchmark", ""),
        facts.get("engine", ""),
        build_in_words(facts.get("engine_build"), facts.get("engine_build_b")),
        _build_of_switch(facts),
    )


def _build_of_switch(facts: Mapping[str, Any]) -> str:
    program = facts.get("program") or facts.get("program_sha256")
    return " ".join(filter(None, (program, facts.get("library"))))
