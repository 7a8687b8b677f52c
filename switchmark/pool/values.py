"""Plain values of the pool: a lease of a block, a testbed, an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from switchmark.errors import SwitchmarkError
from switchmark.model.trial import Trial


class LeaseLost(SwitchmarkError):
    """The block is no longer this agent's: nothing of it may be deployed or stored here."""


@dataclass(frozen=True, slots=True)
class BlockLease:
    """A block that one testbed, and no other, may measure until its lease ends."""

    block: int
    token: int  # the fencing token: a later lease of the block has a higher one
    run_name: str  # in the store
    run_id: str  # in its records
    campaign: str
    number: int
    testbed: str
    definition: Mapping[str, Any]  # of the campaign
    baseline: bool  # whether the bare wire is measured where it is not known here
    trials: tuple[Trial, ...]
    stored: frozenset[str]  # ids of trials that this testbed has stored of it before
    lease_s: float
    testbeds: tuple[str, ...] = ()  # of a campaign that each of them decides by itself

    @property
    def todo(self) -> list[Trial]:
        """The trials that are still to be measured, in their order."""
        return [trial for trial in self.trials if trial.id not in self.stored]

    def __str__(self) -> str:
        return f"block {self.number} of {self.campaign} ({self.run_name})"


@dataclass(frozen=True, slots=True)
class Membership:
    """An agent's right to act for a testbed, as long as no later agent has taken its place."""

    testbed: str
    token: int


@dataclass(frozen=True, slots=True)
class TestbedStatus:
    """A testbed as the pool sees it."""

    __test__ = False  # its name is no test's

    name: str
    state: str  # ready, draining, drained, out
    reason: str
    agent: str  # in words
    is_served: bool  # an agent has spoken lately
    silent_s: float  # since it spoke
    clock_ahead_s: float | None
    block: str  # what it measures, in words; empty: nothing
    blocks_done: int


@dataclass(frozen=True, slots=True)
class CampaignStatus:
    """A campaign as the pool sees it."""

    run_name: str
    campaign: str
    state: str  # open, finished, cancelled
    submitted_at: datetime
    submitted_by: str
    blocks: Mapping[str, int]  # by their state
    trials: Mapping[str, int]  # that count, by their status
    trials_asked: int  # so far, where the testbeds decide
    testbeds: tuple[str, ...] = ()  # of which each decides how many it takes; empty: a set number

    @property
    def progress(self) -> str:
        """How many trials are stored, and of how many where that is known."""
        done = sum(self.trials.values())
        return f"{done}" if self.testbeds else f"{done} of {self.trials_asked}"


@dataclass(frozen=True, slots=True)
class PoolEvent:
    """An event, in one line."""

    number: int
    at: datetime
    testbed: str | None
    run_name: str | None
    words: str
