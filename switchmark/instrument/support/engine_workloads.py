"""The abilities of the traffic engine for applications; `trial/engine_workload.py` runs them."""

from __future__ import annotations

from switchmark.instrument.support import nginx
from switchmark.instrument.support.base import Abilities
from switchmark.instrument.support.workload import workload_abilities
from switchmark.model.choices import OWN_ENGINE
from switchmark.workload import http
from switchmark.workload.registry import WORKLOADS

CANNOT_KNOW = (
    "the place at which a segment was lost",
    "the work of the kernel outside of its processes",
)


def engine_abilities(workload: str) -> Abilities | None:
    """Return the abilities of the engine for a workload; None if it does not run it."""
    known = WORKLOADS[workload]
    if known.generator != OWN_ENGINE:
        return None
    return workload_abilities(
        known,
        f"the traffic engine over {known.protocol.upper()} sockets of the kernel: {known.meaning}",
        CANNOT_KNOW,
        fields=tuple(known.reads),
        latency=known.times_requests,
        saturates=known.protocol == "tcp" or known.is_stream,
        most_rate=1_000_000 if known.times_requests else None,
        servers=(nginx.NAME,) if workload == http.WORKLOAD.name else (),
    )
