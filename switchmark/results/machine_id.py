"""The machine on which a record was measured: the name of a pool's testbed, otherwise the name of
the host and its hardware.

Two hosts of one model are two machines, because their figures differ. A host stays the same machine
after an upgrade of its kernel, because a history shows the effect of upgrades."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_HARDWARE_FACTS = ("architecture", "cpu_model", "cpus")


@dataclass(frozen=True, slots=True, order=True)
class MachineId:
    """One machine: its name and its hardware."""

    name: str
    made_of: str  # six hex digits; empty for a testbed, which its name identifies

    @classmethod
    def of(cls, provenance: Mapping[str, Any], host: Mapping[str, Any]) -> MachineId:
        """Read the machine from a record's provenance or, if that lacks it, from the facts of the
        host of the run."""
        testbed = provenance.get("testbed")
        if isinstance(testbed, str) and testbed:
            return cls(testbed, "")
        facts = provenance if provenance.get("hostname") else host
        hardware = json.dumps([facts.get(name) for name in _HARDWARE_FACTS], sort_keys=True)
        return cls(
            str(facts.get("hostname") or "a host without a name"),
            hashlib.sha256(hardware.encode()).hexdigest()[:6],
        )


def name_machines(machines: Iterable[MachineId]) -> dict[MachineId, str]:
    """Return a name for each machine, with its hardware if another machine has the same name."""
    distinct = sorted(set(machines))
    names = [machine.name for machine in distinct]
    return {
        machine: f"{machine.name} ({machine.made_of})"
        if names.count(machine.name) > 1
        else machine.name
        for machine in distinct
    }
