"""Campaigns that prove, in a pool: each testbed measures blocks until its comparisons are decided.

Each testbed has its own result, by the stopping rule of one machine
(`experiment/block_schedule.py`); all testbeds together keep the confidence level of the claims. A
testbed has one open block of a campaign at a time, which only it may measure. After a block its
agent computes the next one from the stored records, and makes it open in the transaction that ends
the block before. The next block follows from the records alone, so any later agent of the testbed
computes the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from pydantic import ValidationError

from switchmark.errors import UsageError
from switchmark.experiment.block_schedule import BlockSchedule
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.parameter_table import point_of
from switchmark.model.trial import Trial
from switchmark.pool.database import PoolDatabase
from switchmark.pool.values import BlockLease, PlannedBlock
from switchmark.record import Record
from switchmark.results.blocks import Observed, observe
from switchmark.results.proving import Proving
from switchmark.store.errors import CorruptStoreError
from switchmark.store.names import record_object
from switchmark.store.pull import Expected, checked_object
from switchmark.switch.registry import usual_overhead_s


@dataclass(frozen=True, slots=True)
class NextBlock:
    """The next block of a campaign on a testbed."""

    testbed: str
    number: int  # in the campaign
    trials: tuple[Trial, ...]
    lease_s: float


def deciding_testbeds(db: Connection[Any]) -> tuple[str, ...]:
    """Return the testbeds for a campaign that is submitted now: those that have an agent and are
    not
    drained. Raises `UsageError` if there is none."""
    rows = db.execute(
        "SELECT name FROM pool_testbeds WHERE state IN ('ready', 'out') "
        "AND expires_at >= clock_timestamp() ORDER BY name"
    ).fetchall()
    if not rows:
        raise UsageError(
            "a campaign that proves runs on the testbeds that have an agent when it is submitted, "
            "and no testbed has an agent",
            remedy="start agents first",
        )
    return tuple(str(row[0]) for row in rows)


def first_blocks(
    campaign: CampaignDefinition, blocks: Sequence[PlannedBlock], testbeds: Sequence[str]
) -> list[NextBlock]:
    """Return the first block of each testbed. Raises `UsageError` if the budget is too short."""
    trials = _first_trials(blocks)
    proving = Proving.of(campaign.model_dump(), usual_overhead_s, testbeds)
    lease_s = max(block.lease_s for block in blocks)
    first = []
    for testbed in testbeds:
        schedule = _TestbedSchedule(campaign, trials, proving.on(testbed), lease_s)
        following = schedule.advance()
        if following is None:
            raise UsageError(f"{campaign.name}: the budget is too short for a single block")
        first.append(following)
    return first


def begin(
    db: Connection[Any],
    run_name: str,
    blocks: Sequence[PlannedBlock],
    first: Sequence[NextBlock],
) -> None:
    """Store the campaign's trials, and make the first block of each testbed open."""
    db.execute(
        "UPDATE pool_campaigns SET trials = %s WHERE run_name = %s",
        (plain_trials(_first_trials(blocks)), run_name),
    )
    for block in first:
        queue_next(db, run_name, block)


def queue_next(db: Connection[Any], run_name: str, block: NextBlock) -> None:
    """Make a block open that only its testbed may measure."""
    db.execute(
        "INSERT INTO blocks (run, block, trial_ids) "
        "SELECT run, %s, %s FROM pool_campaigns WHERE run_name = %s",
        (block.number, [trial.id for trial in block.trials], run_name),
    )
    db.execute(
        "INSERT INTO pool_blocks (run_name, number, trials, lease_s, only_on) "
        "VALUES (%s, %s, %s, %s, %s)",
        (run_name, block.number, plain_trials(block.trials), block.lease_s, block.testbed),
    )


def plain_trials(trials: Iterable[Trial]) -> str:
    """Return trials in the database's form (JSON)."""
    return json.dumps([trial.model_dump(mode="json", exclude_defaults=True) for trial in trials])


def _first_trials(blocks: Sequence[PlannedBlock]) -> list[Trial]:
    return [trial for block in blocks for trial in block.trials if trial.repetition == 0]


