"""The errors a user may meet, each with its exit code.

Every message says what was wrong, where, and what to do. The command line prints the
message on one line and exits with the class's code; it never shows a traceback for these.
"""

from __future__ import annotations

import errno

# What a user can mend: no room, no leave, too many files open.
OF_THE_MACHINE = (
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO,
    errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN,
)  # fmt: skip


class SwitchmarkError(Exception):
    """Something failed at run time (exit code 1)."""

    exit_code = 1


class UsageError(SwitchmarkError):
    """Bad input: arguments, campaign file, value (exit code 2)."""

    exit_code = 2


class UnavailableError(SwitchmarkError):
    """This machine cannot run what was asked (exit code 3); the message gives the remedy."""

    exit_code = 3


class BusyError(UnavailableError):
    """Another bench is measuring on this machine."""


class StoppedRun(UnavailableError):
    """A run was stopped, since its contenders fail for a reason that the machine is the cause of;
    the records are stored."""


class TrialFailed(SwitchmarkError):
    """A trial could not be completed; the campaign goes on without it."""


# In the message of a trial that failed since its engine had no core: such a trial is disturbed.
STARVED = "other programs kept it from its core"


class ContradictoryCounts(TrialFailed):
    """The applications' counts contradict each other: they are no measurement."""
