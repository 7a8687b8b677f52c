"""What a key of a campaign is: its names, its meaning, how one value of it is read and shown.

The keys themselves are in the table of `keys.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from switchmark.campaign import model, values
from switchmark.campaign.model import Dimension, Trial
from switchmark.scenario.registry import WRITTEN


@dataclass(frozen=True, slots=True)
class Known:
    """The names that exist on this installation; None takes any well-formed name."""

    switches: tuple[str, ...] | None = None
    environments: tuple[str, ...] | None = None
    scenarios: tuple[str, ...] | None = tuple(WRITTEN)


@dataclass(frozen=True, slots=True)
class Key:
    """One parameter of a trial as users write it."""

    name: str  # in campaign files, `--set` and notations
    field: str  # of Trial
    meaning: str
    read: Callable[[str, Known], Any]  # one value
    show: Callable[[Any], str]  # the same value as text; `read` takes it back
    example: str
    unit: str = ""
    letter: str | None = None  # of the (D, L, S, V, P, R, B) notation
    ranges: bool = False
    mapping: bool = False  # a value may be written as a mapping: {emc: off}

    def default(self, dimension: Dimension) -> Any:
        """The value when none is given; raises KeyError for keys that must be given."""
        if self.field == "rate_pps":
            return model.default_rate_pps(dimension)
        if self.field == "burst":
            return model.default_burst(dimension)
        if self.name == "packet_size":
            return model.MIN_FRAME_BYTES
        field = Trial.model_fields[self.field]
        if field.is_required():
            raise KeyError(self.name)
        return field.default

    def parse(self, text: str, known: Known) -> list[Any]:
        """A value, list or range as written; raises `BadValueError`."""
        return values.many(text, lambda item: self.read(item, known), ranges=self.ranges)
