"""The agent of a testbed: it checks the testbed, measures the blocks that Dask places on it, and
stores their records.

It works in the thread of its caller. It talks to the store before and after each trial, and never
while frames flow. An agent that ends cleans the machine; if it was killed, the next agent on this
machine cleans up.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
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
from switchmark.pool.database import PoolDatabase, retry
from switchmark.pool.events import note_event, note_lease_event
from switchmark.pool.proving import TestbedSchedules
from switchmark.pool.values import BlockLease, LeaseLost, Membership
from switchmark.record import Record
from switchmark.store.errors import StoreAwayError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
REPORT_S = 10.0  # between two reports of an idle agent
REPORT_UNREADY_S = 2.0  # the same, of a testbed that is out or drained


class AgentReplaced(SwitchmarkError):
    """Another agent acts for the testbed now."""


class TestbedLost(SwitchmarkError):
    """A part of the testbed was lost during a block: this is not a result of the campaign."""

    __test__ = False  # not a test class


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """The result of a check. A testbed without a profile passes as it is."""

    problem: str | None
    profile: Mapping[str, Any]
    wire_pps: tuple[float, ...]  # empty unless the testbed is admitted now


class BlockExecutor(Protocol):
    """Checks a testbed, and measures blocks on it."""

    def check(self, profile: Mapping[str, Any] | None, wire_pps: list[float]) -> HealthCheck:
        """Compare the testbed with its profile in the pool; None: it has no profile yet."""
        ...

    def measure(
        self,
        lease: BlockLease,
        before: Callable[[Trial], None],
        keep: Callable[[Record], None],
    ) -> None:
        """Measure the rest of the block, and leave nothing of it on the machine.

        `before` is called before each trial is deployed, `keep` gets its record; both may raise to
        end the block. Raises `UnavailableError` and `UsageError` for a block that this testbed
        cannot measure, `TestbedLost` for a block that it can measure after a repair."""
        ...

    def clean(self) -> list[str]:
        """Remove what a killed agent left on the machine; return one line for each failure."""
        ...


class RecordArchive(Protocol):
    """The place for records."""

    def enter(self, lease: BlockLease, record: Record) -> None:
        """Store the record if the lease is valid. Storing the same record again has no effect.

        Raises `LeaseLost`, `StoreAwayError`."""
        ...


class StoreArchive:
    """Writes records to the store under their lease."""

    def __init__(self, database: PoolDatabase) -> None:
        self._database = database

    def enter(self, lease: BlockLease, record: Record) -> None:
        """See `RecordArchive.enter`.

        The object is written first, under a name with the lease's token. The transaction that
        indexes it locks the row of the lease."""
        content = record.model_dump_json(indent=2).encode() + b"\n"
        with self._database.store() as store:
            store.add_record(
                lease.run_name,
                content,
                lease.token,
                block=lease.number,
                testbed=lease.testbed,
                guard=lambda db: leases.fence(db, lease),
            )


class Network(Protocol):
    """The agent's connection to the scheduler, which must be silent while frames flow."""

    def pause(self) -> None:
        """Stop all traffic with the scheduler."""
        ...

    def resume(self) -> None:
        """Allow it again. Idempotent."""
        ...


