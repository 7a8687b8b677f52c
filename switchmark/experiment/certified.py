"""The certificates of this machine: kept where calibrations are, and attached to every record.

There is one file for each way of reaching a port. A certificate holds as long as nothing that it
depends on has changed: switchmark, kernel, engine, microcode, processor, its settings and the cores
that there are. It covers trials that measured in the same way
(`why_uncovered`), and survives a restart of the machine. A certificate that other users could have
written is not trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from switchmark.experiment.calibration import LARGEST_BYTES, keep_file, machine_facts
from switchmark.host.facts import Cpu, read_cpus
from switchmark.host.state import cache_dir, read_trusted
from switchmark.model.choices import OWN_ENGINE
from switchmark.record import Certificate, CertificateNote, Placement, Record
from switchmark.record.certificate import NOT_TRIED, PROVEN, REFUTED, UNDECIDED
from switchmark.version import DIRTY, full_version


def why_uncovered(held: Certificate, record: Record, cpus: Sequence[Cpu]) -> str:
    """What this trial measured with that was not tried; empty: the certificate is about it."""
    if record.trial.generator != OWN_ENGINE:
        return f"the traffic was made by {record.trial.generator}, which was not tried"
    if record.trial.location == "remote":
        return "the far host, its engine and the offset of its clock were not tried"
    inside = [one.node for one in record.engines if one.node in record.machines]
    if inside:
        return f"{inside[0]} ran in a virtual machine, whose kernel and clock were not tried"
    return _of_cores(held, record.placement, cpus) if record.placement else ""


def _of_cores(held: Certificate, placed: Placement, cpus: Sequence[Cpu]) -> str:
    if placed.idle != held.idle:
        return f"the applications waited by `{placed.idle}`, and `{held.idle}` was tried"
    used = sorted({core for own in placed.application_cores.values() for core in own})
    if len(used) < len(held.cores):
        return f"the applications shared {_cores(used)}, and {_cores(held.cores)} were tried"
    node_of = {cpu.id: cpu.node for cpu in cpus}
    tried = {node_of.get(core) for core in held.cores}
    away = [core for core in used if node_of.get(core) not in tried]
    if away:
        return f"core {away[0]} lies in another NUMA node than {_cores(held.cores)}"
    ours, theirs = siblings([*used, *placed.switch_cores], cpus), siblings(held.cores, cpus)
    if ours and not theirs:
        return f"{_cores(ours)} are SMT siblings, and such were not tried"
    return ""


def siblings(cores: Sequence[int], cpus: Sequence[Cpu]) -> list[int]:
    """Those of these cores that share a physical one with another of them."""
    within = {cpu.id: cpu.core for cpu in cpus}
    chosen = [within[core] for core in set(cores) if core in within]
    return sorted(core for core in set(cores) if chosen.count(within.get(core, (-1, -1))) > 1)


def _cores(cores: Sequence[int]) -> str:
    return f"core{'' if len(cores) == 1 else 's'} {', '.join(map(str, cores))}"


@dataclass
class Certificates:
    """The certificates in a folder, and the machine as it is now."""

    directory: Path
    machine: Mapping[str, Any]
    cpus: Sequence[Cpu] = ()
    switchmark: str = field(default_factory=full_version)
    _read: dict[str, Certificate | None] = field(default_factory=dict)

    @classmethod
    def of_this_machine(cls) -> Certificates:
        """This user's certificates (in `SWITCHMARK_CACHE_DIR`)."""
        return cls(cache_dir() / "certificates", machine_facts(), read_cpus())

    def find(self, port_kind: str, io: str) -> Certificate | None:
        """The certificate for this way of reaching a port, whether it holds or not."""
        name = f"{port_kind}-{io}"
        if name not in self._read:
            self._read[name] = _believed(self.directory / f"{name}.json")
        return self._read[name]

    def keep(self, made: Certificate) -> Path:
        """Keep it in place of the last one. Raises OSError."""
        name = f"{made.port_kind}-{made.io}"
        path = self.directory / f"{name}.json"
        keep_file(path, made.model_dump_json(indent=1))
        self._read.pop(name, None)
        return path

    def why_expired(self, held: Certificate) -> str:
        """Return which part of the bench or the machine has changed since; empty: none."""
        if held.switchmark_version != self.switchmark:
            return f"switchmark was {held.switchmark_version} and is {self.switchmark}"
        if self.switchmark.endswith(DIRTY):
            return (
                f"switchmark is {self.switchmark}: files that differ from it may be others by now"
            )
        for key, value in self.machine.items():
            if held.machine.get(key) != value:
                return f"{key.replace('_', ' ')} was {held.machine.get(key)} and is {value}"
        return ""

    def note(self, record: Record) -> CertificateNote | None:
        """The note for a record; None without a certificate for its way to a port."""
        held = self.find(record.port_kind or "", record.io or "")
        if held is None:
            return None
        uncovered = why_uncovered(held, record, self.cpus)
        why = uncovered or self.why_expired(held)
        return CertificateNote(
            id=held.id, made_at=held.made_at, outcome=held.outcome, covers=not uncovered,
            holds=not why, why=why, proven=held.of(PROVEN), refuted=held.of(REFUTED),
            undecided=held.of(UNDECIDED), not_tried=held.of(NOT_TRIED),
        )  # fmt: skip

    def attach(self, record: Record) -> Record:
        """The record with its note."""
        return record.model_copy(update={"certificate": self.note(record)})


def _believed(path: Path) -> Certificate | None:
    with suppress(OSError, ValueError, ValidationError):
        return Certificate.model_validate_json(read_trusted(path, LARGEST_BYTES))
    return None
