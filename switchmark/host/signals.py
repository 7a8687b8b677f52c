"""Signal handling while there is something to undo.

A signal ends the program by an exception that unwinds. During the clean-up, signals wait. A signal
never leaves a lock locked, and is never lost.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_RETRY_S = 0.001
_WAITS = ("join", "_wait_for_tstate_lock")  # functions of `threading` that wait for another thread


@contextmanager
def signals_raise() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the program as Ctrl-C does: by an exception that unwinds.

    A signal that is ignored, as under `nohup`, stays ignored. SIGALRM is used meanwhile."""

    def leave(number: int, frame: FrameType | None) -> None:
        # An exception raised inside `dropped` would be lost.
        postponing = ("dropped", "call_uninterrupted")
        if _changes_a_lock(frame) or any(_active_calls(frame, name) for name in postponing):
            postpone(number, _active_calls(frame, "leave"))
            return
        postponed.clear()
        ends = KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
        raised[:] = [(ends, number)]
        raise ends

    def postpone(number: int, nested: int = 0) -> None:
        postponed.append(number)
        # With a constant delay, a signal could always arrive in the handler of the last signal.
        signal.setitimer(signal.ITIMER_REAL, _RETRY_S * 2**nested)

    def retry_dropped(exception: BaseException) -> bool:
        for ends, number in raised:
            if exception is ends:
                postpone(number)
                return True
        return False

    def retry(_: int, frame: FrameType | None) -> None:
        if postponed:
            leave(postponed.pop(), frame)

    postponed: list[int] = []
    raised: list[tuple[BaseException, int]] = []  # only the last exception
    handled = [number for number in _ENDING if signal.getsignal(number) != signal.SIG_IGN]
    try:
        with (
            _handling((signal.SIGALRM,), retry),
            _handling(handled, leave),
            _on_dropped_exception(retry_dropped),
        ):
            try:
                yield
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        if postponed:
            signal.raise_signal(signal.Signals(postponed.pop()))


def call_uninterrupted(action: Callable[[], T]) -> T:
    """Return the result of `action`. A signal inside `signals_raise` acts only after the return."""
    return action()


@contextmanager
def signals_wait() -> Iterator[None]:
    """Defer signals during the clean-up; a deferred signal acts at the end."""
    deferred: list[int] = []
    try:
        with _handling((*_ENDING, signal.SIGALRM), lambda number, _: deferred.append(number)):
            yield
    finally:
        if deferred:
            signal.raise_signal(signal.Signals(deferred[0]))


def _active_calls(frame: FrameType | None, name: str) -> int:
    """Return the number of active calls of the function `name` of this module."""
    count = 0
    while frame is not None:
        count += frame.f_globals is globals() and frame.f_code.co_name == name
        frame = frame.f_back
    return count


def _changes_a_lock(frame: FrameType | None) -> bool:
    """Return True if Python's `Condition` or `Event` takes or releases its lock at this moment.

    An exception would leave the lock locked. While they wait, the lock is free."""
    # A signal can arrive in the handler of another signal.
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
    if frame is None or frame.f_globals is not vars(threading):
        return False
    if frame.f_code.co_name == "wait":
        return "saved_state" not in frame.f_locals  # set by `Condition` after it released the lock
    return frame.f_code.co_name not in _WAITS


@contextmanager
def _on_dropped_exception(handler: Callable[[BaseException], bool]) -> Iterator[None]:
    """Call the handler for every exception that Python would print and ignore.

    Python does so in `__del__`, in callbacks of C and during garbage collection. An exception for
    which the handler returns True is not printed."""
    if threading.current_thread() is not threading.main_thread():  # It alone receives signals.
        yield
        return
    before = sys.unraisablehook

    def dropped(lost: sys.UnraisableHookArgs) -> None:
        if lost.exc_value is None or not handler(lost.exc_value):
            before(lost)

    sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def _handling(
    numbers: Collection[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Install a handler for these signals in the main thread; other threads get no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
