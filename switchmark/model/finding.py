"""Findings that a campaign declares: statements of the literature about ratios of its figures."""

from __future__ import annotations

from typing import TypeAlias

from pydantic import Field

from switchmark.model.choices import NAME_PATTERN
from switchmark.model.trial import Frozen, Trial

Match: TypeAlias = dict[str, str | int | float | bool | None]  # field of a trial -> its value


class RatioClaim(Frozen):
    """The ratio of two figures, which lies between two bounds if the finding holds.

    `left` and `right` name the trials above and below the line by the fields in which they differ,
    `where` by those that both have. Each pair is equal in everything else."""

    where: Match = Field(default_factory=dict)
    left: Match
    right: Match
    figure: str = "forwarded"  # the name of a metric
    at_least: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    at_most: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    published: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @property
    def fields(self) -> frozenset[str]:
        """The fields in which both sides differ."""
        return frozenset((*self.left, *self.right))

    def is_left(self, trial: Trial) -> bool:
        """Return True if the trial can be above the line."""
        return _has(trial, {**self.where, **self.left})

    def is_right(self, trial: Trial) -> bool:
        """Return True if the trial can be below the line."""
        return _has(trial, {**self.where, **self.right})


class CampaignFinding(Frozen):
    """A statement, its source, and the ratios that decide whether it holds."""

    name: str = Field(pattern=NAME_PATTERN)
    statement: str
    source: str
    claims: tuple[RatioClaim, ...] = Field(min_length=1)


def _has(trial: Trial, match: Match) -> bool:
    return all(
        field in Trial.model_fields and getattr(trial, field) == value
        for field, value in match.items()
    )
