"""Plain values of the pool: blocks, leases, testbeds and campaigns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from switchmark.errors import SwitchmarkError
from switchmark.model.trial import Trial


class LeaseLost(SwitchmarkError):
    """This agent does not hold the block any more: it must not deploy or store anything of it."""


@dataclass(frozen=True, slots=True)
class PlannedBlock:
    """One repetition of all contenders at one test point: a testbed measures it as a whole."""

    trials: tuple[Trial, ...]
    lease_s: float


@dataclass(frozen=True, slots=True)
class OpenBlock:
    """A block that a testbed may claim now, with the facts for its placement."""

    block: int
    testbed: str | None  # the testbed that had it last
    only_on: str | None  # the only testbed that may measure it
    unable: tuple[str, ...]  # testbeds that cannot measure it
    needs_second_host: bool


@dataclass(frozen=True, slots=True)
class BlockLease:
    """The right of one testbed to measure a block, until the lease ends."""

    block: int
    token: int  # the fencing token: a later lease of the block has a higher one
    run_name: str  # in the store
    run_id: str  # in its records
    campaign: str
    number: int
    testbed: str
    definition: Mapping[str, Any]  # the definition of the campaign
    baseline: bool  # measure the baseline if this testbed has no figure of it
    trials: tuple[Trial, ...]
    stored: frozenset[str]  # ids of the trials that this testbed has stored before
    lease_s: float
    testbeds: tuple[str, ...] = ()  # the testbeds of a campaign that proves

    @property
    def todo(self) -> list[Trial]:
        """The trials that are still to be measured, in their order."""
        return [trial for trial in self.trials if trial.id not in self.stored]

    def __str__(self) -> str:
        return f"block {self.number} of {self.campaign} ({self.run_name})"


@dataclass(frozen=True, slots=True)
class Membership:
    """The right of an agent to act for a testbed, until a later agent replaces it."""

    testbed: str
    token: int


@dataclass(frozen=True, slots=True)
class TestbedStatus:
    """The state of a testbed, as `pool status` prints it."""

    __test__ = False  # not a test class

    name: str
    state: str  # ready, draining, drained, out
    reason: str
    agent: str  # host and process
    is_served: bool  # an agent has reported recently
    silent_s: float  # since the last report
    clock_ahead_s: float | None
    block: str  # the block that it measures; empty if there is none
    blocks_done: int


@dataclass(frozen=True, slots=True)
class CampaignStatus:
    """The state of a campaign, as `pool status` prints it."""

    run_name: str
    campaign: str
    state: str  # open, finished, cancelled
    submitted_at: datetime
    submitted_by: str
    blocks: Mapping[str, int]  # by their state
    trials: Mapping[str, int]  # trials that count, by their status
    trials_asked: int  # so far, if the testbeds decide how many they need
    testbeds: tuple[str, ...] = ()  # each decides when it is done; empty: the number is fixed

    @property
    def progress(self) -> str:
        """The number of stored trials, and the total if it is fixed."""
        done = sum(self.trials.values())
        return f"{done}" if self.testbeds else f"{done} of {self.trials_asked}"


@dataclass(frozen=True, slots=True)
class PoolEvent:
    """An event, in one line."""

    number: int
    at: datetime
    testbed: str | None
    run_name: str | None
    text: str
