"""Campaigns that prove, in a pool: each testbed has blocks of its own, until all is decided there.

Each testbed answers for itself, by the one stopping rule (experiment/course.py), and all of them
share the level of its claims. A testbed has one block of a campaign in the queue at a time, which
only it may measure. Its agent, which has just measured one, finds the next one from the stored
records, in the transaction that ends the block: whoever is gone meanwhile, the next agent finds the
same.
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
from switchmark.experiment.course import Course
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.parameters import point_of
from switchmark.model.trial import Trial
from switchmark.pool.blocks import PlannedBlock
from switchmark.pool.database import PoolDatabase
from switchmark.pool.values import BlockLease
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
    """The testbeds that decide a campaign that is submitted now: those with an agent that are not
    drained. Raises `UsageError` where there is none."""
    rows = db.execute(
        "SELECT name FROM pool_testbeds WHERE state IN ('ready', 'out') "
        "AND expires_at >= clock_timestamp() ORDER BY name"
    ).fetchall()
    if not rows:
        raise UsageError(
            "a campaign that proves is decided on the testbeds that are there when it is handed "
            "in, and no testbed has an agent: start agents first"
        )
    return tuple(str(row[0]) for row in rows)


def first_blocks(
    campaign: CampaignDefinition, blocks: Sequence[PlannedBlock], testbeds: Sequence[str]
) -> list[NextBlock]:
    """The first block of each testbed. Raises `UsageError` where the budget has no room for it."""
    trials = _first_trials(blocks)
    proving = Proving.of(campaign.model_dump(), usual_overhead_s, testbeds)
    lease_s = max(block.lease_s for block in blocks)
    found = []
    for testbed in testbeds:
        course = _TestbedCourse(campaign, trials, proving.on(testbed), lease_s)
        following = course.advance()
        if following is None:
            raise UsageError(f"{campaign.name}: the budget has no room for a single block")
        found.append(following)
    return found


def begin(
    db: Connection[Any],
    run_name: str,
    blocks: Sequence[PlannedBlock],
    first: Sequence[NextBlock],
) -> None:
    """Keep the campaign's trials, and queue the first block of each testbed."""
    db.execute(
        "UPDATE pool_campaigns SET trials = %s WHERE run_name = %s",
        (plain_trials(_first_trials(blocks)), run_name),
    )
    for one in first:
        queue_next(db, run_name, one)


def queue_next(db: Connection[Any], run_name: str, block: NextBlock) -> None:
    """Queue a block that only its testbed may measure."""
    db.execute(
        "INSERT INTO blocks (run, block, trial_ids) "
        "SELECT run, %s, %s FROM pool_campaigns WHERE run_name = %s",
        (block.number, [one.id for one in block.trials], run_name),
    )
    db.execute(
        "INSERT INTO pool_blocks (run_name, number, trials, lease_s, only_on) "
        "VALUES (%s, %s, %s, %s, %s)",
        (run_name, block.number, plain_trials(block.trials), block.lease_s, block.testbed),
    )


def plain_trials(trials: Iterable[Trial]) -> str:
    """Trials as the database has them, in JSON."""
    return json.dumps([one.model_dump(mode="json", exclude_defaults=True) for one in trials])


def _first_trials(blocks: Sequence[PlannedBlock]) -> list[Trial]:
    return [one for block in blocks for one in block.trials if one.repetition == 0]


