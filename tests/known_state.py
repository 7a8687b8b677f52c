"""The process state that tests and their children start from, whatever state they were started in.

A shell starts background jobs with SIGINT ignored, nohup ignores SIGHUP, and umask, locale and
limits depend on the user. Children inherit all of these, so a test of the product would depend on
the shell. Tests of another state set that state themselves."""

from __future__ import annotations

import os
import resource
import signal
from contextlib import suppress
from types import FrameType

# Python ignores these two, and gives children the default.
OF_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
LOCALE = "C.UTF-8"
UMASK = 0o022
# Soft limits; hard limits are raised if this process may do so.
UNLIMITED = (
    resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE,
)  # fmt: skip
OPEN_FILES = 4096
OF_A_TERMINAL = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE")
OF_PYTHON_TEXT = ("PYTHONUTF8", "PYTHONIOENCODING", "PYTHONCOERCECLOCALE", "PYTHONWARNINGS")


def establish() -> None:
    """Give this process, and so its children, default signals, a umask, a locale and limits."""
    _signals()
    os.umask(UMASK)
    _environment()
    _limits()


def _signals() -> None:
    """Reset ignored and blocked signals. A hang-up is caught and ignored, so that `nohup` protects
    the tests themselves; children get the default, as for every caught signal."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in signal.valid_signals():
        if number in OF_PYTHON or signal.getsignal(number) is not signal.SIG_IGN:
            continue
        if number == signal.SIGHUP:
            signal.signal(number, _nothing)
        elif number == signal.SIGINT:
            signal.signal(number, signal.default_int_handler)
        else:
            signal.signal(number, signal.SIG_DFL)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Catch a signal and do nothing."""


def _environment() -> None:
    for name in list(os.environ):
        if name.startswith("LC_") or name in ("LANG", "LANGUAGE", *OF_A_TERMINAL, *OF_PYTHON_TEXT):
            del os.environ[name]
    os.environ["LC_ALL"] = LOCALE


def _limits() -> None:
    for limit in UNLIMITED:
        _raise(limit, resource.RLIM_INFINITY)
    _raise(resource.RLIMIT_NOFILE, OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _raise(limit: int, soft: int) -> None:
    """Set a soft limit, and raise the hard limit if it is lower and may be raised."""
    hard = resource.getrlimit(limit)[1]
    unlimited = resource.RLIM_INFINITY
    if hard != unlimited and (soft == unlimited or soft > hard):
        with suppress(ValueError, OSError):
            resource.setrlimit(limit, (soft, soft))
            return
        soft = hard
    resource.setrlimit(limit, (soft, hard))
