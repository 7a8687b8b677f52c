"""Docker's client: commands, the version of a daemon, and removal of the bench's objects.

The clean-up after a trial needs only this module; docker_daemon.py starts a daemon.
"""

from __future__ import annotations

import shutil
import subprocess
import time

from switchmark.host.process_output import NOTHING, last_line, run_command, stdout_of

ANSWER_TIMEOUT_S = 5.0
REMOVE_TIMEOUT_S = 30.0
WORK_TIMEOUT_S = 120.0  # enough for an import on a busy machine


def docker(host: str, *args: str) -> list[str]:
    """Return the command line of a `docker` command."""
    return ["docker", *(["-H", host] if host else []), *args]


def server_version(host: str = "") -> str | None:
    """Return the version of the daemon; None if no daemon replies."""
    command = docker(host, "version", "--format", "{{.Server.Version}}")
    return stdout_of(command, ANSWER_TIMEOUT_S) or None


def remove(kind: str, name: str, host: str) -> None:
    """Remove a container or image of the bench, which may be missing. Raises OSError."""
    if shutil.which("docker") is None or (host and server_version(host) is None):
        return  # The objects of a private daemon end with the daemon.
    command = ("rm", "-f") if kind == "container" else ("rmi", "-f")
    deadline = time.monotonic() + REMOVE_TIMEOUT_S
    while (problem := _removal_problem(docker(host, *command, name))) is not None:
        if "already in progress" not in problem or time.monotonic() > deadline:
            raise OSError(f"docker {kind} {name}: {problem}")
        time.sleep(0.05)  # The daemon removes it, for example after `docker run --rm`.


def _removal_problem(command: list[str]) -> str | None:
    """Return why the object was not removed; None if it was removed or did not exist."""
    try:
        done = run_command(command, WORK_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return "the daemon does not answer"
    if done.returncode == 0 or "No such" in done.stderr:
        return None
    return last_line(done.stderr, NOTHING)
