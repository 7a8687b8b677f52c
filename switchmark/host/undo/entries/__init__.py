"""The kinds of object that the bench makes on a machine, each with the way to undo it.

Each family has a file; all are gathered here, with how the ledger writes and reads them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from switchmark.host.undo.entries.containers import (
    Cgroup,
    CgroupController,
    CgroupsNamed,
    Container,
    DockerObject,
    LxcPivot,
)
from switchmark.host.undo.entries.entry import UndoEntry
from switchmark.host.undo.entries.files import (
    Directory,
    File,
    FilesNamed,
    LockFile,
    MountsBelow,
)
from switchmark.host.undo.entries.network import (
    BridgePort,
    Entered,
    LentDevice,
    NetworkDevice,
    NetworkNamespace,
    OvsPort,
    ValeAttachment,
)
from switchmark.host.undo.entries.networks import CniAttachment
from switchmark.host.undo.entries.processes import MarkedProcesses, Process
from switchmark.host.undo.entries.settings import Hugepages, KernelSetting, chosen_of

__all__ = [
    "KINDS",
    "BridgePort",
    "Cgroup",
    "CgroupController",
    "CgroupsNamed",
    "CniAttachment",
    "Container",
    "Directory",
    "DockerObject",
    "Entered",
    "File",
    "FilesNamed",
    "Hugepages",
    "KernelSetting",
    "LentDevice",
    "LockFile",
    "LxcPivot",
    "MarkedProcesses",
    "MountsBelow",
    "NetworkDevice",
    "NetworkNamespace",
    "OvsPort",
    "Process",
    "UndoEntry",
    "ValeAttachment",
    "chosen_of",
    "from_json",
    "to_json",
]

KINDS: dict[str, type[UndoEntry]] = {
    cls.kind: cls
    for cls in (
        Process,
        MarkedProcesses,
        NetworkNamespace,
        NetworkDevice,
        LentDevice,
        Directory,
        File,
        FilesNamed,
        LockFile,
        Cgroup,
        CgroupController,
        CgroupsNamed,
        MountsBelow,
        DockerObject,
        KernelSetting,
        Hugepages,
        Container,
        LxcPivot,
        ValeAttachment,
        CniAttachment,
        Entered,
        BridgePort,
        OvsPort,
    )
}


_FIELD_TYPES: dict[str, type] = {"str": str, "int": int, "bool": bool}


def to_json(entry: UndoEntry) -> dict[str, Any]:
    """The entry as a JSON object."""
    return {"kind": entry.kind, **dataclasses.asdict(entry)}


def from_json(document: dict[str, Any]) -> UndoEntry:
    """Return the entry of a JSON object. Raises KeyError or TypeError if it is not an entry."""
    values = dict(document)
    entry = KINDS[values.pop("kind")](**values)
    for field in dataclasses.fields(entry):
        field_type = _FIELD_TYPES.get(str(field.type), object)
        if not isinstance(getattr(entry, field.name), field_type):
            raise TypeError(f"{entry.kind}: {field.name} is not of its type, {field.type}")
    return entry
