"""Signals to a program that must undo things."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable

import pytest

from switchmark.host.signals import signals_raise, signals_wait

# Signals come one after the other to a thread that takes and releases a lock all the time. A
# postponed signal is repeated at once, on a slow machine while the first is still being handled.
STORM = """
import os, random, signal, sys, threading, time
sys.setswitchinterval(0.0001)
from switchmark.host import signals

number, kind, armed, came = signal.Signals[sys.argv[1]], sys.argv[2], False, 0
signals._RETRY_S = float(sys.argv[3])
event, condition = threading.Event(), threading.Condition()

def turn_event():
    event.set()
    event.wait(0)
    event.clear()
    event.wait(0)

def turn_condition():
    with condition:
        condition.wait(0)
        condition.notify_all()

def left_taken():
    return event._cond._lock.locked() or condition._is_owned()

def shoot():
    global armed
    while True:
        time.sleep(random.uniform(0, 0.0002))
        if armed:
            armed = False
            signal.pthread_kill(threading.main_thread().ident, number)

turn = {"Event": turn_event, "Condition": turn_condition}[kind]
threading.Thread(target=shoot, daemon=True).start()
with signals.signals_raise():
    while came < 100:
        try:
            armed = True
            while True:
                turn()
        except (KeyboardInterrupt, SystemExit):
            came += 1
        if left_taken():
            print("taken for ever after", came)
            os._exit(1)
"""


@pytest.mark.parametrize("again_s", ["0.001", "0.00001", "0.000001"])
@pytest.mark.parametrize("kind", ["Event", "Condition"])
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_signal_leaves_no_lock_taken(name: str, kind: str, again_s: str) -> None:
    """Otherwise other threads, for example the reader of all pipes, would wait for the lock for
    ever. Without postponing, one of some ten signals would cause that."""
    run = subprocess.run(
        [sys.executable, "-c", STORM, name, kind, again_s],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def while_garbage_is_collected(act: Callable[[], None]) -> None:
    def on_collection(_phase: str, _info: dict[str, int]) -> None:
        act()

    gc.callbacks.append(on_collection)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(on_collection)


def while_something_is_deleted(act: Callable[[], None]) -> None:
    class Something:
        def __del__(self) -> None:
            act()

    Something()


def while_something_is_finalized(act: Callable[[], None]) -> None:
    class Something:
        pass

    weakref.finalize(Something(), act)


def while_c_calls_back(act: Callable[[], None]) -> None:
    ctypes.CFUNCTYPE(None)(act)()


@pytest.mark.parametrize(
    "when",
    [
        while_garbage_is_collected,
        while_something_is_deleted,
        while_something_is_finalized,
        while_c_calls_back,
    ],
)
def test_signal_is_not_lost_if_python_drops_exceptions(
    when: Callable[[Callable[[], None]], None], capfd: pytest.CaptureFixture[str]
) -> None:
    """Dask has a hook on every collection: one of some twenty signals ended no agent."""
    with pytest.raises(SystemExit), signals_raise():
        when(lambda: signal.raise_signal(signal.SIGTERM))
        time.sleep(10)
    assert capfd.readouterr().err == ""


def test_signal_during_a_dropped_exception_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """On a slow machine its time is over before the hook of the first has ended."""
    set_timer, early = signal.setitimer, [signal.SIGALRM]

    def set_and_come(which: int, seconds: float) -> None:
        set_timer(which, seconds)
        if seconds and early:
            signal.raise_signal(early.pop())

    monkeypatch.setattr(signal, "setitimer", set_and_come)
    with pytest.raises(SystemExit), signals_raise():
        while_something_is_deleted(lambda: signal.raise_signal(signal.SIGTERM))
        time.sleep(10)
    assert (capfd.readouterr().err, early) == ("", [])


def test_ignored_signal_stays_ignored() -> None:
    """For example under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_raise():
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_signal_during_undo_acts_afterwards() -> None:
    undone = []
    with pytest.raises(SystemExit), signals_raise(), signals_wait():
        signal.raise_signal(signal.SIGTERM)
        undone.append("all")
    assert undone == ["all"]
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
