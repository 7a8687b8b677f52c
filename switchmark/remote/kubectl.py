"""A program in a pod, started by `kubectl exec`; its standard streams carry the agent's messages.

It has the interface of a program that SSH has started, as far as the connection uses it.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

from switchmark.errors import UnavailableError
from switchmark.host.process_output import NOTHING, last_line
from switchmark.host.programs import which
from switchmark.testbed.testbed import PodTarget

LONGEST_LINE = 64 << 20  # a longer line of the agent ends the connection
END_WAIT_S, REST_WAIT_S = 5.0, 1.0
# Errors that kubectl and the runtime print, and the remedy for each.
REMEDIES = (
    (r"forbidden", "the account needs the right to create pods/exec (kubectl auth can-i create "
                   "pods/exec -n {namespace})"),
    (r"unauthorized|must be logged in", "log in to the cluster (kubectl auth whoami)"),
    (r"container .*not (found|valid)|container not found",
     "name one of its containers: pod: {namespace}/{pod}/CONTAINER"),
    (r"not ?found.*pods|pods .*not found", "see `kubectl get pods -n {namespace}`"),
    (r"executable file not found|no such file or directory|code 12[67]",
     "the image needs Python 3.11; name another path as `python` in the testbed file"),
    (r"connection .*refused|no such host|timeout|unable to connect|no configuration",
     "can kubectl reach the cluster? (kubectl cluster-info)"),
)  # fmt: skip


class PodProcess:
    """A program in a pod."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.stderr = process.stderr

    @classmethod
    async def start(cls, target: PodTarget, command: list[str]) -> PodProcess:
        """Run a command in the pod. Raises UnavailableError without `kubectl`, and OSError."""
        if which("kubectl") is None:
            raise UnavailableError(
                f"{target}: there is no `kubectl` program here",
                remedy="install kubectl, and give it access to the cluster",
            )
        process = await asyncio.create_subprocess_exec(
            *exec_command(target, command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LONGEST_LINE,
            start_new_session=True,  # Ctrl-C is for the bench, which then ends the agent
        )
        return cls(process)

    @property
    def exit_status(self) -> int | None:
        """The exit code, which `kubectl exec` takes from the program; None while it runs."""
        return self._process.returncode

    async def wait_closed(self) -> None:
        """Wait for the end."""
        await self._process.wait()

    async def abort(self) -> None:
        """Close its input, which ends the agent, and then end kubectl."""
        self.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), END_WAIT_S)
        # Pipes that were not read to their end stay open, and `wait` waits for them.
        self._process._transport.close()  # type: ignore[attr-defined]
        for end in (self._process.wait(), self.stdin.wait_closed()):
            with suppress(OSError, TimeoutError):
                await asyncio.wait_for(end, REST_WAIT_S)


def exec_command(target: PodTarget, command: list[str]) -> list[str]:
    """Return the command line of `kubectl exec` for a command in the pod."""
    options = [
        *([f"--kubeconfig={target.kubeconfig}"] if target.kubeconfig else []),
        *([f"--context={target.context}"] if target.context else []),
    ]
    container = ["-c", target.container] if target.container else []
    return [
        "kubectl", *options, "exec", "-i", "-n", target.namespace, target.pod, *container, "--",
        *command,
    ]  # fmt: skip


def end_of(target: PodTarget, code: int, stderr: str) -> str:
    """Return one line for the user about a `kubectl exec` that has ended: the reason, and the
    remedy if the text is known."""
    message = last_line(stderr, NOTHING)[:300]
    text = f"`kubectl exec` ended with code {code}: {message}"
    for pattern, remedy in REMEDIES:
        if re.search(pattern, f"{message} code {code}", re.IGNORECASE):
            return f"{text}; {remedy.format(namespace=target.namespace, pod=target.pod)}"
    return text
