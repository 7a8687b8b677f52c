"""What signals do while things are there that must be undone: they end the program by an exception
that unwinds, wait while it undoes them, never leave a lock taken, and are never lost."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 0.001
_WAITS = ("join", "_wait_for_tstate_lock")  # of `threading`: where a thread waits for another's end


@contextmanager
def signals_raise() -> Iterator[None]:
    """Make SIGTERM and SIGHUP end the program as Ctrl-C does: by an exception that unwinds.

    A signal that is ignored, as under `nohup`, stays so. SIGALRM is used meanwhile."""

    def leave(number: int, frame: FrameType | None) -> None:
        if _has_a_lock_in_hand(frame) or _ours(frame, "dropped"):  # (there, it would be lost)
            postpone(number, _ours(frame, "leave"))
            return
        postponed.clear()
        ends = KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
        raised[:] = [(ends, number)]
        raise ends

    def postpone(number: int, nested: int = 0) -> None:
        postponed.append(number)
        # Where it takes longer to deal with one, each would meet the handler of the last for ever.
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S * 2**nested)

    def is_ours(dropped: BaseException) -> bool:
        for ends, number in raised:
            if dropped is ends:
                postpone(number)
                return True
        return False

    def again(_: int, frame: FrameType | None) -> None:
        if postponed:
            leave(postponed.pop(), frame)

    postponed: list[int] = []
    raised: list[tuple[BaseException, int]] = []  # the last one
    heard = [number for number in _ENDING if signal.getsignal(number) != signal.SIG_IGN]
    try:
        with (
            _handling((signal.SIGALRM,), again),
            _handling(heard, leave),
            _told_of_dropped(is_ours),
        ):
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


def _ours(frame: FrameType | None, name: str) -> int:
    """How many functions of this name of ours have been called and have not ended."""
    count = 0
    while frame is not None:
        count += frame.f_globals is globals() and frame.f_code.co_name == name
        frame = frame.f_back
    return count


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


@contextmanager
def _told_of_dropped(tell: Callable[[BaseException], bool]) -> Iterator[None]:
    """Have it told of every exception that Python, or a library, would print and go on from: in
    `__del__`, in callbacks of C, in what is called when garbage is collected. Those of which it
    says that they are its own are not printed."""
    if threading.current_thread() is not threading.main_thread():  # signals come to that alone
        yield
        return
    before = sys.unraisablehook

    def dropped(lost: sys.UnraisableHookArgs) -> None:
        if lost.exc_value is None or not tell(lost.exc_value):
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
