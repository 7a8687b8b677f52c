"""Blocks in Dask's queue: a real scheduler and real workers in this process, and no database."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import pytest

pytest.importorskip("distributed")
from distributed import Client, Scheduler, Worker

from switchmark.pool import agent_loop, scheduler
from switchmark.pool.agent_loop import set_up_dask
from switchmark.pool.database import PoolDatabase
from switchmark.pool.scheduler import BlockQueue
from switchmark.pool.values import OpenBlock

LIMIT_S = 60.0


class FakeQueue(BlockQueue):
    """A queue whose open blocks are in memory."""

    def __init__(self, server: Scheduler, client: Client, say: Callable[[str], None]) -> None:
        super().__init__(server, client, cast(PoolDatabase, None), say)
        self.open: dict[int, OpenBlock] = {}
        self.silent: list[str] = []

    def _read(self, submitted: Sequence[int]) -> Any:
        return scheduler._QueueChanges(
            opened=[block for number, block in self.open.items() if number not in submitted],
            ended=[number for number in submitted if number not in self.open],
            silent=self.silent,
            abandoned=[],
        )


class Pool:
    """A scheduler with workers, and a thread that measures blocks in the place of an agent."""

    def __init__(self, queue_: FakeQueue, server: Scheduler, stack: AsyncExitStack) -> None:
        self.queue, self._server, self._stack = queue_, server, stack
        self.measured: list[int] = []
        self.may_measure = threading.Event()
        self.may_measure.set()

    async def add_testbed(self, name: str, *facts: str) -> Worker:
        resources = dict.fromkeys([agent_loop.TESTBED, f"testbed:{name}", *facts], 1.0)
        worker = Worker(
            self._server.address, nthreads=1, name=name, resources=resources, memory_limit=0,
            dashboard=False, dashboard_address=None,
        )  # fmt: skip
        return await self._stack.enter_async_context(worker)

    def task_count(self) -> int:
        return len(self._server.tasks)

    async def compare_until(self, is_reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not is_reached():
                await self.queue.compare()
                await asyncio.sleep(0.05)

    def measure(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.may_measure.wait()
            try:
                task = agent_loop._TASKS.get(timeout=0.05)
            except queue.Empty:
                continue
            if not self.may_measure.is_set():  # cleared while this thread waited
                agent_loop._TASKS.put(task)
                continue
            self.measured.append(task.block)
            self.queue.open.pop(task.block, None)
            task.result.set_result("measured")


def block(number: int, only_on: str | None = None, *, needs_second_host: bool = False) -> OpenBlock:
    return OpenBlock(number, None, only_on, (), needs_second_host)


@pytest.fixture
def messages() -> list[str]:
    return []


@asynccontextmanager
async def pool(messages: list[str]) -> AsyncIterator[Pool]:
    set_up_dask()
    stop = threading.Event()
    async with AsyncExitStack() as stack:
        server = Scheduler(host="127.0.0.1", port=0, dashboard=False, dashboard_address=None)
        await stack.enter_async_context(server)
        client = await stack.enter_async_context(Client(server.address, asynchronous=True))
        rig = Pool(FakeQueue(server, client, messages.append), server, stack)
        thread = threading.Thread(target=rig.measure, args=(stop,))
        thread.start()
        try:
            yield rig
        finally:
            stop.set()
            rig.may_measure.set()
            thread.join()


def run(scenario: Callable[[Pool], Any], messages: list[str]) -> None:
    async def in_pool() -> None:
        async with pool(messages) as rig:
            await scenario(rig)

    asyncio.run(in_pool())


@pytest.fixture(autouse=True)
def no_tasks() -> Iterator[None]:
    yield
    while not agent_loop._TASKS.empty():
        agent_loop._TASKS.get_nowait()


def test_blocks_are_measured_in_their_order(messages: list[str]) -> None:
    async def scenario(rig: Pool) -> None:
        rig.queue.open = {number: block(number) for number in range(8, 13)}
        await rig.queue.compare()
        await rig.add_testbed("lab1")
        await rig.compare_until(lambda: not rig.queue.open)
        assert rig.measured == [8, 9, 10, 11, 12]

    run(scenario, messages)
    assert messages == []


def test_block_waits_for_a_testbed_with_its_resources(messages: list[str]) -> None:
    async def scenario(rig: Pool) -> None:
        await rig.add_testbed("lab1")
        rig.queue.open = {1: block(1, needs_second_host=True), 2: block(2), 3: block(3, "lab2")}
        await rig.compare_until(lambda: 2 in rig.measured and len(messages) == 2)
        assert rig.measured == [2]
        await rig.add_testbed("lab2", "second host")
        await rig.compare_until(lambda: not rig.queue.open)

    run(scenario, messages)
    assert sorted(messages) == [
        "no testbed offers all of second host, testbed; waiting blocks: 1",
        "no testbed offers all of testbed, testbed:lab2; waiting blocks: 1",
    ]


def test_cancelled_block_is_not_measured(messages: list[str]) -> None:
    async def scenario(rig: Pool) -> None:
        rig.queue.open = {1: block(1), 2: block(2)}
        await rig.compare_until(lambda: rig.task_count() == 2)
        del rig.queue.open[1]
        await rig.queue.compare()
        await rig.add_testbed("lab1")
        await rig.compare_until(lambda: not rig.queue.open)
        assert rig.measured == [2]

    run(scenario, messages)


def test_tasks_of_a_silent_agent_go_elsewhere(messages: list[str]) -> None:
    async def scenario(rig: Pool) -> None:
        rig.may_measure.clear()
        await rig.add_testbed("lab1")
        rig.queue.open = {1: block(1)}
        await rig.compare_until(lambda: not agent_loop._TASKS.empty())
        agent_loop._TASKS.get_nowait()  # the agent of lab1 never answers
        await rig.add_testbed("lab2")
        rig.queue.silent = ["lab1"]
        rig.may_measure.set()
        await rig.compare_until(lambda: not rig.queue.open)

    run(scenario, messages)
    assert messages == ["lab1: its agent is silent; its tasks go to other testbeds"]


def test_block_that_is_still_open_is_submitted_again(messages: list[str]) -> None:
    async def scenario(rig: Pool) -> None:
        rig.may_measure.clear()
        await rig.add_testbed("lab1")
        rig.queue.open = {1: block(1)}
        await rig.compare_until(lambda: not agent_loop._TASKS.empty())
        agent_loop._TASKS.get_nowait().result.set_result("lab1 is out")
        rig.may_measure.set()
        await rig.compare_until(lambda: not rig.queue.open)

    run(scenario, messages)
