"""The agent's side of Dask: a worker with one thread, which passes each message on to the agent.

Dask's event loop lives in a thread of its own; the agent works in the main one, where signals end
it cleanly. While it measures, the loop's periodic callbacks (heartbeats) are stopped: nothing is
sent while frames flow. A worker whose scheduler has gone ends; a new one takes its place as soon as
there is a scheduler again. The block goes on meanwhile: it depends on the store alone.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from distributed import Worker
from distributed.security import Security

from switchmark.errors import UnavailableError
from switchmark.http_guard import LOOPBACK, is_loopback
from switchmark.pool.dask_settings import set_up_dask
from switchmark.pool.own_certificate import pool_folder

RESOURCE = "testbed:"
_RETRY_S = 1.0

_WORDS: queue.Queue[Future[str]] = queue.Queue()  # of this process's one agent


def work_here(testbed: str) -> str:  # noqa: ARG001 (names the task in Dask's own messages)
    """Pass the message on to the agent, and wait for its answer; Dask runs this."""
    word: Future[str] = Future()
    _WORDS.put(word)
    return word.result()


class WorkerThread:
    """Keeps a Dask worker connected for as long as the agent runs. A context manager."""

    def __init__(
        self, contact: str, security: Security, testbed: str, say: Callable[[str], None]
    ) -> None:
        self._contact = contact
        self._security = security
        self._testbed = testbed
        self._say = say
        self._worker: Worker | None = None
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._silent = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="dask-worker")

    def __enter__(self) -> WorkerThread:
        set_up_dask()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=10)

    def next_word(self, timeout_s: float) -> Future[str] | None:
        """The next call to work; None when none came in time."""
        with suppress(queue.Empty):
            return _WORDS.get(timeout=timeout_s)
        return None

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Send nothing unasked to the scheduler while a block is measured."""
        self._be_silent(True)
        try:
            yield
        finally:
            self._be_silent(False)

    def _be_silent(self, silent: bool) -> None:
        """Stop or start the worker's periodic callbacks, in its loop."""
        done = threading.Event()

        def act() -> None:
            self._silent = silent
            for callback in self._worker.periodic_callbacks.values() if self._worker else ():
                callback.stop() if silent else callback.start()
            done.set()

        with suppress(RuntimeError):  # (the loop has ended)
            self._loop.call_soon_threadsafe(act)
            done.wait(timeout=5)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._keep_connected())

    async def _keep_connected(self) -> None:
        told = False
        while not self._stop.is_set():
            if not self._silent:  # (no new connection while frames flow, either)
                try:
                    await self._connected()
                    told = False
                except (OSError, TimeoutError, RuntimeError, ValueError) as error:
                    if not told:
                        self._say(f"waiting for the pool at {self._contact}: {_line(error)}")
                    told = True
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), _RETRY_S)

    async def _connected(self) -> None:
        """Be a worker until the scheduler goes, or the agent ends."""
        async with Worker(
            self._contact,
            nthreads=1,
            resources={f"{RESOURCE}{self._testbed}": 1},
            security=self._security,
            memory_limit=0,
            dashboard=False,
            dashboard_address=None,
            local_directory=str(pool_folder()),  # an empty folder stays there: not in /tmp
            host=LOOPBACK if is_loopback(urlsplit(self._contact).hostname or "") else None,
            death_timeout=10,
        ) as worker:
            self._worker = worker
            self._say(f"{self._testbed} is with the pool at {self._contact}")
            ended = asyncio.create_task(worker.finished())
            stopped = asyncio.create_task(self._stop.wait())
            await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
            for task in (ended, stopped):
                task.cancel()
            self._worker = None
            if not self._stop.is_set():
                self._say("the pool's scheduler has gone; what is measured goes on")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def only_main_thread() -> None:
    """Raise UnavailableError in any other thread: signals reach the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        raise UnavailableError("an agent runs in a program's main thread")
