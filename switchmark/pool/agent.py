"""The agent of a testbed: it checks the testbed, measures one block after the other, and stores the
records.

It acts when it is called (`work`), block by block, in the thread that calls. It speaks to the
store before and after each trial, and never while frames flow. Whatever ends it, the machine is
clean: it cleans up itself where it can still act, and the next agent at this place does where it
was killed.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, TypeVarTuple

from psycopg import Connection

from switchmark.errors import SwitchmarkError, UnavailableError, UsageError
from switchmark.host.kernel import procfs
from switchmark.host.state import state_folder
from switchmark.locks import open_lock
from switchmark.model.trial import Trial
from switchmark.pool import leases, testbeds
from switchmark.pool.database import PoolDatabase
from switchmark.pool.events import note_event, note_of_lease
from switchmark.pool.executor import BlockExecutor, TestbedLost
from switchmark.pool.patience import patiently
from switchmark.pool.proving import TestbedCourses
from switchmark.pool.values import BlockLease, LeaseLost, Membership
from switchmark.record import Record
from switchmark.store.errors import StoreAwayError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
SPEAKS_EVERY_S = 10.0  # while it has nothing to measure
TURN_S = 2.0  # a word of the scheduler costs as much as a short block, and is for so long


class Replaced(SwitchmarkError):
    """Another agent acts for the testbed now."""


class Archive(Protocol):
    """The place where records go."""

    def enter(self, lease: BlockLease, record: Record) -> None:
        """Keep the record, whole and once, if the lease holds. Doing it again with the same record
        changes nothing. Raises `LeaseLost`, `StoreAwayError`."""
        ...


@dataclass(frozen=True, slots=True)
class _PoolStanding:
    """The pool's knowledge of the testbed."""

    state: str
    profile: dict[str, object] | None  # what it is held against; None: nothing yet
    wire_pps: list[float]


