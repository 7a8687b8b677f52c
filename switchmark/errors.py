"""The errors that a user may see, each with its exit code.

Each error has a reason, which names the place and the problem, and a remedy if there is one. The
command line prints both on one line, `reason; remedy`, and exits with the code of the class. It
never prints a traceback for these errors.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace

# errno values that the user can fix: disk full, permission denied, too many open files.
OF_THE_MACHINE = (
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO,
    errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why something is impossible, and the remedy.

    The rules of campaigns return refusals, an `Availability` contains one, and each error has one.
    """

    reason: str
    remedy: str = ""
    instead: str = ""  # an alternative to the remedy
    key: str = ""  # the campaign key that is wrong; empty: a combination of several keys

    def __str__(self) -> str:
        remedies = ", or ".join(filter(None, (self.remedy, self.instead)))
        return f"{self.reason}; {remedies}" if remedies else self.reason

    @property
    def clause(self) -> str:
        """The reason with the remedy in parentheses, as a part of a sentence. A reason may end with
        an error of the operating system, which is in parentheses already."""
        if not self.remedy:
            return self.reason
        start = self.reason.removesuffix(")")
        joint = "; " if start != self.reason else " ("
        return f"{start}{joint}remedy: {self.remedy})"

    def at(self, key: str) -> Refusal:
        """Return the refusal as one of this campaign key."""
        return replace(self, key=key)

    def about(self, subject: str) -> Refusal:
        """Return the refusal with the subject in front of its reason."""
        return replace(self, reason=f"{subject}{self.reason}")


class SwitchmarkError(Exception):
    """Something failed at run time (exit code 1)."""

    exit_code = 1

    def __init__(self, reason: str | Refusal = "", *, remedy: str = "") -> None:
        self.refusal = reason if isinstance(reason, Refusal) else Refusal(reason, remedy)
        super().__init__(str(self.refusal))


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
