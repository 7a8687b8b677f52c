"""What signals do while things are there that must be undone: they end the program by an exception
that unwinds, wait while it undoes them, never leave a lock taken, and are never lost."""

from __future__ import annotations

import _weakrefset
import gc
import signal
import threading
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 0.001
_WAITS = ("join", "_wait_for_tstate_lock")  # of `threading`: where a thread waits for another's end


@contextmanager
def signals_raise() -> Iterator[None]:
    """Make SIGTERM and SIGHUP end the program as Ctrl-C does: by an exception that unwinds.

    A signal that is ignored, as under `nohup`, stays so. SIGALRM is used meanwhile."""

    def leave(number: int, frame: FrameType | None) -> None:
        if _has_a_lock_in_hand(frame) or _would_be_dropped(frame):
            postponed.append(number)
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            return
        postponed.clear()
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    def again(_: int, frame: FrameType | None) -> None:
        if postponed:
            leave(postponed.pop(), frame)

    postponed: list[int] = []
    heard = [number for number in _ENDING if signal.getsignal(number) != signal.SIG_IGN]
    try:
        with _handling((signal.SIGALRM,), again), _handling(heard, leave):
            try:
                yield
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        if postponed:
            signal.raise_signal(signal.Signals(postponed.pop()))


@contextmanager
def signals_wait() -> Iterator[None]:
    """Defer signals while cleaning up; one that comes meanwhile acts when it is done."""
    came: list[int] = []
    try:
        with _handling((*_ENDING, signal.SIGALRM), lambda number, _: came.append(number)):
            yield
    finally:
        if came:
            signal.raise_signal(signal.Signals(came[0]))


def _has_a_lock_in_hand(frame: FrameType | None) -> bool:
    """Whether Python's own `Condition` or `Event` is just taking or leaving its lock, which
    an exception would leave taken for ever. Where one waits, the lock is free."""
    while frame is not None and frame.f_globals is globals():  # a signal met the handler of another
        frame = frame.f_back
    if frame is None or frame.f_globals is not vars(threading):
        return False
    if frame.f_code.co_name == "wait":
        return "saved_state" not in frame.f_locals  # what `Condition` keeps of a lock that it left
    return frame.f_code.co_name not in _WAITS


def _would_be_dropped(frame: FrameType | None) -> bool:
    """Whether Python itself has called what runs, and would print an exception in it and go on:
    what is told of collected garbage, `__del__`, the callbacks of `weakref`."""
    collects = {code for one in gc.callbacks if (code := _code_of(one)) is not None}
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_code in collects:
            return True
        if frame.f_globals is vars(weakref) or frame.f_globals is vars(_weakrefset):
            return True
        frame = frame.f_back
    return False


def _code_of(callback: object) -> CodeType | None:
    return getattr(getattr(callback, "__func__", callback), "__code__", None)


@contextmanager
def _handling(
    numbers: Collection[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Handle these signals so in the main thread; other threads cannot, and do not get them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
