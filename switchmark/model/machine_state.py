"""The state of the machine at one moment: how far its cores are from each other, and how fast they
run.

A host moves the cores of a virtual machine about, and whatever shares a core's execution units
slows it down: the same switch then carries half, or twice as much. Trials are compared within a
state.
"""

from __future__ import annotations

from pydantic import Field

from switchmark.model.value import Amount, Count, Value


class MachineState(Value):
    """A reading right before the traffic of a trial begins, or right after it has ended."""

    at_ns: Count  # CLOCK_MONOTONIC
    cores: list[Count]  # first the cores of the switch, then of the applications
    lines_ns: list[Amount | None] = Field(default_factory=list)
    """Time of a cache line, one way, from the first core to each of the others; None: a core was
    not to be had."""
    steps_ns: list[Amount | None] = Field(default_factory=list)
    """Time of a step of dependent additions on each core: a cycle of its clock, or more while what
    shares its execution units is busy."""
    stolen_s: Amount | None = None  # time of these cores since boot that the hypervisor took
    frequencies_mhz: list[Amount] = Field(default_factory=list)  # empty: unknown
    throttled: Count | None = None  # how often these cores were slowed down for heat since boot
    temperature_c: float | None = None  # the hottest of the packages

    @property
    def line_ns(self) -> float | None:
        """The longest of the cache line's times, in ns; None if none is known."""
        return max((line for line in self.lines_ns if line is not None), default=None)
