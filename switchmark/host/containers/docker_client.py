"""Docker's client: its commands, whether a daemon answers, and removing an object of ours.

Undoing a trial needs no more than this; docker_daemon.py starts a daemon.
"""

from __future__ import annotations

import shutil
import subprocess
import time

from switchmark.host.process_output import NOTHING, last_line, run_command, stdout_of

ANSWER_TIMEOUT_S = 5.0
REMOVE_TIMEOUT_S = 30.0
WORK_TIMEOUT_S = 120.0  # of an import on a busy machine


def docker(host: str, *args: str) -> list[str]:
    """The command line of a `docker` command."""
    return ["docker", *(["-H", host] if host else []), *args]


def server_version(host: str = "") -> str | None:
    """The version of the daemon that answers; None when none does."""
    command = docker(host, "version", "--format", "{{.Server.Version}}")
    return stdout_of(command, ANSWER_TIMEOUT_S) or None


def remove(what: str, name: str, host: str) -> None:
    """Remove a container or image of ours; one that is gone already is fine. Raises OSError."""
    if shutil.which("docker") is None or (host and server_version(host) is None):
        return  # a daemon of our own that is gone took it along
    words = ("rm", "-f") if what == "container" else ("rmi", "-f")
    deadline = time.monotonic() + REMOVE_TIMEOUT_S
    while (problem := _removal_problem(docker(host, *words, name))) is not None:
        if "already in progress" not in problem or time.monotonic() > deadline:
            raise OSError(f"docker {what} {name}: {problem}")
        time.sleep(0.05)  # the daemon is about it, as it is after `docker run --rm`


def _removal_problem(command: list[str]) -> str | None:
    """Why it was not removed; None when it was, or was not there."""
    try:
        done = run_command(command, WORK_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return "the daemon does not answer"
    if done.returncode == 0 or "No such" in done.stderr:
        return None
    return last_line(done.stderr, NOTHING)
