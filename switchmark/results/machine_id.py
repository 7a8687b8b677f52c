"""The machine on which a record was measured: the testbed's name where a pool gave it one, else the
host's name and its hardware.

Two hosts of one model are two machines, since they differ. A kernel upgrade makes no other machine
of a host: a history is there to show its effect.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_MADE_OF = ("architecture", "cpu_model", "cpus")


@dataclass(frozen=True, slots=True, order=True)
class MachineId:
    """One machine: its name and its hardware."""

    name: str
    made_of: str  # six hex digits; empty of a testbed, whose name says all

    @classmethod
    def of(cls, provenance: Mapping[str, Any], host: Mapping[str, Any]) -> MachineId:
        """Read it from a record's provenance or, where that lacks it, from the facts of the run's
        host."""
        testbed = provenance.get("testbed")
        if isinstance(testbed, str) and testbed:
            return cls(testbed, "")
        facts = provenance if provenance.get("hostname") else host
        held = json.dumps([facts.get(name) for name in _MADE_OF], sort_keys=True)
        return cls(
            str(facts.get("hostname") or "a host without a name"),
            hashlib.sha256(held.encode()).hexdigest()[:6],
        )


def told_apart(machines: Iterable[MachineId]) -> dict[MachineId, str]:
    """A name for each machine: its own, with its hardware where another has the same name."""
    known = sorted(set(machines))
    names = [one.name for one in known]
    return {
        one: f"{one.name} ({one.made_of})" if names.count(one.name) > 1 else one.name
        for one in known
    }
