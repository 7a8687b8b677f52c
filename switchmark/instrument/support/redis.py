"""redis-server as the server of workload `redis`: one value in memory, nothing on disk."""

from __future__ import annotations

import re

from switchmark.errors import TrialFailed
from switchmark.host.programs import not_installed
from switchmark.instrument.support.base import Job
from switchmark.instrument.support.program import ProgramEnd, ServerProgram, find
from switchmark.instrument.support.udp import address, tcp_port
from switchmark.model.capabilities import Availability

SERVER, CLIENT = PROGRAMS = "redis-server", "redis-cli"
KEY_PREFIX, KEY = "switchmark-", "switchmark-1"
_SAYS = r"v=(\d[\w.]*)"
_FILL = "return redis.call('set', KEYS[1], string.rep('x', ARGV[1]))"
_CLIENT_S = 5.0


def availability() -> Availability:
    """Return the version of redis-server, or how to install it."""
    return not_installed(CLIENT, "redis-tools") or find(SERVER, SERVER, ("--version",), _SAYS)


class Redis(ServerProgram):
    """A running redis-server in the namespace of the target, with one value."""

    def __init__(self, job: Job) -> None:
        self._job = job
        target = job.target
        folder = job.folder_at(target)
        args = [
            SERVER, "--bind", address(target), "--port", str(tcp_port(target)),
            "--dir", str(folder), "--save", "", "--appendonly", "no", "--protected-mode", "no",
            "--daemonize", "no",
            "--tcp-backlog", "4096", "--loglevel", "warning",
        ]  # fmt: skip
        self.command = tuple(args)
        self.version = target.place.version_of(SERVER, ("--version",), _SAYS)
        super().__init__(ProgramEnd.start(SERVER, target, args))

    def wait_ready(self, timeout_s: float) -> None:
        """Return once it listens and has the value. Raises TrialFailed."""
        self._end.wait_listening("tcp", tcp_port(self._job.target), timeout_s)
        reply = self._ask("eval", _FILL, "1", KEY, str(self._job.trial.response_bytes))
        if reply.strip() != "OK":
            raise TrialFailed(self._end.say(f"did not take a value: {reply.strip()[:80]}"))

    def answered(self) -> int:
        """Return the number of GET requests that it has answered. Raises TrialFailed."""
        reply = self._ask("info", "commandstats")
        counted = re.search(r"^cmdstat_get:calls=(\d{1,15}),", reply, re.MULTILINE)
        return int(counted[1]) if counted else 0

    def _ask(self, *words: str) -> str:
        """Return the answer to a command, by a program at the same end."""
        target = self._job.target
        args = [CLIENT, "-h", address(target), "-p", str(tcp_port(target)), *words]
        client = ProgramEnd.start(CLIENT, target, args)
        try:
            client.wait_end(_CLIENT_S)
        finally:
            client.close()
        return client.output
