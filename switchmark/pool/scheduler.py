"""`pool serve`: Dask's scheduler, to which the open blocks of PostgreSQL are submitted as tasks.

Dask decides when and on which testbed a block is measured. This program only keeps Dask's queue
equal to the open blocks in PostgreSQL: it submits blocks that became open (a new campaign, a
returned block, a lease that ended), cancels tasks of cancelled campaigns, and removes workers whose
agent has been silent until its lease ended. It stores nothing.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dask
from distributed import Client, Future, Scheduler, SchedulerPlugin
from distributed.security import Security

from switchmark.errors import SwitchmarkError, UnavailableError
from switchmark.pool import leases, testbeds
from switchmark.pool.agent_loop import (
    SECOND_HOST,
    TESTBED,
    measure_block,
    set_up_dask,
    testbed_resource,
)
from switchmark.pool.database import PoolDatabase
from switchmark.pool.values import OpenBlock
from switchmark.store.errors import StoreAwayError

COMPARE_EVERY_S = 1.0  # without news from Dask
COMPARE_AT_MOST_EVERY_S = 0.2
ABANDON_EVERY_S = 10.0
STORE_KEY = ["switchmark", "store"]  # in the scheduler's metadata: agents and clients read it


async def serve(
    contact: str,
    security: Security,
    database: PoolDatabase,
    say: Callable[[str], None],
    stop: asyncio.Event,
    dashboard: str | None = None,
) -> None:
    """Serve until `stop`, with Dask's dashboard at this address if there is one.

    Raises `UnavailableError` if the address cannot be used."""
    set_up_dask()
    try:
        scheduler = await start_scheduler(contact, security, dashboard)
    except OSError as error:
        raise UnavailableError(f"{contact}: cannot be listened at ({error.strerror})") from None
    try:
        async with Client(scheduler.address, asynchronous=True, security=security) as client:
            await client.set_metadata(STORE_KEY, str(database.address))
            say(f"pool at {scheduler.address}, store {database.address}")
            if dashboard is not None:
                say(f"dashboard at http://{dashboard}/status")
            queue = BlockQueue(scheduler, client, database, say)
            scheduler.add_plugin(queue)
            while not stop.is_set():
                await queue.compare()
                await queue.wait(stop)
    finally:
        await scheduler.close()
        database.close()


async def start_scheduler(
    contact: str, security: Security, dashboard: str | None = None
) -> Scheduler:
    """Start Dask's scheduler, without its folder for uploaded modules.

    Nothing is uploaded to a pool. The folder would be below a name in /tmp that another user can
    create first, Python would search it for modules, and it would stay when the scheduler is
    killed."""
    pages: list[str] = []  # anybody who can connect may read them
    if dashboard is not None:
        pages = dask.config.get("distributed.scheduler.http.routes")
    with (
        tempfile.TemporaryDirectory(prefix="switchmark-pool-") as scratch,
        dask.config.set(
            {"temporary-directory": scratch, "distributed.scheduler.http.routes": pages}
        ),
    ):
        scheduler = Scheduler(
            host=contact,
            security=security,
            dashboard=dashboard is not None,
            dashboard_address=dashboard,
        )
    sys.path.remove(scheduler.local_directory)
    return await scheduler


@dataclass
class _Task:
    """A block in Dask's queue."""

    future: Future
    workers: frozenset[str] | None  # the only workers that may run it; None: any


