"""Ends a run early, or leaves out a contender, after failures.

If the first trials of two contenders fail for the same reason, the cause is the place, and the run
stops. A contender that cannot start is tried twice, and then left out for the rest of the run,
while the others continue. `--resume` tries everything again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from operator import attrgetter

from switchmark.experiment.retry_disturbed import is_disturbed
from switchmark.model.choices import WIRE
from switchmark.model.parameter_table import of_kinds
from switchmark.model.parameter_type import Kind
from switchmark.model.trial import Trial
from switchmark.record import Record

TRIES = 2
# Parameters that decide whether a contender starts, since the same contender may start in another
# environment, or with fewer pairs.
_WHERE = tuple(one for one in of_kinds(Kind.PLACE, Kind.LAYOUT) if one.field != "dimension")
_CONTENDER_FIELDS = tuple(one.field for one in of_kinds(Kind.CONTENDER))
_contender_values = attrgetter(*_CONTENDER_FIELDS)
_place_values = attrgetter(*(one.field for one in _WHERE))
# Parts of messages that differ between trials: names of sessions (sm and six digits), paths,
# numbers.
_NAMES = re.compile(r"\bsm[0-9a-f]{6}[\w.-]*|/[\w./+-]+|\b0x[0-9a-f]+\b|\d+")


@dataclass
class FailedStarts:
    """The failures of a run, and the contenders that are left out."""

    say: Callable[[str], object]  # prints a line about each contender that is left out
    stopped: str = ""  # reason why the run stops, with the remedy; empty: it continues
    _unreported: str = ""
    _tries: dict[Hashable, int] = field(default_factory=dict)  # consecutive failed starts
    _left_out: set[Hashable] = field(default_factory=set)
    _begun: set[Hashable] = field(default_factory=set)  # contenders with a trial
    _first_failures: dict[str, str] = field(default_factory=dict)  # contender, by reason

    def take(self, record: Record) -> Record:
        """Take the outcome of a trial into account. Return its record, with `left_out` if its
        contender is left out from now on."""
        self._check_first(record)
        trial = record.trial
        key = _start_key(trial)
        if not could_not_start(record):
            self._tries[key] = 0
            return record
        self._tries[key] = self._tries.get(key, 0) + 1
        if self._tries[key] < TRIES or key in self._left_out:
            return record
        self._left_out.add(key)
        self._unreported = (
            f"left out: {_name_of(trial)}: could not start {TRIES} times: {record.message}"
        )
        return record.model_copy(update={"left_out": True})

    def report(self) -> None:
        """Report a contender that is left out, after the line of its trial."""
        if self._unreported:
            self.say(self._unreported)
        self._unreported = ""

    def is_left_out(self, trial: Trial) -> bool:
        """Return True if the trial's contender is left out."""
        return _start_key(trial) in self._left_out

    def _check_first(self, record: Record) -> None:
        """Stop the run if the first trials of two contenders fail for the same reason."""
        trial = record.trial
        contender = _contender_values(trial)
        if record.serves_others or contender in self._begun:
            return
        self._begun.add(contender)
        if record.status != "failed" or is_disturbed(record):
            return
        reason = normalise(record.message, trial)
        other = self._first_failures.setdefault(reason, trial.called)
        if other != trial.called and not self.stopped:
            remedy = "" if "; " in record.message else "; see `switchmark doctor`"
            self.stopped = (
                f"stopped, since {other} and {trial.called} fail for the same reason: "
                f"{record.message}{remedy}"
            )


def _start_key(trial: Trial) -> Hashable:
    """Return a key that is equal for trials that can start only together. For the baseline, only
    the port kind of the contender counts."""
    contender = trial.port_kind if trial.switch == WIRE else _contender_values(trial)
    return trial.switch, contender, _place_values(trial)


def could_not_start(record: Record) -> bool:
    """Return True if a trial failed before its switch and applications were ready."""
    is_deployed = record.timing is not None and record.timing.deploy_s > 0
    return record.status == "failed" and not is_deployed


def normalise(message: str, trial: Trial) -> str:
    """Replace the parts of a message that differ between trials that fail for the same reason."""
    for name in sorted({trial.switch, trial.called}, key=len, reverse=True):
        message = message.replace(name, "SWITCH")
    return _NAMES.sub("N", message)


def _name_of(trial: Trial) -> str:
    """Return the contender, with the place and layout in which it cannot start, if not default."""
    details = [
        parameter.words(value)
        for parameter in _WHERE
        if (value := getattr(trial, parameter.field)) != parameter.default
    ]
    return ", ".join([trial.called, *details])
