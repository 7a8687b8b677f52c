"""Which core runs what."""

from __future__ import annotations

from pydantic import Field

from switchmark.model.value import Count, Value


class Placement(Value):
    """Which core ran what, and whether there were enough cores."""

    switch_cores: list[Count]
    application_cores: dict[str, list[Count]]  # node name -> cores
    bench_cores: list[Count]
    oversubscribed: bool
    reason: str  # why it was placed so
    idle: str  # the idle strategy chosen
    catch_up_us: Count = 1000  # for so long a pause senders make up; beyond, frames are given up
    neighbour_cores: list[Count] = Field(default_factory=list)  # none: it is not pinned
    switch_free_cores: list[Count] = Field(default_factory=list)  # it may move over; none: pinned
    switch_main_core: Count | None = None  # the core of its main thread, if the campaign names it
    # The CPUs that everything keeps to, the bench and all helper threads included, so that a CPU
    # quota is enough; none: there is no such quota.
    only_cores: list[Count] = Field(default_factory=list)