class BlockQueue(SchedulerPlugin):  # type: ignore[misc] # its base is not typed
    """Keeps Dask's tasks equal to the open blocks in PostgreSQL."""

    def __init__(
        self,
        scheduler: Scheduler,
        client: Client,
        database: PoolDatabase,
        say: Callable[[str], None],
    ) -> None:
        self._scheduler = scheduler
        self._client = client
        self._database = database
        self._say = say
        self._tasks: dict[int, _Task] = {}  # by block
        self._submissions = 0
        self._unplaced: set[frozenset[str]] = set()  # resources of blocks that were reported
        self._abandon_s = 0.0  # the monotonic time of the next attempt
        self._is_waiting = False
        self._news = asyncio.Event()

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Compare again soon when a task has ended. Dask calls this at each change of a task."""
        if finish in ("memory", "erred", "no-worker"):
            self._news.set()

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:  # noqa: ARG002
        """Compare again soon when an agent connects."""
        self._news.set()

    async def wait(self, stop: asyncio.Event) -> None:
        """Wait until it is time to compare again."""
        await asyncio.sleep(COMPARE_AT_MOST_EVERY_S)
        events = [asyncio.create_task(event.wait()) for event in (self._news, stop)]
        await asyncio.wait(events, timeout=COMPARE_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
        for event in events:
            event.cancel()
        self._news.clear()

    async def compare(self) -> None:
        """Make Dask's tasks equal to the open blocks. If the store is away, change nothing."""
        self._drop_ended()
        try:
            # In a thread: a slow database must not keep the scheduler from its workers.
            changes = await asyncio.to_thread(self._read, list(self._tasks))
        except StoreAwayError as error:
            if not self._is_waiting:
                self._say(f"waiting for the store: {error}")
            self._is_waiting = True
            return
        if self._is_waiting:
            self._say("the store answers again")
            self._is_waiting = False
        for text in changes.abandoned:
            self._say(text)
        workers = self._workers()
        for testbed in changes.silent:
            if testbed in workers:
                self._say(f"{testbed}: its agent is silent; its tasks go to other testbeds")
                await self._scheduler.remove_worker(
                    workers.pop(testbed), stimulus_id=f"silent-{time.time()}", expected=True
                )
        self._cancel(changes.ended)
        self._submit(changes.opened, workers)
        self._report_unplaced()

    def _read(self, submitted: Sequence[int]) -> _QueueChanges:
        with self._database.transaction() as db:
            abandoned: list[str] = []
            if time.monotonic() >= self._abandon_s:
                self._abandon_s = time.monotonic() + ABANDON_EVERY_S
                abandoned = leases.abandon_unreachable(db)
            known = set(submitted)
            open_ids = leases.open_block_ids(db)
            opened = [block for block in open_ids if block not in known]
            missing = list(known.difference(open_ids))
            return _QueueChanges(
                opened=leases.open_blocks(db, opened) if opened else [],
                ended=leases.ended_blocks(db, missing) if missing else [],
                silent=testbeds.silent_testbeds(db),
                abandoned=abandoned,
            )

    def _workers(self) -> dict[str, str]:
        """Return the address of each testbed's worker."""
        return {
            str(worker.name): address
            for address, worker in self._scheduler.workers.items()
            if TESTBED in worker.resources
        }

    def _drop_ended(self) -> None:
        """Forget tasks that have ended, and those that only lost workers may run."""
        for block, task in list(self._tasks.items()):
            if task.future.done():
                if task.future.status == "error":
                    self._say(f"block {block}: {task.future.exception}")
                del self._tasks[block]
            elif task.workers is not None and task.workers.isdisjoint(self._scheduler.workers):
                task.future.release()
                del self._tasks[block]

    def _cancel(self, blocks: Sequence[int]) -> None:
        """Cancel the tasks of blocks that ended without them. Dask stops those that wait; an agent
        that measures such a block is refused before its next trial."""
        keys = [self._tasks.pop(block).future.key for block in blocks if block in self._tasks]
        if keys:
            self._scheduler.stimulus_cancel(
                keys, self._client.id, force=True, reason="cancelled", msg="the block has ended"
            )

    def _submit(self, blocks: Sequence[OpenBlock], workers: Mapping[str, str]) -> None:
        """Submit the blocks to Dask, in their order."""
        groups: dict[Placement, list[int]] = defaultdict(list)
        for block in blocks:
            placement = placement_of(block, workers)
            if placement is not None:
                groups[placement].append(block.block)
        for placement, members in groups.items():
            self._submissions += 1
            futures = self._client.map(
                measure_block,
                members,
                key=[f"block-{block:010d}-{self._submissions}" for block in members],
                resources=dict.fromkeys(placement.resources, 1),
                workers=None if placement.workers is None else sorted(placement.workers),
                allow_other_workers=placement.is_preference,
                priority=1 if placement.is_preference else 0,  # a block that was begun
                retries=leases.GIVEN_UP_AFTER,
                pure=False,
            )
            only = None if placement.is_preference else placement.workers
            for number, future in zip(members, futures, strict=True):
                self._tasks[number] = _Task(future, only)

    def _report_unplaced(self) -> None:
        """Report once that no connected testbed offers what waiting blocks need."""
        offers = [worker.resources.keys() for worker in self._scheduler.workers.values()]
        waiting = Counter(
            frozenset(task.resource_restrictions or ()) for task in self._scheduler.unrunnable
        )
        unplaced = {
            needs: count
            for needs, count in waiting.items()
            if offers and not any(needs <= offer for offer in offers)
        }
        for needs, count in unplaced.items():
            if needs not in self._unplaced:
                resources = ", ".join(sorted(needs))
                self._say(f"no testbed offers all of {resources}; waiting blocks: {count}")
        self._unplaced = set(unplaced)


@dataclass(frozen=True, slots=True)
class _QueueChanges:
    """The differences between PostgreSQL and Dask's queue."""

    opened: Sequence[OpenBlock]
    ended: Sequence[int]
    silent: Sequence[str]  # testbeds
    abandoned: Sequence[str]  # events


@dataclass(frozen=True, slots=True)
class Placement:
    """The testbeds on which Dask may place a block."""

    resources: tuple[str, ...]
    workers: frozenset[str] | None = None
    is_preference: bool = False  # other workers may run it also


def placement_of(block: OpenBlock, workers: Mapping[str, str]) -> Placement | None:
    """Return the placement of a block; None if no connected testbed may measure it now.

    A block that was begun goes back to its testbed if possible, so that its trials stay valid."""
    resources = [TESTBED]
    if block.only_on is not None:
        resources.append(testbed_resource(block.only_on))
    elif block.needs_second_host:
        resources.append(SECOND_HOST)
    if block.unable and block.only_on is None:
        able = frozenset(workers[name] for name in workers if name not in block.unable)
        return Placement(tuple(resources), able) if able else None
    if block.testbed is not None and block.testbed in workers and block.only_on is None:
        preferred = frozenset({workers[block.testbed]})
        return Placement(tuple(resources), preferred, is_preference=True)
    return Placement(tuple(resources))


def store_of(contact: str, security: Security) -> str:
    """Ask a pool for the address of its store. Raises `SwitchmarkError` if no pool answers."""
    set_up_dask()
    try:
        with Client(
            contact, security=security, timeout="10s", set_as_default=False, direct_to_workers=False
        ) as client:
            store = client.get_metadata(STORE_KEY, default=None)
    except (OSError, TimeoutError) as error:
        raise SwitchmarkError(
            f"{contact}: no pool of yours answers ({' '.join(str(error).split())[:200]})",
            remedy="start it there, as the same user and with the same SWITCHMARK_STATE_DIR, with: "
            "switchmark pool serve; for several users make certificates: switchmark pool init",
        ) from None
    if not isinstance(store, str):
        raise SwitchmarkError(f"{contact}: a Dask scheduler answers, but not a switchmark pool")
    return store
