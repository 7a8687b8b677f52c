"""Where the records of a run come from: the versions of switch, bench and engine, and the machine.

These stand beside the table of figures (query.py), which has what was asked and found.
"""

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
_FILES = 2048  # at once


@dataclass(frozen=True, slots=True)
class Origin:
    """The versions and the machine of one record; a version is empty where none is told."""

    version: str  # of the switch, as it says it
    machine: MachineId
    switchmark: str = ""  # of the bench, with the revision of its sources
    engine: str = ""
    engine_build: str = ""  # how it was built, in words; empty: its record does not say
    program_build: str = ""  # of the switch's program, and of the DPDK library that it loads


def build_in_words(*builds: str | None) -> str:
    """How the engines of a trial were built, from the JSON texts of their `ready` lines: all that
    makes builds of one revision differ, and no build ID, which differs from revision to revision.
    """
    told: dict[str, None] = {}
    for text in builds:
        with suppress(ValueError, KeyError, TypeError):
            found = json.loads(text or "")
            words = [found["compiler"], f"-O{found['optimisation']}", found["cpu"] or "any CPU"]
            words += [str(found[name]) for name in ("options",) if found[name]]
            words += [f"sanitizers {found['sanitizers']}"] if found["sanitizers"] else []
            words += ["coverage"] if found["coverage"] else []
            words += [f"DPDK {found['dpdk']}"] if found["dpdk"] else []
            told[" ".join(words)] = None
    return "; ".join(sorted(told))


def read_origins(run: Run) -> dict[str, Origin]:
    """The origins of a run's records by their trials' ids. Files that are no records are left out;
    the table of figures names them."""
    names = [as_utf8(name) for name in run.file_names()]
    places = ", ".join(f"'{place}'" for place in _PLACES.values())
    sql = f"""
        SELECT json_extract_string(CASE WHEN json_valid(content) THEN content END, [{places}])
        FROM read_text($paths)
    """
    found: dict[str, Origin] = {}
    with connect() as connection:
        for begin in range(0, len(names), _FILES):
            try:
                rows = connection.execute(sql, {"paths": names[begin : begin + _FILES]}).fetchall()
            except duckdb.InvalidInputException:  # a file that is no text
                rows = []
            for (texts,) in rows:
                held = zip(_PLACES, texts or (), strict=False)
                facts = {name: text for name, text in held if text}
                if "trial_id" in facts:
                    found[facts["trial_id"]] = _origin(facts, run.info.host)
    return found


def _origin(facts: dict[str, Any], host: Mapping[str, Any]) -> Origin:
    with suppress(ValueError):  # a record may say anything there
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
