"""Workloads: applications as traffic, and the unit in which their throughput is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FRAMES = "frames"  # frames of the engine or of a generator of frames: no application
AUTO_GENERATOR = "auto"  # the usual program of the workload; no trial has this value

BITS, REQUESTS = "bit/s", "requests/s"
TransferUnit = Literal["bit/s", "requests/s"]


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of application. Its generators are files of `switchmark/instrument/`."""

    name: str
    meaning: str
    protocol: Literal["tcp", "udp"]
    unit: TransferUnit  # the unit of its throughput, and of `rate` for each pair
    generator: str  # that runs it if the campaign names none
    # Parameters beside `workload` that the workload reads.
    reads: frozenset[str] = frozenset()
    times_requests: bool = True  # so that dimension latency is possible

    @property
    def is_stream(self) -> bool:
        """Return True if it moves bytes one way, without requests."""
        return self.unit == BITS
