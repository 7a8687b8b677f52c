"""Failures that end a run early, or a contender's part in it.

If the first trial of each of two contenders fails for the same reason, the place is the cause and
the run stops. A contender that cannot start is tried twice, then left out for the rest of the run,
and the others go on. Both are of one run of the bench: `--resume` tries everything again.
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
# What decides whether a contender starts: the same one may start elsewhere, or with fewer pairs.
_WHERE = tuple(one for one in of_kinds(Kind.PLACE, Kind.LAYOUT) if one.field != "dimension")
_CONTENDER_FIELDS = tuple(one.field for one in of_kinds(Kind.CONTENDER))
_contender_values = attrgetter(*_CONTENDER_FIELDS)
_place_values = attrgetter(*(one.field for one in _WHERE))
# Names that differ from trial to trial: of sessions (sm and six digits), paths, numbers.
_NAMES = re.compile(r"\bsm[0-9a-f]{6}[\w.-]*|/[\w./+-]+|\b0x[0-9a-f]+\b|\d+")


@dataclass
class FailedStarts:
    """The failures of one run of the bench, and what follows from them."""

    say: Callable[[str], object]  # a line for people about each contender that is left out
    stopped: str = ""  # why the run stops, with the remedy; empty: it goes on
    _unsaid: str = ""
    _tries: dict[Hashable, int] = field(default_factory=dict)  # failed starts in a row
    _gone: set[Hashable] = field(default_factory=set)
    _begun: set[Hashable] = field(default_factory=set)  # contenders with a trial
    _first_failures: dict[str, str] = field(default_factory=dict)  # reason: the contender

    def take(self, record: Record) -> Record:
        """Note how a trial ended. Return its record, which says so if its contender is left out
        from now on."""
        self._take_first(record)
        trial = record.trial
        key = _start_key(trial)
        if not could_not_start(record):
            self._tries[key] = 0
            return record
        self._tries[key] = self._tries.get(key, 0) + 1
        if self._tries[key] < TRIES or key in self._gone:
            return record
        self._gone.add(key)
        self._unsaid = f"left out: {_named(trial)}: could not start {TRIES} times: {record.message}"
        return record.model_copy(update={"left_out": True})

    def report(self) -> None:
        """Say, once, which contender is left out, after the line of its trial."""
        if self._unsaid:
            self.say(self._unsaid)
        self._unsaid = ""

    def is_left_out(self, trial: Trial) -> bool:
        """Return True if the trial's contender is left out."""
        return _start_key(trial) in self._gone

    def _take_first(self, record: Record) -> None:
        """Stop the run if this is the second contender whose first trial fails for one reason."""
        trial = record.trial
        contender = _contender_values(trial)
        if record.serves_others or contender in self._begun:
            return
        self._begun.add(contender)
        if record.status != "failed" or is_disturbed(record):
            return
        reason = normalised(record.message, trial)
        other = self._first_failures.setdefault(reason, trial.called)
        if other != trial.called and not self.stopped:
            remedy = "" if "; " in record.message else "; see `switchmark doctor`"
            self.stopped = (
                f"stopped, since {other} and {trial.called} fail for the same reason: "
                f"{record.message}{remedy}"
            )


def _start_key(trial: Trial) -> Hashable:
    """A key that is equal in trials of which all can start, or none. The bare wire has the same
    ends whichever switch's place it takes, if the kind of port is the same."""
    means = trial.port_kind if trial.switch == WIRE else _contender_values(trial)
    return trial.switch, means, _place_values(trial)


def could_not_start(record: Record) -> bool:
    """Return True if a trial failed before its switch and applications were ready."""
    is_deployed = record.timing is not None and record.timing.deploy_s > 0
    return record.status == "failed" and not is_deployed


def normalised(message: str, trial: Trial) -> str:
    """The message without what differs between trials that fail for the same reason."""
    for name in sorted({trial.switch, trial.called}, key=len, reverse=True):
        message = message.replace(name, "SWITCH")
    return _NAMES.sub("N", message)


def _named(trial: Trial) -> str:
    """The contender, and where and with how many pairs it cannot start, if not as usual."""
    more = [
        one.words(value) for one in _WHERE if (value := getattr(trial, one.field)) != one.default
    ]
    return ", ".join([trial.called, *more])
