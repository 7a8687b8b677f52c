"""The network function of a trial: its table, its entries in the switch, and its proof."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from switchmark.model.value import Count, Value


class Policing(Value):
    """The measured check of a policer, with frames of one size."""

    frame_bytes: Count  # with FCS
    cir_bps: Count
    cbs_bytes: Count
    # Frames that passed over those that a token bucket passes, less 1, far above the CIR and at
    # 0.95 of it; None if they could not be measured.
    error: float | None = None
    error_below: float | None = None
    unjudged: str | None = None  # the reason if it could not be measured


class FunctionNote(Value):
    """The functions that the switch had to perform, and the evidence that it did."""

    functions: list[str]  # the base first
    table: str  # hash of the neutral table; the results folder has the table under this name
    announced: dict[str, Count]  # native entries that the translation made, by table
    read_back: dict[str, Count]  # native entries that the switch itself reported
    load_time_s: Annotated[float, Field(ge=0)]
    cases: Count  # frames of the proof
    must_arrive: Count  # frames of the proof that arrived with the expected content
    must_not_arrive: Count  # frames of the proof that were dropped, as they had to be
    repeated: Count = 0  # frames that were sent again, since the first one did not arrive in time
    # Outer header fields that the switch chooses in tunnels, by name: their values in the proof.
    outer: dict[str, str] = Field(default_factory=dict)
    policing: Policing | None = None
    wrong_next_hop: Count = 0  # counted frames of the load with another destination address
    wrong_header: Count = 0  # counted frames of the load with another wrong field
    denied_sent: Count = 0  # frames that had to be dropped, sent beside the load
    denied_arrived: Count = 0
    # Of a mirror: frames that were sent into the mirrored port, different frames of which a copy
    # arrived, and further copies. A frame that was lost before the switch has no copy.
    copies_due: Count = 0
    copies_arrived: Count = 0
    copies_doubled: Count = 0
    # Memory before and after the load of the tables. Of processes it is their resident memory
    # without hugepages; of the kernel, the machine's slabs and vmalloc. None: unknown.
    memory_before_kib: Count | None = None
    memory_after_kib: Count | None = None
    memory_is_kernel: bool = False
    # Resident memory of the switch's processes with the table, without hugepages, and their
    # hugepages with those of their buffers; None: it works in the kernel.
    memory_kib: Count | None = None
    hugepages_kib: Count | None = None
    # The switch reads and compiles its tables while it starts, so the load time has both.
    loads_at_start: bool = False

    @property
    def entries(self) -> int:
        """The number of native entries."""
        return sum(self.announced.values())

    @property
    def table_memory_kib(self) -> int | None:
        """Growth of the memory while the tables were loaded; it may be below 0 in the kernel."""
        if self.memory_before_kib is None or self.memory_after_kib is None:
            return None
        return self.memory_after_kib - self.memory_before_kib
