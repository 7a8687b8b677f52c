"""Attaching to a container network, as methods see it: its times, and the action itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class AttachTimes:
    """The seconds of one attachment, from the start of ADD."""

    add_s: float  # until ADD has ended
    answer_s: float  # until the first answer arrives through the network


class Attacher(Protocol):
    """A container network in which namespaces can be attached and detached. Calls with different
    numbers may run at the same time."""

    def attach_timed(self, number: int) -> AttachTimes:
        """Make a namespace, attach it, and wait for the first answer."""
        ...

    def detach_timed(self, number: int) -> float:
        """Detach a namespace, and remove it; return the seconds of DEL."""
        ...

    def seconds_to_start(self) -> float:
        """Return the seconds that starting all programs of an ADD takes."""
        ...
