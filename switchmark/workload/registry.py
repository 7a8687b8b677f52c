"""Every workload by name: a file of this folder that holds a `WORKLOAD`."""

from __future__ import annotations

from switchmark.model.workload import FRAMES, Workload
from switchmark.plugins import PluginRegistry, attribute_loader

WORKLOADS: PluginRegistry[Workload] = PluginRegistry(
    "switchmark.workload", attribute_loader("WORKLOAD")
)


def workload_names() -> tuple[str, ...]:
    """The values of `workload`: `frames`, and the applications."""
    return (FRAMES, *WORKLOADS)


def protocol_of(workload: str) -> str:
    """Return the protocol of the payload: `tcp` or `udp`, which frames have too."""
    return "udp" if workload == FRAMES else WORKLOADS[workload].protocol
