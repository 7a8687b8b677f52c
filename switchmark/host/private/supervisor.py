"""The process that the user started: passes signals on to the bench, and ends as the bench ends."""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
from contextlib import suppress
from typing import NoReturn

from switchmark.errors import UnavailableError
from switchmark.host.private.first import ENDED, STARTED, STATUS

_LONGEST = 4096  # bytes of a message of the first process
_STOPPING = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
# Signals of the process's own faults, which nobody else sends; those that Python ignores; and those
# that cannot be caught.
_OWN = {
    signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS,
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD,
}  # fmt: skip
PASSED_ON = {one for one in signal.valid_signals() if isinstance(one, signal.Signals)} - _OWN


def supervise(first: int, link: socket.socket) -> NoReturn:
    """Pass signals on until the first process ends, and end as the bench did. `PASSED_ON` and
    SIGCHLD must be blocked."""
    message, fds, _, _ = socket.recv_fds(link, _LONGEST, 1)
    bench = fds[0] if message == STARTED and fds else None
    waited = PASSED_ON | {signal.SIGCHLD}
    while bench is not None:
        number = signal.sigwaitinfo(waited).si_signo
        if number == signal.SIGCHLD:
            if os.waitid(os.P_PID, first, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                break
        elif number in _STOPPING:
            _stop(bench, signal.Signals(number))
        else:
            _pass_on(bench, number)
    _, status = os.waitpid(first, 0)
    if bench is not None:
        message = link.recv(_LONGEST)
        if message.startswith(ENDED):
            (status,) = STATUS.unpack(message[1:])
        else:
            _say("the first process of its namespaces was killed")
    elif os.WIFEXITED(status):
        _say(f"private namespaces: {os.fsdecode(message[1:])}")
        os._exit(UnavailableError.exit_code)
    _end_as(status)


def _stop(bench: int, number: signal.Signals) -> None:
    """Stop the bench, then this process as its shell expects; continue on the shell's SIGCONT.

    The bench gets SIGSTOP: the kernel ignores the signals of terminals in a session that has
    none. If it ignores the signal here too, both go on at once."""
    _pass_on(bench, signal.SIGSTOP)
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    _pass_on(bench, signal.SIGCONT)


def _pass_on(bench: int, number: int) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(bench, number)


def _end_as(status: int) -> NoReturn:
    """End with the exit code of a wait status, or by its signal."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the bench's own is enough
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        os._exit(128 + number)
    os._exit(os.WEXITSTATUS(status))


def _say(text: str) -> None:
    with suppress(OSError):
        print(f"switchmark: {text}", file=sys.stderr, flush=True)
