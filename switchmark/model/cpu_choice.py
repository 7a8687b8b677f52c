"""The cores that a campaign names for a part of a trial."""

from __future__ import annotations

from functools import cached_property

from switchmark.model.written import WrittenValue


class CpuChoice(WrittenValue):
    """Cores joined by `+`, or a word such as `auto`, with which placement chooses them."""

    @cached_property
    def cores(self) -> tuple[int, ...]:
        """The named cores; empty if placement chooses them."""
        return tuple(map(int, self.split("+"))) if self[:1].isdigit() else ()


AUTO_CPUS = CpuChoice("auto")
ANY_CPUS = CpuChoice("any")
