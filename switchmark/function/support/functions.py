"""The protocol of a function: a file of `switchmark/function/` with a value `FUNCTION`.

A function adds its part to the neutral table, computes by that table how a frame leaves the switch,
and names the frames of the proof."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from switchmark.errors import Refusal
from switchmark.function.support.frames import Frame
from switchmark.function.support.table import FunctionTable, Tunnel

if TYPE_CHECKING:  # the agent on another host has no pydantic
    from switchmark.model.trial import Trial


@dataclass(frozen=True, slots=True)
class Passing:
    """A frame on its way through the switch: where it entered, where it leaves (None: undecided),
    the ports that get a copy, and the tunnel that it is encapsulated in."""

    ingress: int
    frame: Frame
    egress: int | None = None
    copies: tuple[int, ...] = ()
    tunnel: Tunnel | None = None  # the frame leaves inside it
    received_in: Tunnel | None = None  # the frame came inside it


@dataclass(frozen=True, slots=True)
class Case:
    """A frame of the proof, by the name of its class."""

    name: str
    passing: Passing


class Function(Protocol):
    """One network function."""

    name: str
    meaning: str  # description for `list functions`
    keys: tuple[str, ...]  # campaign keys that only this function reads
    scale_key: str | None  # the key that counts its entries
    unit: str  # plural noun for its entries
    filters: bool  # it drops frames, before the base forwards them

    def refusals(self, trial: Trial) -> Iterator[Refusal]:
        """Return why the values of its keys are impossible, each with its key."""
        ...

    def fill(self, table: FunctionTable, trial: Trial) -> FunctionTable:
        """Return the neutral table with this function's part."""
        ...

    def apply(self, table: FunctionTable, passing: Passing) -> Passing | None:
        """Return the frame as it leaves the switch; None: it is dropped."""
        ...

    def cases(self, table: FunctionTable) -> Iterator[Case]:
        """Yield the frames of the proof: each class that must pass, and each that must not."""
        ...
