"""The errors that a user may see, each with its exit code.

Each error has a reason, which names the place and the problem, and a remedy if there is one. The
command line prints both on one line, `reason; remedy`, and exits with the code of the class. It
never prints a traceback for these errors.
"""

from __future__ import annotations

import errno

# errno values that the user can fix: disk full, permission denied, too many open files.
OF_THE_MACHINE = (
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO,
    errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN,
)  # fmt: skip


class SwitchmarkError(Exception):
    """Something failed at run time (exit code 1)."""

    exit_code = 1

    def __init__(self, reason: str = "", *, remedy: str = "") -> None:
        super().__init__(f"{reason}; {remedy}" if remedy else reason)
        self.reason = reason
        self.remedy = remedy


class UsageError(SwitchmarkError):
    """Bad input: arguments, campaign file, value (exit code 2)."""

    exit_code = 2


class UnavailableError(SwitchmarkError):
    """This machine cannot run the requested trials (exit code 3)."""

    exit_code = 3


class BusyError(UnavailableError):
    """Another bench is measuring on this machine."""


class StoppedRun(UnavailableError):
    """A run was stopped because its contenders fail for a reason of the machine. The records are
    stored."""


class TrialFailed(SwitchmarkError):
    """A trial could not be completed; the campaign goes on without it."""


# Part of the message of a trial that failed because its engine had no core. Such a trial counts
# as disturbed.
STARVED = "other programs kept it from its core"


class ContradictoryCounts(TrialFailed):
    """The applications' counts contradict each other, so they are not a measurement."""
