"""A Ctrl-C is never lost in the netlink library, and leaves no half-made objects."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from switchmark.host.kernel import namespaces, netlink


def test_main_thread_uses_no_netlink() -> None:
    """It would ignore a Ctrl-C that comes while an event loop is destroyed."""
    assert namespaces.inside(None, threading.current_thread) is not threading.main_thread()


def test_every_netlink_socket_is_opened_by_a_nested_function() -> None:
    """The functions that callers use pass the requests to a thread."""
    tree = ast.parse(Path(netlink.__file__).read_text())
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        by_itself = (one for one in function.body if not isinstance(one, ast.FunctionDef))
        assert sum(map(_openings, by_itself)) == 0, function.name
    assert _openings(tree) >= 6


def _openings(tree: ast.AST) -> int:
    return sum(isinstance(node, ast.Name) and node.id == "route_socket" for node in ast.walk(tree))


def test_begun_work_is_finished_before_the_interrupt() -> None:
    done: list[bool] = []

    def act() -> None:
        time.sleep(0.1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(0.2)
        done.append(True)

    with pytest.raises(KeyboardInterrupt):
        namespaces.inside(None, act)
    assert done == [True]


@pytest.mark.parametrize("has_begun", [True, False])
def test_interrupt_during_the_start_of_the_thread(
    monkeypatch: pytest.MonkeyPatch, has_begun: bool
) -> None:
    """The thread has begun and finishes its work, or never begins."""
    done, begun, begin = [], threading.Event(), threading.Event()

    class Interrupted(threading.Thread):
        def start(self) -> None:
            super().start()
            assert not has_begun or begun.wait(60)
            begin.set()
            raise KeyboardInterrupt

        def run(self) -> None:
            assert has_begun or may_run.wait(60)
            super().run()

    def act() -> None:
        begun.set()
        assert begin.wait(60)
        time.sleep(0.2)
        done.append(True)

    may_run = threading.Event()
    monkeypatch.setattr(namespaces, "threading", SimpleNamespace(
        Lock=threading.Lock, Thread=Interrupted
    ))  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        namespaces.inside(None, act)
    assert done == [True] * has_begun
    may_run.set()
    for thread in threading.enumerate():
        if isinstance(thread, Interrupted):
            thread.join(60)
    assert done == [True] * has_begun


def test_interrupt_during_the_taking_of_a_lock_does_not_hang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupted:
        """A lock whose holder is interrupted as soon as it has the lock."""

        def __init__(self) -> None:
            self.lock = allocate()
            self.times = 0

        def acquire(self) -> None:
            self.times += 1
            assert self.lock.acquire(timeout=60), "the lock is never released"
            if self.times == 2:
                raise KeyboardInterrupt

        def release(self) -> None:
            self.lock.release()

    allocate = threading.Lock
    monkeypatch.setattr(namespaces, "threading", SimpleNamespace(
        Lock=Interrupted, Thread=threading.Thread, Event=threading.Event
    ))  # fmt: skip
    done: list[bool] = []
    with pytest.raises(KeyboardInterrupt):
        namespaces.inside(None, lambda: done.append(True))
    assert done == [True]


WITHOUT_DESCRIPTORS = """
import gc, os, resource
from switchmark.host.kernel import namespaces
from switchmark.host.kernel.netlink import NETLINK_DESCRIPTORS, route_socket

def ask() -> None:
    with route_socket() as netlink:
        netlink.get_links()

namespaces.inside(None, ask)  # (what it imports late is there)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
for free in range(NETLINK_DESCRIPTORS + 1):
    try:
        namespaces.inside(None, ask)
        print(free, "asked")
    except OSError as error:
        print(free, error.strerror)
    gc.collect()
    os.close(held.pop())
"""


def test_without_descriptors_netlink_fails_in_one_line() -> None:
    """A half-made event loop of Python would print a traceback when it is discarded."""
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_DESCRIPTORS],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    lacks = [f"{free} Too many open files" for free in range(netlink.NETLINK_DESCRIPTORS)]
    assert run.stdout.splitlines() == [*lacks, f"{netlink.NETLINK_DESCRIPTORS} asked"]
    assert run.stderr == ""