class NoNetwork:
    """Stands for the connection of an agent that has no scheduler."""

    def pause(self) -> None:
        """Do nothing."""

    def resume(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class _TestbedRow:
    """The row of the testbed in PostgreSQL."""

    state: str
    profile: dict[str, object] | None  # later checks compare with it; None: there is none yet
    wire_pps: list[float]


@dataclass
class Agent:
    """The agent of one testbed, for as long as it is registered."""

    member: Membership
    database: PoolDatabase
    archive: RecordArchive
    executor: BlockExecutor
    say: Callable[[str], None]
    network: Network = field(default_factory=NoNetwork)
    _reported_s: float = -REPORT_S  # the monotonic time of the last report
    _state: str = ""  # the state of the testbed at that time

    def __post_init__(self) -> None:
        self._schedules = TestbedSchedules(self.database)

    def is_ready(self) -> bool:
        """Return True if the testbed may get blocks; report to the pool if that is due, and check
        a testbed that is out if its next check is due. Raises `AgentReplaced`."""
        interval_s = REPORT_S if self._state == "ready" else REPORT_UNREADY_S
        if time.monotonic() - self._reported_s >= interval_s:
            self._report()
        return self._state == "ready"

    def measure(self, block: int) -> str:
        """Check the testbed, claim the block and measure it; return the outcome in one line.

        A block that was taken or cancelled meanwhile is left alone. Raises `AgentReplaced`, and
        `TestbedLost` after the block was returned."""
        name = self.member.testbed
        row = self._retry(self._read_row)
        if row.state != "ready":
            self._state = row.state
            return f"{name} is {row.state}"
        if (problem := self._health_problem(row)) is not None:
            self._state = "out"
            return f"{name} is taken out: {problem}"
        lease = self._retry(self._claim, block)
        if lease is None:
            return f"{name}: block {block} is not open"
        self.say(f"measures {lease}: {len(lease.todo)} trials, lease {lease.token}")
        outcome = self._measure_leased(lease)
        self.say(outcome)
        return outcome

    def leave(self) -> None:
        """Report that the agent ends."""
        with suppress(SwitchmarkError):
            self._once(testbeds.leave, self.member)
        self.database.close()

    def _measure_leased(self, lease: BlockLease) -> str:
        try:
            return self._measure_and_store(lease)
        except LeaseLost as error:
            outcome = f"{lease.testbed} was refused and ends {lease}: {error}"
            self._retry(note_lease_event, lease, outcome)
            return outcome
        except TestbedLost as error:
            self.say(f"returns {lease}: {error}")
            self._retry(leases.give_back, lease, str(error))
            raise
        except (UnavailableError, UsageError) as error:
            outcome = str(error).splitlines()[0]
            self._retry(leases.refuse, lease, outcome)
            return outcome
        except BaseException as error:  # stopped by a signal, or a bug of the bench
            is_stopped = isinstance(error, SystemExit | KeyboardInterrupt)
            reason = "the agent was stopped" if is_stopped else f"{type(error).__name__}: {error}"
            with suppress(SwitchmarkError), self.database.transaction() as db:
                leases.give_back(db, lease, reason, lost=not is_stopped)
            raise
        finally:
            self.network.resume()
            with suppress(SwitchmarkError):
                self._report(attempts=self._once)

    def _measure_and_store(self, lease: BlockLease) -> str:
        begin_s = time.monotonic()

        def before(_trial: Trial) -> None:
            self.network.resume()  # the trial before may have been a baseline
            self._retry(leases.keep_up, lease)
            self.network.pause()

        def keep(record: Record) -> None:
            self.network.resume()
            retry(
                lambda: self.archive.enter(lease, record),
                lambda text: self._note_wait(lease, text),
                lambda: self._renew_while_waiting(lease),
            )

        if lease.todo:
            self.executor.measure(lease, before, keep)
        following = retry(lambda: self._schedules.next_after(lease), self.say)
        self._retry(leases.finish, lease, following)
        return f"{lease} is measured, {time.monotonic() - begin_s:.1f} s"

    def _report(self, attempts: Callable[..., Any] | None = None) -> None:
        """Report that the agent is alive, and read the state of the testbed."""
        report = (attempts or self._retry)(testbeds.report, self.member)
        if report is None:
            raise self._replaced()
        self._reported_s = time.monotonic()
        self._state = report.state
        if report.is_check_due:
            row = self._retry(self._read_row)
            self._state = "ready" if self._health_problem(row) is None else "out"

    def _health_problem(self, row: _TestbedRow) -> str | None:
        """Check the testbed and report the result to the pool; return the problem."""
        profile, wire_pps = row.profile, row.wire_pps
        self.network.pause()
        try:
            result = self.executor.check(profile, wire_pps)
        finally:
            self.network.resume()
        is_new = bool(result.problem or result.wire_pps) or profile is None
        if row.state == "ready" and not is_new:
            return None

        def save(db: Connection[Any]) -> None:
            if result.problem is not None:
                problem = result.problem.replace("TESTBED", self.member.testbed)
                testbeds.take_out(db, self.member, problem)
                return
            if result.wire_pps or profile is None:
                rates_pps = list(result.wire_pps) or wire_pps
                testbeds.keep_profile(db, self.member, dict(result.profile), rates_pps)
            testbeds.admit(db, self.member)

        self._retry(save)
        return result.problem

    def _read_row(self, db: Connection[Any]) -> _TestbedRow:
        state = testbeds.state_of(db, self.member)
        if state is None:
            raise self._replaced()
        return _TestbedRow(state, *testbeds.profile_of(db, self.member.testbed))

    def _replaced(self) -> AgentReplaced:
        return AgentReplaced(f"another agent serves {self.member.testbed} now")

    def _claim(self, db: Connection[Any], block: int) -> BlockLease | None:
        """Claim the block. Raises `AgentReplaced`.

        If the answer to a claim was lost, the testbed still holds a block: it is returned first."""
        if testbeds.state_of(db, self.member) is None:
            raise self._replaced()
        testbeds.take_back(db, self.member)
        return leases.claim(db, self.member, block)

    def _renew_while_waiting(self, lease: BlockLease) -> None:
        """Renew the lease if possible: the objects may be away while PostgreSQL answers."""
        with suppress(StoreAwayError):
            self._once(leases.keep_up, lease)

    def _note_wait(self, lease: BlockLease, text: str) -> None:
        self.say(text)
        with suppress(SwitchmarkError):
            self._once(note_lease_event, lease, f"{lease.testbed}: {text}")

    def _once(self, action: Callable[[Connection[Any], *Ts], T], *args: *Ts) -> T:
        """Call the function in a transaction. Raises `StoreAwayError`."""
        with self.database.transaction() as db:
            return action(db, *args)

    def _retry(self, action: Callable[[Connection[Any], *Ts], T], *args: *Ts) -> T:
        """Call the function in a transaction; repeat it until the store answers."""
        return retry(lambda: self._once(action, *args), self.say)


@contextmanager
def agent_of(
    testbed: str,
    database: PoolDatabase,
    archive: RecordArchive,
    executor: BlockExecutor,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.time,
) -> Iterator[Agent]:
    """Clean the machine and register an agent. `clock` is reported, and decides nothing.

    Raises `UnavailableError` if there is another agent."""
    with _only_agent_here(testbed) as place:
        failures = executor.clean()
        where = f"{socket.gethostname()}, process {os.getpid()}"

        def register() -> Membership:
            with database.transaction() as db:
                return testbeds.register(db, testbed, place, where, clock())

        member = retry(register, say)
        agent = Agent(member, database, archive, executor, say)
        try:
            for line in failures:
                with database.transaction() as db:
                    note_event(db, f"left behind on {testbed}: {line}", testbed=testbed)
            yield agent
        finally:
            agent.leave()


@contextmanager
def _only_agent_here(testbed: str) -> Iterator[str]:
    """Hold the lock for agents in this state directory; return a name for the place.

    The kernel releases the lock when the agent dies."""
    directory = state_folder()
    fd = open_lock(directory / "agent.lock")
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 200, 0).decode(errors="replace").strip() or "another process"
            raise UnavailableError(
                f"an agent runs here already ({holder})", remedy="stop it first"
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"process {os.getpid()}, testbed {testbed}\n".encode(), 0)
        yield f"{socket.gethostname()} {procfs.boot_id()} {directory}"
    finally:
        os.close(fd)
