"""Values of a trial that are short lists, joined by `+`."""

from __future__ import annotations

from functools import cached_property

from switchmark.model.written import WrittenValue


class Fractions(WrittenValue):
    """Shares of R+, each above 0."""

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """The shares, in the order of the text."""
        return tuple(map(float, self.split("+")))


class ComparedKeys(WrittenValue):
    """Keys of place and cores that a campaign compares; an empty text: none."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The keys, sorted."""
        return tuple(filter(None, self.split("+")))
