"""Lookup tables and comparison keys, which follow from the table of parameters.

Two trials are at the same *test point* if they may be compared. A trial and a baseline have the
same *load* if the figure of the baseline is the trial's ceiling or floor.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Any

from switchmark.model import parameter_parsers as readers
from switchmark.model.choices import Dimension
from switchmark.model.parameter_type import Kind, Parameter, Wire
from switchmark.model.trial import Trial

PARAMETERS: dict[str, Parameter] = {
    name: row.of(name, info)
    for name, info in Trial.model_fields.items()
    for row in info.metadata
    if isinstance(row, Parameter)
}
# Kinds of keys that are compared if a campaign compares them.
_IF_ASKED = (Kind.PLACE, Kind.CORES, Kind.FUNCTION)
# The row of `compared` cannot name the other rows of its table.
PARAMETERS["compared"] = replace(
    PARAMETERS["compared"],
    read=readers.compared([one.name for one in PARAMETERS.values() if one.kind in _IF_ASKED]),
)
KEYS = tuple(one for one in PARAMETERS.values() if one.kind is not Kind.BOOKKEEPING)
SWEPT = tuple(one for one in KEYS if one.field != "dimension")  # a sweep has one dimension
BY_NAME: dict[str, Parameter] = {one.name: one for one in KEYS}
BY_LETTER: dict[str, Parameter] = {one.letter: one for one in KEYS if one.letter}
# Records tell what planning has made of these, whatever was asked.
RESOLVED_BY_PLAN = tuple(one.field for one in KEYS if one.resolved)


def of_kinds(*kinds: Kind) -> tuple[Parameter, ...]:
    """The parameters of these kinds."""
    return tuple(one for one in PARAMETERS.values() if one.kind in kinds)


POINT = of_kinds(Kind.TRAFFIC, Kind.LAYOUT, Kind.PLACE, Kind.CORES, Kind.FUNCTION, Kind.METHOD)
_POINT_FIELDS = tuple(one.field for one in POINT)
_POINT_NAMES = set(_POINT_FIELDS)
_point_values = attrgetter(*_POINT_FIELDS)
CONTENDER = tuple(one for one in of_kinds(Kind.CONTENDER) if one.field != "switch")
COMPARABLE: dict[str, Parameter] = {  # if asked for
    one.name: one for one in of_kinds(*_IF_ASKED)
}
# The parameters that an entry of `contenders` can set.
OF_CONTENDERS: dict[str, Parameter] = {
    one.name: one for one in of_kinds(Kind.CONTENDER, *_IF_ASKED) if one.field != "contender"
}


def point_of(trial: Trial) -> tuple[tuple[str, Any], ...]:
    """The values that must be equal in trials that are compared, as JSON has them; None stands for
    a value that is itself compared."""
    values = trial.model_dump(mode="json", include=_POINT_NAMES)
    values |= dict.fromkeys(one.field for one in means_if_asked(trial))
    return tuple(values.items())


def point_key(trial: Trial) -> tuple[Any, ...]:
    """A key that is equal where `point_of` is, in a tenth of its memory: campaigns have many
    points."""
    values: tuple[Any, ...] = _point_values(trial)
    left_out = {one.field for one in means_if_asked(trial)}
    if not left_out:
        return values
    return tuple(
        None if name in left_out else value
        for name, value in zip(_POINT_FIELDS, values, strict=True)
    )


def means_if_asked(trial: Trial) -> tuple[Parameter, ...]:
    """Return the keys of place, cores and functions that this trial's campaign compares."""
    return tuple(COMPARABLE[name] for name in trial.compared.names)


def over_wire(trial: Trial) -> dict[str, Any]:
    """Return the values in which the baseline of a trial differs from the trial, without those that
    depend on ports and cores."""
    changes = {one.field: one.default for one in PARAMETERS.values() if one.wire is Wire.DEFAULT}
    changes["scenario"] = trial.scenario.without_vnfs
    return changes if trial.split == "none" else changes | {"pairs": 1}


def saturating() -> dict[str, Any]:
    """Return the values in which a trial that finds a ceiling differs from a paced trial."""
    return {one.field: one.default for one in PARAMETERS.values() if one.wire is Wire.PACE}


def load_of(trial: Trial, *, ceiling: bool = False) -> dict[str, Any]:
    """Return the values that a trial and its baseline have in common, as JSON has them. `ceiling`:
    a saturated baseline judges a throughput with a steady schedule."""
    changes = over_wire(trial)
    if ceiling and trial.dimension is Dimension.THROUGHPUT and trial.schedule.is_steady:
        changes |= saturating()
    fields = {one.field for one in PARAMETERS.values() if one.wire in (Wire.SAME, Wire.PACE)}
    return trial.model_copy(update=changes).model_dump(mode="json", include=fields)
