"""A session: one run of the bench on this machine, from opening to leaving nothing behind.

    with open_session(measuring=True) as session:
        ...

On the way out, by whatever way (end, error, Ctrl-C, SIGTERM, SIGHUP), everything in the
session's ledger is undone. Only `kill -9` gets past that, and then `clean_stale` does it.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from switchmark.errors import BusyError
from switchmark.host.host import Session
from switchmark.host.local import LocalHost
from switchmark.host.signals import signals_raise, signals_wait
from switchmark.host.state import state_folder
from switchmark.host.undo.entries import Directory, MarkedProcesses
from switchmark.host.undo.ledger import Ledger, Owner
from switchmark.locks import open_lock

LOCK_NAME = "measuring.lock"


@contextmanager
def open_session(*, measuring: bool = True, wait_s: float = 0.0) -> Iterator[Session]:
    """Open a session on this machine and undo everything it made at the end.

    Trials disturb each other, so only one session may measure at a time: with `measuring` this
    waits up to `wait_s` seconds for the other one, then raises BusyError that names it.
    Clean up after dead sessions first with `clean.clean_stale`."""
    directory = state_folder()
    with signals_raise(), _measuring_lock(directory, wait_s, measuring) as lock_fd:
        ledger = _new_ledger(directory)
        host = LocalHost(ledger)
        try:
            if lock_fd is not None:
                _sign(lock_fd, ledger.owner)
            run_dir = directory / ledger.session
            ledger.record(Directory(str(run_dir)))
            ledger.record(MarkedProcesses(ledger.session))
            run_dir.mkdir(mode=0o700)
            yield Session(ledger.session, host, ledger, run_dir)
        finally:
            with signals_wait(), closing(ledger):
                try:
                    host.close()
                finally:
                    for problem in ledger.undo_all():
                        print(
                            f"switchmark: left behind: {problem}; `switchmark clean` tries again",
                            file=sys.stderr,
                        )


def _new_ledger(directory: Path) -> Ledger:
    while True:
        with suppress(FileExistsError):
            return Ledger.create(directory, secrets.token_hex(3))


@contextmanager
def _measuring_lock(directory: Path, wait_s: float, measuring: bool) -> Iterator[int | None]:
    """The lock file's descriptor while the lock is held. The kernel frees it if the bench dies."""
    if not measuring:
        yield None
        return
    fd = open_lock(directory / LOCK_NAME)
    try:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise BusyError(_refusal(fd)) from None
                time.sleep(0.1)
        yield fd
        os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def _sign(fd: int, owner: Owner) -> None:
    os.ftruncate(fd, 0)
    os.pwrite(fd, json.dumps(asdict(owner)).encode(), 0)


def _refusal(fd: int) -> str:
    who = "another switchmark"
    with suppress(ValueError, TypeError, RecursionError):
        owner = Owner(**json.loads(os.pread(fd, 4096, 0)))
        who = f"process {owner.pid} ({owner.command}, since {owner.opened_at})"
    return (
        f"{who} is measuring on this machine, and two campaigns would disturb each other:"
        " wait for it, or stop it"
    )
