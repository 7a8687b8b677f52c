"""How the traffic engine was built."""

from __future__ import annotations

from switchmark.engine.event_parts.part import EventPart


class EngineBuild(EventPart):
    """What makes two builds of one revision differ in speed."""

    compiler: str
    optimisation: str
    sanitizers: str | None
    coverage: bool
    cpu: str | None
    options: str | None
    dpdk: str | None
    build_id: str | None
    fast: bool
