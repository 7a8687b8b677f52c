"""The Dask worker of a testbed, and the loop of its agent.

Dask's event loop runs in a thread. The agent works in the main thread, where signals end it
cleanly: the task of a block passes the block to it and waits for the result. While frames flow, the
thread of the event loop is stopped, so that it neither sends nor receives; it catches up between
trials. A testbed that is out or drained has no worker, so Dask places nothing on it. When the
scheduler is lost, the agent finishes its block, which depends on the store alone, and connects
again as soon as there is a scheduler.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import dask
from distributed import Status, Worker
from distributed.security import Security

from switchmark.errors import UnavailableError
from switchmark.host.signals import signals_raise
from switchmark.http_guard import LOOPBACK, is_loopback
from switchmark.pool.agent import Agent, AgentReplaced, TestbedLost
from switchmark.pool.security import pool_folder

# Abstract resources of Dask. Each testbed offers one of each kind that it has.
TESTBED = "testbed"
SECOND_HOST = "second host"

_RECONNECT_S = 1.0
_TASK_WAIT_S = 1.0
_LOOP_S = 10.0  # for the thread of the event loop to follow a request


# Agents are silent while frames flow, for as long as a trial takes, so Dask must not take silence
# for a loss: PostgreSQL's leases decide that. Dask counts a lost worker against all tasks that
# waited there. PostgreSQL counts the lost leases of each block instead (`GIVEN_UP_AFTER`).
_DASK_SETTINGS: dict[str, object] = {
    "distributed.worker.http.routes": [],
    "distributed.scheduler.allowed-failures": 1_000_000,
    "distributed.scheduler.worker-ttl": None,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "1 minute",
    "distributed.comm.timeouts.connect": "10s",
    "distributed.comm.timeouts.tcp": "1 hour",
}


def set_up_dask() -> None:
    """Apply the settings of a pool to Dask in this process."""
    dask.config.set(_DASK_SETTINGS)
    for name in ("distributed", "distributed.core", "distributed.worker", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def testbed_resource(testbed: str) -> str:
    """Return the resource that only this testbed offers."""
    return f"testbed:{testbed}"


@dataclass(frozen=True)
class _BlockTask:
    """A block that Dask has placed on this testbed."""

    block: int
    result: Future[str] = field(default_factory=Future)


_TASKS: queue.Queue[_BlockTask] = queue.Queue()  # a process has one agent


def measure_block(block: int) -> str:
    """Pass the block to the agent and wait for its result. Dask runs this in a worker."""
    task = _BlockTask(block)
    _TASKS.put(task)
    return task.result.result()


def run_agent(
    agent: Agent,
    contact: str,
    security: Security,
    say: Callable[[str], None],
    facts: Sequence[str] = (),
) -> None:
    """Measure what Dask places here until SIGTERM, SIGHUP or Ctrl-C. They end a running trial and
    clean up after it.

    `facts` are the resources of the testbed that blocks may need. Raises `AgentReplaced` when
    another agent acts for the testbed."""
    _require_main_thread()
    testbed = agent.member.testbed
    resources = [TESTBED, testbed_resource(testbed), *facts]
    with signals_raise(), WorkerThread(contact, security, testbed, resources, say) as worker:
        agent.network = worker
        while True:
            worker.set_wanted(agent.is_ready())
            try:
                task = _TASKS.get(timeout=_TASK_WAIT_S)
            except queue.Empty:
                continue
            try:
                outcome = agent.measure(task.block)
                # First disconnect a testbed that is out: Dask then places the task elsewhere.
                worker.set_wanted(agent.is_ready())
            except TestbedLost as error:
                task.result.set_exception(RuntimeError(str(error)))  # Dask tries it again
            except AgentReplaced as error:
                task.result.set_result(str(error))
                raise
            except BaseException:
                task.result.set_result("the agent has ended")
                raise
            else:
                task.result.set_result(outcome)


class WorkerThread:
    """Keeps a Dask worker connected while the testbed is ready. A context manager."""

    def __init__(
        self,
        contact: str,
        security: Security,
        testbed: str,
        resources: Sequence[str],
        say: Callable[[str], None],
    ) -> None:
        self._contact = contact
        self._security = security
        self._testbed = testbed
        self._resources = dict.fromkeys(resources, 1.0)
        self._say = say
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._change = asyncio.Event()  # set when `_is_wanted` changes
        self._is_wanted = False
        self._is_disconnected = threading.Event()
        self._is_disconnected.set()
        self._may_run = threading.Event()  # cleared while frames flow
        self._may_run.set()
        self._thread = threading.Thread(target=self._run, daemon=True, name="dask-worker")

    def __enter__(self) -> WorkerThread:
        set_up_dask()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.resume()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)
            self._loop.call_soon_threadsafe(self._change.set)
        self._thread.join(timeout=_LOOP_S)

    def set_wanted(self, is_wanted: bool) -> None:
        """Connect to the scheduler as soon as possible, or disconnect now."""
        if is_wanted == self._is_wanted:
            return
        self._is_wanted = is_wanted
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._change.set)
        if not is_wanted:
            self._is_disconnected.wait(timeout=_LOOP_S)

    def pause(self) -> None:
        """Stop the thread of the event loop until `resume`. Idempotent."""
        if not self._may_run.is_set():
            return
        is_stopped = threading.Event()

        def stop() -> None:
            is_stopped.set()
            self._may_run.wait()

        self._may_run.clear()
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(stop)
            is_stopped.wait(timeout=_LOOP_S)

    def resume(self) -> None:
        """Let the event loop run again. Idempotent."""
        self._may_run.set()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._keep_connected())

    async def _keep_connected(self) -> None:
        is_waiting = False
        while not self._stop.is_set():
            if self._is_wanted:
                try:
                    await self._connect()
                    is_waiting = False
                except (OSError, TimeoutError, RuntimeError, ValueError) as error:
                    if not is_waiting:
                        self._say(f"waiting for the pool at {self._contact}: {_line(error)}")
                    is_waiting = True
            with suppress(TimeoutError):
                await asyncio.wait_for(self._change.wait(), _RECONNECT_S)
            self._change.clear()

    async def _connect(self) -> None:
        """Be a worker until the scheduler is lost, the testbed is not ready, or the agent ends."""
        worker = Worker(
            self._contact,
            nthreads=1,
            name=self._testbed,
            resources=self._resources,
            security=self._security,
            memory_limit=0,
            dashboard=False,
            dashboard_address=None,
            local_directory=str(pool_folder()),  # its empty folder stays, so not in /tmp
            host=LOOPBACK if is_loopback(urlsplit(self._contact).hostname or "") else None,
            death_timeout=10,
        )
        self._is_disconnected.clear()
        try:
            await worker
            self._say(f"{self._testbed} is with the pool at {self._contact}")
            ended = asyncio.create_task(worker.finished())
            while not ended.done() and self._is_wanted and not self._stop.is_set():
                change = asyncio.create_task(self._change.wait())
                await asyncio.wait({ended, change}, return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                self._change.clear()
            if ended.done():
                self._say("the connection to the scheduler is lost; a running block goes on")
            ended.cancel()
        finally:
            # A task that still runs belongs to the main thread: do not wait for it.
            if worker.status not in (Status.closed, Status.failed):
                with suppress(TimeoutError):
                    closing = worker.close(executor_wait=False, reason="the testbed is not ready")
                    await asyncio.wait_for(closing, _LOOP_S)
            self._is_disconnected.set()


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _require_main_thread() -> None:
    """Raise `UnavailableError` in any other thread: only the main thread receives signals."""
    if threading.current_thread() is not threading.main_thread():
        raise UnavailableError("an agent runs in the main thread of a program")