class TestbedSchedules:
    """The schedules of the campaigns in which a testbed takes part.

    They follow from the stored records. Keeping one saves reading all records after each block."""

    __test__ = False  # not a test class

    def __init__(self, database: PoolDatabase) -> None:
        self._database = database
        self._schedules: dict[str, _TestbedSchedule] = {}

    def next_after(self, lease: BlockLease) -> NextBlock | None:
        """Return the block after a block whose trials are all stored.

        None: the number of blocks is fixed, or all is decided here, or the budget is used. The same
        call returns the same block. Raises `StoreAwayError`."""
        if not lease.testbeds:
            return None
        schedule = self._schedules.get(lease.run_name)
        if schedule is None or not schedule.knows(lease):
            schedule = self._read(lease)
        elif schedule.measured != lease.number:
            schedule.take(self._observed(lease, lease.trials), lease.trials, lease.number)
            schedule.advance()
        self._schedules = {lease.run_name: schedule}  # others are read again
        return schedule.following

    def _read(self, lease: BlockLease) -> _TestbedSchedule:
        """Read the campaign and all its records of this testbed from the store."""
        with self._database.transaction() as db:
            row = db.execute(
                "SELECT trials FROM pool_campaigns WHERE run_name = %s", (lease.run_name,)
            ).fetchone()
            ended = db.execute(
                "SELECT trials FROM pool_blocks WHERE run_name = %s AND only_on = %s "
                "AND (id = %s OR state IN ('done', 'failed'))",
                (lease.run_name, lease.testbed, lease.block),
            ).fetchall()
        assert row is not None
        trials = [Trial.model_validate(trial) for trial in row[0]]
        proving = Proving.of(lease.definition, usual_overhead_s, lease.testbeds).on(lease.testbed)
        campaign = CampaignDefinition.model_validate(lease.definition)
        schedule = _TestbedSchedule(campaign, trials, proving, lease.lease_s)
        done = [Trial.model_validate(trial) for (plain,) in ended for trial in plain]
        schedule.take(self._observed(lease, done), done, lease.number)
        schedule.advance()
        return schedule

    def _observed(self, lease: BlockLease, trials: Sequence[Trial]) -> list[Observed]:
        """Return the observations in the last record of each of these trials."""
        ids = [trial.id for trial in trials]
        with self._database.store() as store:
            rows = store.connection.execute(
                "SELECT DISTINCT ON (trial_id) trial_id, attempt, sha256, bytes FROM attempts "
                "WHERE run = (SELECT run FROM runs WHERE name = %s) AND trial_id = ANY(%s) "
                "AND NOT superseded ORDER BY trial_id, attempt DESC",
                (lease.run_name, ids),
            ).fetchall()
            observations = []
            for trial_id, attempt, sha256, size in rows:
                name = record_object(lease.run_name, trial_id, attempt, bytes(sha256))
                # A damaged record does not count, as in each later reading.
                with suppress(CorruptStoreError, ValidationError):
                    content = checked_object(store, Expected(name, bytes(sha256), size))
                    observations.append(observe(Record.model_validate_json(content)))
        return observations


class _TestbedSchedule:
    """The schedule of one campaign on one testbed."""

    def __init__(
        self,
        campaign: CampaignDefinition,
        trials: Sequence[Trial],
        proving: Proving,
        lease_s: float,
    ) -> None:
        self._testbed = proving.testbed
        self._lease_s = lease_s
        self._places = {point: n for n, point in enumerate(dict.fromkeys(map(point_of, trials)))}
        self._ended: set[str] = set()
        self._seen: dict[tuple[str, int], Observed] = {}  # by first trial and repetition
        self._lists: Iterator[list[Trial]] = iter(
            BlockSchedule(trials, campaign.seed, proving, self._has_ended, self._observed)
        )
        self.measured: int | None = None  # the number of the block that was last taken
        self.following: NextBlock | None = None

    def knows(self, lease: BlockLease) -> bool:
        """Return True if this block is the next one, or the last that was taken."""
        following = self.following
        return lease.number in (self.measured, None if following is None else following.number)

    def take(self, observed: Sequence[Observed], trials: Sequence[Trial], number: int) -> None:
        """Take the observations of these trials, which have ended."""
        self._ended |= {trial.id for trial in trials}
        self._seen |= {(value.contender, value.block): value for value in observed}
        self.measured = number

    def advance(self) -> NextBlock | None:
        """Compute and return the next block."""
        self.following = None
        if trials := next(self._lists, None):
            number = trials[0].repetition * len(self._places) + self._places[point_of(trials[0])]
            self.following = NextBlock(self._testbed, number, tuple(trials), self._lease_s)
        return self.following

    def _has_ended(self, trial: Trial) -> bool:
        return trial.id in self._ended

    def _observed(self, trials: Sequence[Trial]) -> list[Observed]:
        keys = [(trial.repeated(0).id, trial.repetition) for trial in trials]
        return [self._seen[key] for key in keys if key in self._seen]
