"""The connection to another host, by SSH or `kubectl exec`, and the agent on that host.

It runs in a separate thread; callers send a request and wait. When the connection is lost, each
pending and each later request raises HostLost at once, and the agent undoes its changes.
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
from switchmark.remote.kubectl import PodProcess, end_of
from switchmark.remote.refusal import CONNECT_TIMEOUT_S, no_command, read_known_hosts, refusal
from switchmark.testbed.testbed import PodTarget, SshTarget, Target

T = TypeVar("T")

HELLO_TIMEOUT_S = 75.0  # the agent may wait until another agent has undone its changes
ANSWER_GRACE_S = 20.0  # added to the time that the request itself may take
GOODBYE_TIMEOUT_S = 20.0
STDERR_WAIT_S = 1.0  # for the rest of the agent's standard error after its end
HEARTBEAT_S = 2.0
MISSED_HEARTBEATS = 7


class Connection:
    """A connection from `open` to `close` or to its loss; opened again, it begins anew."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.hello: Hello | None = None
        self._exchange = Exchange(target)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ssh: asyncssh.SSHClientConnection | None = None
        self._agent: asyncssh.SSHClientProcess[bytes] | PodProcess | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._stderr_tail = b""  # the end of the agent's standard error

    @property
    def lost(self) -> str | None:
        """The reason why the host cannot be reached; None while it can."""
        return self._exchange.lost

    def open(self) -> Hello:
        """Connect and start the agent; returns its greeting.

        Raises UnavailableError with the remedy, and OSError if file descriptors run out."""
        require_free(EVENT_LOOP)
        loop = self._loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name="switchmark-ssh", daemon=True).start()
        greeting = self._exchange.begin()
        try:
            asyncio.run_coroutine_threadsafe(self._connect(), loop).result()
            answer = self._result(greeting, "its greeting", HELLO_TIMEOUT_S)
            self.hello = self._read(Hello, answer.value, "its greeting")
        except BaseException as error:
            self._end()
            if isinstance(error, HostLost):
                raise UnavailableError(str(error)) from None
            raise
        return self.hello

    def ask(self, action: str, takes_s: float = 0.0, /, data: bytes = b"", **values: Any) -> Any:
        """Send the agent a request that takes at most `takes_s`; returns its answer.

        Raises the agent's error, and HostLost if the connection is lost."""
        number, answer = self._exchange.question()
        request = {"id": number, "do": action, **values} | ({"bytes": len(data)} if data else {})
        self._send(json.dumps(request).encode() + b"\n" + data)
        return self._result(answer, action, takes_s + ANSWER_GRACE_S).value

    def ask_for(
        self, kind: type[T], action: str, takes_s: float = 0.0, /, data: bytes = b"", **values: Any
    ) -> T:
        """Send a request, and return the answer as a value of this type. Raises HostLost if it has
        another type."""
        return self._read(kind, self.ask(action, takes_s, data, **values), action)

    def _read(self, kind: type[T], answer: Any, action: str) -> T:
        """Return the answer as a value of this type. Any other answer does not come from our
        agent: the connection is closed, and HostLost raised."""
        try:
            return from_plain(kind, answer)
        except (KeyError, TypeError, ValueError):
            self._exchange.lose(f"its answer ({action}) is malformed: {json.dumps(answer)[:120]}")
            raise HostLost(str(self.lost)) from None

    def process(self, number: int) -> RemoteLines:
        """The output of a process, with the lines that came before this call."""
        return self._exchange.process(number)

    def read_clock(self, samples: int = 20) -> ClockReading:
        """Compare the clocks over the control path, as NTP does; the quickest answer is the most
        exact.

        The agent reads its clock between our request and its answer. The time between the two,
        less the agent's own processing time, is twice the largest possible error."""
        assert self._loop is not None
        readings = []
        for _ in range(samples):
            if self.lost is not None:
                raise HostLost(self.lost)
            request = asyncio.run_coroutine_threadsafe(self._compare(), self._loop)
            sent_ns, answer = self._result(request, "the time", ANSWER_GRACE_S)
            remote = self._read(dict[str, int], answer.value, "the time")
            if not {"received_ns", "sent_ns"} <= remote.keys():
                raise HostLost(f"{self.target}: its answer (the time) is malformed")
            processing_ns = remote["sent_ns"] - remote["received_ns"]
            middle_ns = (remote["received_ns"] + remote["sent_ns"]) // 2
            ahead_ns = middle_ns - (sent_ns + answer.received_ns) // 2
            bound_ns = (answer.received_ns - sent_ns - processing_ns) // 2 + 1
            readings.append(ClockReading(ahead_ns, bound_ns))
        return min(readings, key=lambda reading: reading.uncertainty_ns)

    def close(self) -> str:
        """Let the agent undo everything and end; returns the end of its standard error.
        Idempotent."""
        if self._loop is None:
            return ""
        if self.lost is None:
            assert self._agent is not None
            self._send(b'{"id": -1, "do": "exit"}\n')
            ended = asyncio.run_coroutine_threadsafe(self._agent.wait_closed(), self._loop)
            with suppress(TimeoutError):
                ended.result(GOODBYE_TIMEOUT_S)
        self._end()
        return self._stderr_tail.decode(errors="replace").strip()

    def _result(self, future: Future[T], action: str, timeout_s: float) -> T:
        try:
            return future.result(timeout_s)
        except TimeoutError:
            self._exchange.lose(f"no answer ({action}) within {timeout_s:g} s")
            raise HostLost(str(self.lost)) from None

    async def _connect(self) -> None:
        target = self.target
        if isinstance(target, PodTarget):
            await self._connect_pod(target)
        else:
            await self._connect_ssh(target)
        for work in (self._read_messages(), self._read_stderr(), self._send_heartbeats()):
            self._tasks.append(asyncio.get_running_loop().create_task(work))

    async def _connect_pod(self, target: PodTarget) -> None:
        try:
            command = bundle.arguments(target.python, dict(target.settings))
            self._agent = await PodProcess.start(target, command)
        except OSError as error:
            raise UnavailableError(f"{target}: kubectl cannot be run: {error.strerror}") from None
        self._send_program(bundle.archive())

    async def _connect_ssh(self, target: SshTarget) -> None:
        known_hosts = read_known_hosts(target)
        try:
            self._ssh = await asyncssh.connect(
                target.address,
                target.port,
                username=target.user or (),
                client_keys=[str(target.key)] if target.key else (),
                known_hosts=known_hosts,
                # Offer the types of the known keys first, then all others. A host without a key of
                # a known type then presents another key, which is refused with a clear reason.
                # Without a common type both ends hang up, and the reason can be lost.
                server_host_key_algs="+*",
                config=None,
                connect_timeout=CONNECT_TIMEOUT_S,
                keepalive_interval=HEARTBEAT_S,
                keepalive_count_max=MISSED_HEARTBEATS,
            )
        except (OSError, asyncssh.Error, asyncssh.KeyImportError) as error:
            raise UnavailableError(f"{target}: {refusal(target, error, known_hosts)}") from None
        archive = bundle.archive()
        try:
            await asyncio.wait_for(self._start_agent(self._ssh, target, archive), CONNECT_TIMEOUT_S)
        except (OSError, asyncssh.Error) as error:
            raise UnavailableError(f"{target}: {no_command(error)}") from None

    async def _start_agent(
        self, ssh: asyncssh.SSHClientConnection, target: SshTarget, archive: bytes
    ) -> None:
        """Run the agent over a channel of the connection, and send its program."""
        line = bundle.command(target.python, target.become)
        self._agent = await ssh.create_process(line, encoding=None)
        self._send_program(archive)

    def _send_program(self, archive: bytes) -> None:
        assert self._agent is not None
        self._agent.stdin.write(f"{len(archive)}\n".encode() + archive)

    async def _read_messages(self) -> None:
        """Receive the agent's messages until the connection ends."""
        assert self._agent is not None
        reason = "closed by the other host"
        line = b""
        try:
            while self.lost is None and (line := await self._agent.stdout.readline()):
                self._exchange.take(
                    json.loads(line, parse_constant=refuse_constant), time.monotonic_ns()
                )
            if self.lost is not None:
                return  # the agent's further messages are ignored
            await self._agent.wait_closed()
            if (code := self._agent.exit_status) is not None:
                await asyncio.wait(self._tasks[1:2], timeout=STDERR_WAIT_S)
                reason = self._end_of(code, self._stderr_tail.decode(errors="replace"))
        except (OSError, asyncssh.Error) as error:
            reason = str(error) or type(error).__name__
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            output = line.decode(errors="replace").strip()[:120]
            reason = f"this line does not come from the agent: {output}"
        self._exchange.lose(reason)

    def _end_of(self, code: int, stderr: str) -> str:
        """Return one line about the end of the agent."""
        if isinstance(self.target, PodTarget):
            return end_of(self.target, code, stderr)
        return f"the agent ended with code {code}: {last_line(stderr, NOTHING)}"

    async def _read_stderr(self) -> None:
        assert self._agent is not None
        with suppress(OSError, asyncssh.Error):
            while data := await self._agent.stderr.read(4096):
                self._stderr_tail = (self._stderr_tail + data)[-4096:]

    async def _send_heartbeats(self) -> None:
        """Send a message every HEARTBEAT_S; without them the agent undoes everything."""
        while self.lost is None:
            await asyncio.sleep(HEARTBEAT_S)
            self._write(b'{"id": -2, "do": "clock"}\n')

    async def _compare(self) -> tuple[int, AgentAnswer]:
        """Request the other host's time; returns the time of the request, and the answer."""
        number, answer = self._exchange.question()
        line = json.dumps({"id": number, "do": "clock"}).encode() + b"\n"
        sent_ns = time.monotonic_ns()
        self._write(line)
        return sent_ns, await asyncio.wrap_future(answer)

    def _send(self, data: bytes) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._write, data)

    def _write(self, data: bytes) -> None:
        assert self._agent is not None
        with suppress(OSError, asyncssh.Error):
            self._agent.stdin.write(data)

    def _end(self) -> None:
        """Close the connection, and end the thread."""
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
        if isinstance(self._agent, PodProcess):
            await self._agent.abort()
        if self._ssh is not None:
            self._ssh.abort()  # an agent that still runs takes this as the end
