"""The certificates of this machine, which are stored beside calibrations and attached to records.

Each port kind and I/O has its own file. A certificate is valid until something that it depends on
changes: switchmark, kernel, engine, microcode, processor, its settings or the available cores. It
covers trials that measured in the same way (`why_uncovered`). A restart of the machine does not
end it. A certificate that other users could have written is not trusted.
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


def why_uncovered(certificate: Certificate, record: Record, cpus: Sequence[Cpu]) -> str:
    """Return why the certificate does not cover this trial; empty if it does."""
    if record.trial.generator != OWN_ENGINE:
        return f"the generator was {record.trial.generator}, which the certificate did not try"
    if record.trial.location == "remote":
        return "the remote host, its engine and the offset of its clock were not tried"
    inside = [engine.node for engine in record.engines if engine.node in record.machines]
    if inside:
        return f"{inside[0]} ran in a virtual machine, whose kernel and clock were not tried"
    return _cores_problem(certificate, record.placement, cpus) if record.placement else ""


def _cores_problem(certificate: Certificate, placed: Placement, cpus: Sequence[Cpu]) -> str:
    if placed.idle != certificate.idle:
        return f"the applications waited by `{placed.idle}`, and `{certificate.idle}` was tried"
    used = sorted({core for cores in placed.application_cores.values() for core in cores})
    if len(used) < len(certificate.cores):
        return f"the applications shared {_cores(used)}, and {_cores(certificate.cores)} were tried"
    node_of = {cpu.id: cpu.node for cpu in cpus}
    tried = {node_of.get(core) for core in certificate.cores}
    away = [core for core in used if node_of.get(core) not in tried]
    if away:
        return f"core {away[0]} lies in another NUMA node than {_cores(certificate.cores)}"
    shared = siblings([*used, *placed.switch_cores], cpus)
    if shared and not siblings(certificate.cores, cpus):
        return f"{_cores(shared)} are SMT siblings, and SMT siblings were not tried"
    return ""


def siblings(cores: Sequence[int], cpus: Sequence[Cpu]) -> list[int]:
    """Return the cores that share a physical core with another of these cores."""
    within = {cpu.id: cpu.core for cpu in cpus}
    chosen = [within[core] for core in set(cores) if core in within]
    return sorted(core for core in set(cores) if chosen.count(within.get(core, (-1, -1))) > 1)


def _cores(cores: Sequence[int]) -> str:
    return f"core{'' if len(cores) == 1 else 's'} {', '.join(map(str, cores))}"


@dataclass
class Certificates:
    """The certificates in a folder, and the present machine."""

    directory: Path
    machine: Mapping[str, Any]
    cpus: Sequence[Cpu] = ()
    switchmark: str = field(default_factory=full_version)
    _read: dict[str, Certificate | None] = field(default_factory=dict)

    @classmethod
    def of_this_machine(cls) -> Certificates:
        """Return this user's certificates (in `SWITCHMARK_CACHE_DIR`)."""
        return cls(cache_dir() / "certificates", machine_facts(), read_cpus())

    def find(self, port_kind: str, io: str) -> Certificate | None:
        """Return the certificate for this port kind and I/O, also if it has expired."""
        name = f"{port_kind}-{io}"
        if name not in self._read:
            self._read[name] = _read_certificate(self.directory / f"{name}.json")
        return self._read[name]

    def keep(self, certificate: Certificate) -> Path:
        """Store a certificate instead of the previous one. Raise OSError if this fails."""
        name = f"{certificate.port_kind}-{certificate.io}"
        path = self.directory / f"{name}.json"
        keep_file(path, certificate.model_dump_json(indent=1))
        self._read.pop(name, None)
        return path

    def why_expired(self, certificate: Certificate) -> str:
        """Return the part of the bench or the machine that has changed; empty if none has."""
        if certificate.switchmark_version != self.switchmark:
            return f"switchmark was {certificate.switchmark_version} and is {self.switchmark}"
        if self.switchmark.endswith(DIRTY):
            return (
                f"switchmark is {self.switchmark}: its modified files may have changed since then"
            )
        for key, value in self.machine.items():
            if certificate.machine.get(key) != value:
                before = certificate.machine.get(key)
                return f"{key.replace('_', ' ')} was {before} and is {value}"
        return ""

    def note(self, record: Record) -> CertificateNote | None:
        """Return the note for a record; None if its port kind and I/O have no certificate."""
        certificate = self.find(record.port_kind or "", record.io or "")
        if certificate is None:
            return None
        uncovered = why_uncovered(certificate, record, self.cpus)
        why = uncovered or self.why_expired(certificate)
        return CertificateNote(
            id=certificate.id, made_at=certificate.made_at, outcome=certificate.outcome,
            covers=not uncovered, holds=not why, why=why,
            proven=certificate.of(PROVEN), refuted=certificate.of(REFUTED),
            undecided=certificate.of(UNDECIDED), not_tried=certificate.of(NOT_TRIED),
        )  # fmt: skip

    def attach(self, record: Record) -> Record:
        """Return the record with its note."""
        return record.model_copy(update={"certificate": self.note(record)})


def _read_certificate(path: Path) -> Certificate | None:
    with suppress(OSError, ValueError, ValidationError):
        return Certificate.model_validate_json(read_trusted(path, LARGEST_BYTES))
    return None
