"""The connection to another host: SSH, and the agent at its far end.

The SSH protocol runs in a thread of its own; the bench asks and waits. When the connection is lost
everyone who waits is told at once, and so is everyone who asks later; at the far end the agent
undoes what it made.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

import asyncssh

from switchmark.errors import UnavailableError
from switchmark.host.kernel.descriptors import EVENT_LOOP, require_free
from switchmark.host.process_output import NOTHING, last_line, refuse_constant
from switchmark.remote import bundle
from switchmark.remote.codec import from_plain
from switchmark.remote.contact import ClockReading, HostLost
from switchmark.remote.exchange import AgentAnswer, Exchange, RemoteLines
from switchmark.remote.hello import Hello
from switchmark.remote.refusal import CONNECT_TIMEOUT_S, no_command, read_known_hosts, refusal
from switchmark.testbed.testbed import SshTarget

T = TypeVar("T")

HELLO_TIMEOUT_S = 75.0  # it may wait for another agent to undo its things
ANSWER_GRACE_S = 20.0  # beyond the time that the thing asked for may itself take
GOODBYE_TIMEOUT_S = 20.0
HEARTBEAT_S = 2.0
MISSED_HEARTBEATS = 7


class Connection:
    """A connection from `open` to `close` or to its loss; opened again, it begins anew."""

    def __init__(self, target: SshTarget) -> None:
        self.target = target
        self.hello: Hello | None = None
        self._exchange = Exchange(target)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ssh: asyncssh.SSHClientConnection | None = None
        self._agent: asyncssh.SSHClientProcess[bytes] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._words = b""  # the last of the agent's standard error

    @property
    def lost(self) -> str | None:
        """Why the host cannot be asked; None while it can."""
        return self._exchange.lost

    def open(self) -> Hello:
        """Connect and start the agent; returns its greeting.

        Raises UnavailableError that says what to do, and OSError where descriptors lack."""
        require_free(EVENT_LOOP)
        loop = self._loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name="switchmark-ssh", daemon=True).start()
        greeting = self._exchange.begin()
        try:
            asyncio.run_coroutine_threadsafe(self._connect(), loop).result()
            told = self._result(greeting, "its greeting", HELLO_TIMEOUT_S)
            self.hello = self._read(Hello, told.value, "its greeting")
        except BaseException as error:
            self._end()
            if isinstance(error, HostLost):
                raise UnavailableError(str(error)) from None
            raise
        return self.hello

    def ask(self, what: str, takes_s: float = 0.0, /, data: bytes = b"", **values: Any) -> Any:
        """Have the agent do something that takes at most `takes_s`; returns its answer.

        Raises what the agent raised, and HostLost when the connection is or gets lost."""
        number, answer = self._exchange.question()
        request = {"id": number, "do": what, **values} | ({"bytes": len(data)} if data else {})
        self._send(json.dumps(request).encode() + b"\n" + data)
        return self._result(answer, what, takes_s + ANSWER_GRACE_S).value

    def ask_for(
        self, kind: type[T], what: str, takes_s: float = 0.0, /, data: bytes = b"", **values: Any
    ) -> T:
        """Ask, and return the answer as a value of this type. Raises HostLost for any other."""
        return self._read(kind, self.ask(what, takes_s, data, **values), what)

    def _read(self, kind: type[T], told: Any, what: str) -> T:
        """The answer as a value of this type. A host that answers anything else is not the agent
        that we sent: the connection is given up, with HostLost."""
        try:
            return from_plain(kind, told)
        except (KeyError, TypeError, ValueError):
            self._exchange.lose(f"its answer ({what}) is none: {json.dumps(told)[:120]}")
            raise HostLost(str(self.lost)) from None

    def process(self, number: int) -> RemoteLines:
        """The output of a process; lines that came before this call are in it, too."""
        return self._exchange.process(number)

    def read_clock(self, samples: int = 20) -> ClockReading:
        """Compare the clocks over the control path, as NTP does: the quickest answer knows best.

        The other clock was read somewhere between our question and our answer, less the time
        that it held the question; so half of that time is the bound of the error."""
        assert self._loop is not None
        readings = []
        for _ in range(samples):
            if self.lost is not None:
                raise HostLost(self.lost)
            asked = asyncio.run_coroutine_threadsafe(self._compare(), self._loop)
            asked_ns, answer = self._result(asked, "the time", ANSWER_GRACE_S)
            told = self._read(dict[str, int], answer.value, "the time")
            if not {"heard_ns", "told_ns"} <= told.keys():
                raise HostLost(f"{self.target}: its answer (the time) is none")
            held_ns = told["told_ns"] - told["heard_ns"]
            middle_ns = (told["heard_ns"] + told["told_ns"]) // 2
            ahead_ns = middle_ns - (asked_ns + answer.heard_ns) // 2
            bound_ns = (answer.heard_ns - asked_ns - held_ns) // 2 + 1
            readings.append(ClockReading(ahead_ns, bound_ns))
        return min(readings, key=lambda one: one.uncertainty_ns)

    def close(self) -> str:
        """Let the agent undo everything and end; returns its last words. Idempotent."""
        if self._loop is None:
            return ""
        if self.lost is None:
            assert self._agent is not None
            self._send(b'{"id": -1, "do": "exit"}\n')
            ended = asyncio.run_coroutine_threadsafe(self._agent.wait_closed(), self._loop)
            with suppress(TimeoutError):
                ended.result(GOODBYE_TIMEOUT_S)
        self._end()
        return self._words.decode(errors="replace").strip()

    def _result(self, future: Future[T], what: str, timeout_s: float) -> T:
        try:
            return future.result(timeout_s)
        except TimeoutError:
            self._exchange.lose(f"no answer ({what}) within {timeout_s:g} s")
            raise HostLost(str(self.lost)) from None

    async def _connect(self) -> None:
        target = self.target
        known = read_known_hosts(target)
        try:
            self._ssh = await asyncssh.connect(
                target.address,
                target.port,
                username=target.user or (),
                client_keys=[str(target.key)] if target.key else (),
                known_hosts=known,
                # The kinds of the known keys, then all others: a host that has none of the known
                # kinds shows the key it has, which is refused. Without a kind in common both ends
                # hang up, and the reason is lost where the host's comes first.
                server_host_key_algs="+*",
                config=None,
                connect_timeout=CONNECT_TIMEOUT_S,
                keepalive_interval=HEARTBEAT_S,
                keepalive_count_max=MISSED_HEARTBEATS,
            )
        except (OSError, asyncssh.Error, asyncssh.KeyImportError) as error:
            raise UnavailableError(f"{target}: {refusal(target, error, known)}") from None
        archive = bundle.archive()
        try:
            await asyncio.wait_for(self._start_agent(self._ssh, archive), CONNECT_TIMEOUT_S)
        except (OSError, asyncssh.Error) as error:
            raise UnavailableError(f"{target}: {no_command(error)}") from None
        for work in (self._listen(), self._overhear(), self._beat()):
            self._tasks.append(asyncio.get_running_loop().create_task(work))

    async def _start_agent(self, ssh: asyncssh.SSHClientConnection, archive: bytes) -> None:
        """Run the agent over a channel of the connection, and hand it its program."""
        line = bundle.command(self.target.python, self.target.become)
        self._agent = await ssh.create_process(line, encoding=None)
        self._agent.stdin.write(f"{len(archive)}\n".encode() + archive)

    async def _listen(self) -> None:
        """Take in the agent's messages until it sends no more."""
        assert self._agent is not None
        reason = "closed from the other side"
        line = b""
        try:
            while self.lost is None and (line := await self._agent.stdout.readline()):
                self._exchange.take(
                    json.loads(line, parse_constant=refuse_constant), time.monotonic_ns()
                )
            if self.lost is not None:
                return  # what else it sends stays with it
            await self._agent.wait_closed()
            if (code := self._agent.exit_status) is not None:
                words = last_line(self._words.decode(errors="replace"), NOTHING)
                reason = f"the agent ended with code {code}: {words}"
        except (OSError, asyncssh.Error) as error:
            reason = str(error) or type(error).__name__
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            said = line.decode(errors="replace").strip()[:120]
            reason = f"in place of the agent it was heard: {said}"
        self._exchange.lose(reason)

    async def _overhear(self) -> None:
        assert self._agent is not None
        with suppress(OSError, asyncssh.Error):
            while data := await self._agent.stderr.read(4096):
                self._words = (self._words + data)[-4096:]

    async def _beat(self) -> None:
        """Send a message now and then, which shows the agent that the bench is there."""
        while self.lost is None:
            await asyncio.sleep(HEARTBEAT_S)
            self._write(b'{"id": -2, "do": "clock"}\n')

    async def _compare(self) -> tuple[int, AgentAnswer]:
        """Ask for the other clock; returns when it was asked, and the answer."""
        number, answer = self._exchange.question()
        line = json.dumps({"id": number, "do": "clock"}).encode() + b"\n"
        asked_ns = time.monotonic_ns()
        self._write(line)
        return asked_ns, await asyncio.wrap_future(answer)

    def _send(self, data: bytes) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._write, data)

    def _write(self, data: bytes) -> None:
        assert self._agent is not None
        with suppress(OSError, asyncssh.Error):
            self._agent.stdin.write(data)

    def _end(self) -> None:
        """Close what is open, and end the thread."""
        self._exchange.lose("closed by the bench")
        loop, self._loop = self._loop, None
        if loop is None:
            return
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._shut(), loop).result(CONNECT_TIMEOUT_S)
        loop.call_soon_threadsafe(loop.stop)

    async def _shut(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self._ssh is not None:
            self._ssh.abort()  # the agent, if it is there, takes that for the end