class TestbedCourses:
    """The campaigns that an agent's testbed takes part in. What is kept here follows from the
    records, and saves reading all of them after each block."""

    __test__ = False  # its name is no test's

    def __init__(self, database: PoolDatabase) -> None:
        self._database = database
        self._courses: dict[str, _TestbedCourse] = {}

    def next_after(self, lease: BlockLease) -> NextBlock | None:
        """The block after one whose trials are all stored; None: the campaign has a set number of
        blocks, or all is decided here, or the time is over. Asked again it gives the same. Raises
        `StoreAwayError`."""
        if not lease.testbeds:
            return None
        course = self._courses.get(lease.run_name)
        if course is None or not course.knows(lease):
            course = self._read(lease)
        elif course.measured != lease.number:
            course.take(self._observed(lease, lease.trials), lease.trials, lease.number)
            course.advance()
        self._courses = {lease.run_name: course}  # (one is enough: others are read again)
        return course.following

    def _read(self, lease: BlockLease) -> _TestbedCourse:
        """Read the campaign, and everything that this testbed has measured of it, from the
        store."""
        with self._database.transaction() as db:
            row = db.execute(
                "SELECT trials FROM pool_campaigns WHERE run_name = %s", (lease.run_name,)
            ).fetchone()
            over = db.execute(
                "SELECT trials FROM pool_blocks WHERE run_name = %s AND only_on = %s "
                "AND (id = %s OR state IN ('done', 'failed'))",
                (lease.run_name, lease.testbed, lease.block),
            ).fetchall()
        assert row is not None
        trials = [Trial.model_validate(one) for one in row[0]]
        proving = Proving.of(lease.definition, usual_overhead_s, lease.testbeds).on(lease.testbed)
        campaign = CampaignDefinition.model_validate(lease.definition)
        course = _TestbedCourse(campaign, trials, proving, lease.lease_s)
        done = [Trial.model_validate(one) for held in over for one in held[0]]
        course.take(self._observed(lease, done), done, lease.number)
        course.advance()
        return course

    def _observed(self, lease: BlockLease, trials: Sequence[Trial]) -> list[Observed]:
        """The observations of the last record of each of these trials."""
        ids = [one.id for one in trials]
        with self._database.store() as store:
            rows = store.connection.execute(
                "SELECT DISTINCT ON (trial_id) trial_id, attempt, sha256, bytes FROM attempts "
                "WHERE run = (SELECT run FROM runs WHERE name = %s) AND trial_id = ANY(%s) "
                "AND NOT superseded ORDER BY trial_id, attempt DESC",
                (lease.run_name, ids),
            ).fetchall()
            found = []
            for trial_id, attempt, sha256, size in rows:
                name = record_object(lease.run_name, trial_id, attempt, bytes(sha256))
                # What cannot be believed counts for nothing, as in all that is read later.
                with suppress(CorruptStoreError, ValidationError):
                    content = checked_object(store, Expected(name, bytes(sha256), size))
                    found.append(observe(Record.model_validate_json(content)))
        return found


class _TestbedCourse:
    """One campaign on one testbed, as far as it is known."""

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
        self._over: set[str] = set()
        self._seen: dict[tuple[str, int], Observed] = {}  # by first trial and repetition
        self._lists: Iterator[list[Trial]] = iter(
            Course(trials, campaign.seed, proving, self._is_over, self._observed)
        )
        self.measured: int | None = None  # the number of the block that was last taken
        self.following: NextBlock | None = None

    def knows(self, lease: BlockLease) -> bool:
        """Whether this block is the one that was given as the next, or was taken before."""
        following = self.following
        return lease.number in (self.measured, None if following is None else following.number)

    def take(self, observed: Sequence[Observed], trials: Sequence[Trial], number: int) -> None:
        """Take the records' observations of these trials, which are over."""
        self._over |= {one.id for one in trials}
        self._seen |= {(one.contender, one.block): one for one in observed}
        self.measured = number

    def advance(self) -> NextBlock | None:
        """The next block."""
        self.following = None
        if trials := next(self._lists, None):
            number = trials[0].repetition * len(self._places) + self._places[point_of(trials[0])]
            self.following = NextBlock(self._testbed, number, tuple(trials), self._lease_s)
        return self.following

    def _is_over(self, trial: Trial) -> bool:
        return trial.id in self._over

    def _observed(self, trials: Sequence[Trial]) -> list[Observed]:
        keys = [(one.repeated(0).id, one.repetition) for one in trials]
        return [self._seen[key] for key in keys if key in self._seen]
