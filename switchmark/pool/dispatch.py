"""`pool serve`: Dask's scheduler, and the dispatcher that asks it to let a testbed work.

It has no state of its own. PostgreSQL holds the blocks and who has them; Dask carries only the
message "there is work" to one testbed, and the news that come back. At most one such message is on
its way to each testbed, and the testbed claims its block itself when it hears it. A message that
gets lost is sent again; one that is sent twice finds nothing to claim. So whatever becomes of the
scheduler, nothing is lost, and nothing is done twice.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import dask
from distributed import Client, Future, Scheduler
from distributed.security import Security

from switchmark.errors import SwitchmarkError, UnavailableError
from switchmark.pool import testbeds
from switchmark.pool.dask_settings import set_up_dask
from switchmark.pool.database import PoolDatabase
from switchmark.pool.left_out import leave_out
from switchmark.pool.worker import RESOURCE, work_here
from switchmark.store.errors import StoreAwayError

POLL_S = 0.25
LEAVE_OUT_EVERY_S = 10.0
ANSWER_S = 5.0  # of a worker that has its news, or of the scheduler beside us
STORE_KEY = ["switchmark", "store"]  # of the scheduler's metadata: where agents and laptops find it


async def serve(
    contact: str,
    security: Security,
    database: PoolDatabase,
    say: Callable[[str], None],
    stop: asyncio.Event,
) -> None:
    """Serve until `stop`. Raises UnavailableError where the address cannot be listened at."""
    set_up_dask()
    try:
        scheduler = await start_scheduler(contact, security)
    except OSError as error:
        raise UnavailableError(f"{contact}: cannot be listened at ({error.strerror})") from None
    try:
        async with Client(scheduler.address, asynchronous=True, security=security) as client:
            await client.set_metadata(STORE_KEY, str(database.address))
            say(f"pool at {scheduler.address}, store {database.address}")
            dispatcher = Dispatcher(scheduler, client, database, say)
            while not stop.is_set():
                await dispatcher.turn()
                await dispatcher.wait(stop)
    finally:
        await scheduler.close()
        database.close()


async def start_scheduler(contact: str, security: Security) -> Scheduler:
    """Start Dask's scheduler, without the folder that it makes for uploaded modules.

    Nothing is uploaded here; the folder would be below a name in /tmp that anybody can take first,
    Python would look for modules in it, and it would stay when the scheduler is killed."""
    with (
        tempfile.TemporaryDirectory(prefix="switchmark-pool-") as scratch,
        dask.config.set({"temporary-directory": scratch}),
    ):
        made = Scheduler(host=contact, security=security, dashboard=False, dashboard_address=None)
    sys.path.remove(made.local_directory)
    return await made


class Dispatcher:
    """Sends "work" to each testbed for which there is some, and takes the news."""

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
        self._sent: dict[str, tuple[str, Future]] = {}  # by testbed: the worker's address, the word
        self._words = 0
        self._leave_out_at = 0.0
        self._is_away = False
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def wait(self, stop: asyncio.Event) -> None:
        """Wait for news, or for the time to look anew."""
        waits = [asyncio.create_task(one.wait()) for one in (self._news, stop)]
        await asyncio.wait(waits, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()
        self._news.clear()

    async def turn(self) -> None:
        """Take the news that came back, and send what is due."""
        here = self._connected()
        for testbed, (address, future) in list(self._sent.items()):
            if future.done():
                await self._take(testbed, future)
            elif here.get(testbed) != address:
                # The word was for a worker that has gone: Dask would keep it for ever.
                del self._sent[testbed]
                await self._forget(future)
                self._say(f"{testbed}: its agent has gone, or came anew")
        for testbed in await self._wanted():
            if testbed in here and testbed not in self._sent:
                self._send(testbed, here[testbed])

    def _connected(self) -> dict[str, str]:
        """The address of each testbed's worker."""
        found = {}
        for address, worker in self._scheduler.workers.items():
            for resource in worker.resources:
                found[resource.removeprefix(RESOURCE)] = address
        return found

    async def _wanted(self) -> list[str]:
        """The testbeds for which there is work. (In a thread: a database that hangs must not keep
        the scheduler from its workers.)"""
        try:
            wanted = await asyncio.to_thread(self._ask)
        except StoreAwayError as error:
            if not self._is_away:
                self._say(f"waiting for the store: {error}")
            self._is_away = True
            return []
        if self._is_away:
            self._say("the store is there again")
            self._is_away = False
        return wanted

    def _ask(self) -> list[str]:
        with self._database.transaction() as db:
            if time.monotonic() >= self._leave_out_at:
                self._leave_out_at = time.monotonic() + LEAVE_OUT_EVERY_S
                for words in leave_out(db):
                    self._say(words)
            return testbeds.wanted_testbeds(db)

    def _send(self, testbed: str, address: str) -> None:
        self._words += 1
        future = self._client.submit(
            work_here,
            testbed,
            key=f"work-{testbed}-{self._words}-{id(self):x}",
            resources={f"{RESOURCE}{testbed}": 1},
            workers=[address],
            allow_other_workers=False,
            pure=False,
            retries=0,
        )
        future.add_done_callback(lambda _: self._wake())
        self._sent[testbed] = (address, future)

    def _wake(self) -> None:
        """Wake `wait`. (Dask calls from a thread of its own.)"""
        self._loop.call_soon_threadsafe(self._news.set)

    async def _forget(self, future: Future) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._client.cancel([future], force=True), ANSWER_S)

    async def _take(self, testbed: str, future: Future) -> None:
        del self._sent[testbed]
        try:
            news: Any = await asyncio.wait_for(future.result(), ANSWER_S)
        except asyncio.CancelledError:
            if future.cancelled():
                return
            raise
        except TimeoutError:
            # It went with its worker before it could be fetched: Dask would wait for ever.
            await self._forget(future)
            news = "its agent has gone with its news"
        except Exception as error:
            news = f"its agent was lost ({type(error).__name__})"
        self._say(f"{testbed}: {news}")


def store_of(contact: str, security: Security) -> str:
    """Ask a pool for the address of its store. Raises SwitchmarkError where nobody answers."""
    set_up_dask()
    try:
        with Client(
            contact, security=security, timeout="10s", set_as_default=False, direct_to_workers=False
        ) as client:
            found = client.get_metadata(STORE_KEY, default=None)
    except (OSError, TimeoutError) as error:
        raise SwitchmarkError(
            f"{contact}: no pool of yours answers ({' '.join(str(error).split())[:200]}); start it "
            "there, as the same user and with the same SWITCHMARK_STATE_DIR, with: switchmark pool "
            "serve; one of other users takes certificates (docs/pool.md)"
        ) from None
    if not isinstance(found, str):
        raise SwitchmarkError(f"{contact}: a Dask scheduler answers, but no pool of switchmark")
    return found
