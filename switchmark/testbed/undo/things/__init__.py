"""The kinds of thing that the bench makes on a machine, each with the way to undo it.

A room for each family; here they are all, and how the ledger writes and reads them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from switchmark.testbed.undo.things.containers import (
    Cgroup,
    CgroupController,
    CgroupsNamed,
    Container,
    DockerThing,
    LxcPivot,
)
from switchmark.testbed.undo.things.files import Directory, File, FilesNamed, Mount, MountsBelow
from switchmark.testbed.undo.things.network import (
    LentDevice,
    Link,
    NetworkNamespace,
    ValeAttachment,
)
from switchmark.testbed.undo.things.processes import MarkedProcesses, Process
from switchmark.testbed.undo.things.settings import Hugepages, Setting, chosen_of
from switchmark.testbed.undo.things.thing import Thing

__all__ = [
    "KINDS",
    "Cgroup",
    "CgroupController",
    "CgroupsNamed",
    "Container",
    "Directory",
    "DockerThing",
    "File",
    "FilesNamed",
    "Hugepages",
    "LentDevice",
    "Link",
    "LxcPivot",
    "MarkedProcesses",
    "Mount",
    "MountsBelow",
    "NetworkNamespace",
    "Process",
    "Setting",
    "Thing",
    "ValeAttachment",
    "chosen_of",
    "from_json",
    "to_json",
]

KINDS: dict[str, type[Thing]] = {
    cls.kind: cls
    for cls in (
        Process,
        MarkedProcesses,
        NetworkNamespace,
        Link,
        LentDevice,
        Mount,
        Directory,
        File,
        FilesNamed,
        Cgroup,
        CgroupController,
        CgroupsNamed,
        MountsBelow,
        DockerThing,
        Setting,
        Hugepages,
        Container,
        LxcPivot,
        ValeAttachment,
    )
}


_PLAIN: dict[str, type] = {"str": str, "int": int, "bool": bool}  # of fields


def to_json(thing: Thing) -> dict[str, Any]:
    """The thing as a JSON object."""
    return {"kind": thing.kind, **dataclasses.asdict(thing)}


def from_json(document: dict[str, Any]) -> Thing:
    """The thing of a JSON object; raises KeyError or TypeError when it is none of ours."""
    values = dict(document)
    thing = KINDS[values.pop("kind")](**values)
    for field in dataclasses.fields(thing):
        wanted = _PLAIN.get(str(field.type), object)
        if not isinstance(getattr(thing, field.name), wanted):
            raise TypeError(f"{thing.kind}: {field.name} is not of its type, {field.type}")
    return thing
