"""What a signal does to a program that must undo things."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from switchmark.testbed.signals import signals_raise, signals_wait

# One signal after the other comes to a thread that takes and leaves an event's lock all the time.
STORM = """
import os, random, signal, sys, threading, time
sys.setswitchinterval(0.0001)
from switchmark.testbed.signals import signals_raise

number, event, armed, came = signal.Signals[sys.argv[1]], threading.Event(), False, 0

def shoot():
    global armed
    while True:
        time.sleep(random.uniform(0, 0.0002))
        if armed:
            armed = False
            signal.pthread_kill(threading.main_thread().ident, number)

threading.Thread(target=shoot, daemon=True).start()
with signals_raise():
    while came < 100:
        try:
            armed = True
            while True:
                event.set()
                event.wait(0)
                event.clear()
        except (KeyboardInterrupt, SystemExit):
            came += 1
        if event._cond._lock.locked():
            print("taken for ever after", came)
            os._exit(1)
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_leaves_no_lock_taken(name: str) -> None:
    """Whoever else waits for that lock, the thread that reads all pipes among them, would wait for
    ever. Were no signal postponed, one of some ten would do that."""
    run = subprocess.run(
        [sys.executable, "-c", STORM, name], capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_raise():
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_while_undoing_acts_afterwards() -> None:
    undone = []
    with pytest.raises(SystemExit), signals_raise(), signals_wait():
        signal.raise_signal(signal.SIGTERM)
        undone.append("all")
    assert undone == ["all"]
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