@dataclass
class Agent:
    """One testbed's agent, as long as it is registered."""

    member: Membership
    database: PoolDatabase
    archive: Archive
    executor: BlockExecutor
    say: Callable[[str], None]
    clock: Callable[[], float] = time.time  # the host's, which is told and never used
    _spoken: float = field(default_factory=time.monotonic)
    _blocks: int = 0  # measured so far

    def __post_init__(self) -> None:
        self._courses = TestbedCourses(self.database)

    def turn(self) -> str:
        """Work block by block for a moment, one block at least; returns what happened last. Raises
        `Replaced`."""
        until, told, before = time.monotonic() + TURN_S, "", -1
        while before < self._blocks and time.monotonic() < until:
            before = self._blocks
            told = self.work()
        return told

    def work(self) -> str:
        """Check the testbed, and measure one block if there is one for it; returns what happened,
        in a line. Raises `Replaced`."""
        name = self.member.testbed
        standing = self._patiently(self._standing)
        if standing.state not in ("ready", "out"):
            return f"{name} is {standing.state}"
        if (problem := self._unfit(standing)) is not None:
            return f"{name} is taken out: {problem}"
        lease = self._patiently(self._claim)
        if lease is None:
            return f"{name}: no block to measure"
        self.say(f"measures {lease}: {len(lease.todo)} trials, lease {lease.token}")
        try:
            told = self._measured(lease)
        except LeaseLost as error:
            told = f"{lease.testbed} was refused and ends {lease}: {error}"
            self._patiently(note_of_lease, lease, told)
        except TestbedLost as error:
            told = f"gives {lease} back: {error}"
            self._patiently(leases.give_back, lease, str(error))
        except (UnavailableError, UsageError) as error:
            told = str(error).splitlines()[0]
            self._patiently(leases.refuse, lease, told)
        except BaseException as error:  # stopped, or a fault of the bench
            stopped = isinstance(error, SystemExit | KeyboardInterrupt)
            why = "the agent was stopped" if stopped else f"{type(error).__name__}: {error}"
            with suppress(SwitchmarkError), self.database.transaction() as db:
                leases.give_back(db, lease, why, lost=not stopped)
            raise
        finally:
            with suppress(SwitchmarkError):
                self._once(testbeds.drained, self.member)
        self.say(told)
        return told

    def speak(self) -> None:
        """Tell the pool that the agent is alive, if that is due. Raises `Replaced`."""
        if time.monotonic() - self._spoken < SPEAKS_EVERY_S:
            return
        self._spoken = time.monotonic()
        if not self._patiently(testbeds.speak, self.member):
            raise self._replaced()

    def leave(self) -> None:
        """Tell the pool that the agent ends."""
        with suppress(SwitchmarkError):
            self._once(testbeds.leave, self.member)
        self.database.close()

    def _measured(self, lease: BlockLease) -> str:
        begun = time.monotonic()

        def before(_trial: Trial) -> None:
            self._patiently(leases.keep_up, lease)

        def keep(record: Record) -> None:
            patiently(
                lambda: self.archive.enter(lease, record),
                lambda words: self._note_wait(lease, words),
                lambda: self._still_ours(lease),
            )

        if lease.todo:
            self.executor.measure(lease, before, keep)
        following = patiently(lambda: self._courses.next_after(lease), self.say)
        self._patiently(leases.finish, lease, following)
        self._blocks += 1
        return f"{lease} is measured, {time.monotonic() - begun:.1f} s"

    def _unfit(self, standing: _PoolStanding) -> str | None:
        """Why the testbed cannot measure now; news of it are sent to the pool."""
        profile, wire_pps = standing.profile, standing.wire_pps
        checked = self.executor.check(profile, wire_pps)
        is_new = bool(checked.problem or checked.wire_pps) or profile is None
        if standing.state == "ready" and not is_new:
            return None

        def tell(db: Connection[Any]) -> None:
            if checked.problem is not None:
                problem = checked.problem.replace("TESTBED", self.member.testbed)
                testbeds.take_out(db, self.member, problem)
                return
            if checked.wire_pps or profile is None:
                known = list(checked.wire_pps) or wire_pps
                testbeds.keep_profile(db, self.member, dict(checked.profile), known)
            testbeds.take_in(db, self.member)

        self._patiently(tell)
        return checked.problem

    def _standing(self, db: Connection[Any]) -> _PoolStanding:
        state = testbeds.state_of(db, self.member)
        if state is None:
            raise self._replaced()
        return _PoolStanding(state, *testbeds.profile_of(db, self.member.testbed))

    def _replaced(self) -> Replaced:
        return Replaced(f"another agent serves {self.member.testbed} now")

    def _claim(self, db: Connection[Any]) -> BlockLease | None:
        """Claim a block. (A claim whose answer was lost is claimed again: the testbed still holds
        that block, so it is given back first.) Raises `Replaced`: another agent's is left alone."""
        if testbeds.state_of(db, self.member) is None:
            raise self._replaced()
        testbeds.take_back(db, self.member)
        return leases.claim(db, self.member)

    def _still_ours(self, lease: BlockLease) -> None:
        """Whether the lease still holds. While one part of the store is away, the other may still
        hear the agent."""
        with suppress(StoreAwayError):
            self._once(leases.keep_up, lease)

    def _note_wait(self, lease: BlockLease, words: str) -> None:
        self.say(words)
        with suppress(SwitchmarkError):
            self._once(note_of_lease, lease, f"{lease.testbed}: {words}")

    def _once(self, act: Callable[[Connection[Any], *Ts], T], *args: *Ts) -> T:
        """Call the function in a transaction of its own. Raises `StoreAwayError`."""
        with self.database.transaction() as db:
            return act(db, *args)

    def _patiently(self, act: Callable[[Connection[Any], *Ts], T], *args: *Ts) -> T:
        """Call the function in a transaction of its own, as soon as the store is there."""
        return patiently(lambda: self._once(act, *args), self.say)


@contextmanager
def agent_of(
    testbed: str,
    database: PoolDatabase,
    archive: Archive,
    executor: BlockExecutor,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.time,
) -> Iterator[Agent]:
    """Register an agent on a machine that is clean. Raises `UnavailableError` where there is
    another one, `StoreAwayError` where the pool cannot be asked."""
    with _only_one_here(testbed) as place:
        left = executor.clean()
        where = f"{socket.gethostname()}, process {os.getpid()}"

        def register() -> Membership:
            with database.transaction() as db:
                return testbeds.register(db, testbed, place, where, clock())

        member = patiently(register, say)
        agent = Agent(member, database, archive, executor, say, clock)
        try:
            for line in left:
                with database.transaction() as db:
                    note_event(db, f"left behind on {testbed}: {line}", testbed=testbed)
            yield agent
        finally:
            agent.leave()


@contextmanager
def _only_one_here(testbed: str) -> Iterator[str]:
    """Hold this machine's (state directory's) lock for an agent; returns the agent's name. The
    kernel frees the lock when the agent dies."""
    directory = state_folder()
    fd = open_lock(directory / "agent.lock")
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 200, 0).decode(errors="replace").strip() or "another process"
            raise UnavailableError(
                f"an agent runs here already ({holder}): stop it first, or let it go on"
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"process {os.getpid()}, testbed {testbed}\n".encode(), 0)
        yield f"{socket.gethostname()} {procfs.boot_id()} {directory}"
    finally:
        os.close(fd)
