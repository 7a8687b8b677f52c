"""A campaign as a plain value: its trials, how often and in which order they run, and which
precision it demands."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, create_model

from switchmark.model.choices import MAX_REPETITIONS, NAME_PATTERN, Dimension
from switchmark.model.expectation import Expectation
from switchmark.model.finding import CampaignFinding
from switchmark.model.parameter_table import SWEPT
from switchmark.model.trial import Frozen, Trial

MAX_REPEATS = 100
# Statistics of a published figure, over all samples of a trial or over its repetitions.
STATISTICS = ("mean", "median", "min", "max", "stdev")
STATISTIC_PATTERN = rf"^({'|'.join(STATISTICS)}|p[0-9]{{1,2}}(\.[0-9]{{1,3}})?)$"


class _Grid(Frozen):
    """A grid of trials: every combination of the values. The fields are those of `Trial`."""

    dimension: Dimension

    @property
    def count(self) -> int:
        """The number of trials in the grid, without making them."""
        return math.prod(len(getattr(self, one.field)) for one in SWEPT)


if TYPE_CHECKING:

    class Sweep(_Grid):
        """The grid, with a tuple of values for each parameter but the dimension."""

        def __getattr__(self, field: str) -> tuple[Any, ...]: ...

else:
    Sweep = create_model(
        "Sweep", __base__=_Grid, **{one.field: (one.several, ...) for one in SWEPT}
    )


# Of the duration; the defaults of `trim` are reached at 5 s (docs/methods.md).
WARM_UP_SHARE, COOL_DOWN_SHARE = 1 / 5, 2 / 25
SAMPLES_A_TRIAL = 25  # at least, unless their length is set
SHORTEST_SAMPLE_S = 0.001  # the engine's


def sample_s(interval_s: float, duration_s: float) -> float:
    """The length of a sample in a trial of this length, in seconds: as asked for. The default is
    shorter in short trials, also where it is written out."""
    if interval_s != Trial.model_fields["interval_s"].default:
        return interval_s
    return min(interval_s, max(SHORTEST_SAMPLE_S, duration_s / SAMPLES_A_TRIAL))


class TrimPolicy(Frozen):
    """Which samples are left out: the first and last of a throughput trial, inside its duration; a
    latency trial has a warm-up run before it instead."""

    # Unless they are set, a share of the duration, and no more than this.
    warm_up_s: float = Field(default=1.0, ge=0)
    cool_down_s: float = Field(default=0.4, ge=0)

    def over(self, duration_s: float) -> TrimPolicy:
        """The policy in seconds for a trial of this length."""
        return _over(self.warm_up_s, self.cool_down_s, frozenset(self.model_fields_set), duration_s)


@cache
def _over(
    warm_up_s: float, cool_down_s: float, given: frozenset[str], duration_s: float
) -> TrimPolicy:
    """The policy in seconds: campaigns have many trials and few durations, and share the object."""
    return TrimPolicy(
        warm_up_s=_of_share("warm_up_s", warm_up_s, WARM_UP_SHARE * duration_s, given),
        cool_down_s=_of_share("cool_down_s", cool_down_s, COOL_DOWN_SHARE * duration_s, given),
    )


def _of_share(name: str, value_s: float, share_s: float, given: frozenset[str]) -> float:
    return value_s if name in given else min(value_s, round(share_s, 9))


class VerifyPolicy(Frozen):
    """The number of frames that the check before each trial sends, and that must arrive."""

    frames: int = Field(default=16, ge=1)  # each way, for each pair
    min_arrived_ratio: float = Field(default=1.0, ge=0, le=1)
    max_strays: int = Field(default=0, ge=0)  # frames at a port they were not meant for
    timeout_s: float = Field(default=15.0, gt=0)  # until every port passes frames


class FirstAvailable(Frozen):
    """The number of listed values that are measured: the first values that can run where
    it runs. None: all of them, or it is refused."""

    switch: int | None = Field(default=None, ge=1)
    environment: int | None = Field(default=None, ge=1)


class Published(Frozen):
    """A figure from the literature, to be printed beside what was measured here. Where an older
    record does not say what the figure is, a load is a mean and a time a median."""

    match: dict[str, str | int | float | bool | None]  # Trial field -> value
    value: float = Field(allow_inf_nan=False)
    unit: Literal["pps", "bps", "ns", "us"]
    source: str
    note: str = ""
    statistic: str | None = Field(default=None, pattern=STATISTIC_PATTERN)
    layer: Literal["L1", "L2"] = "L2"  # that bits are counted on
    direction: Literal["all", "each"] = "all"  # for traffic both ways: the sum, or each way
    path: Literal["round-trip", "one-way"] = "round-trip"  # for times
    at: float | None = Field(default=None, gt=0, le=1)  # the share of R+ at which it was timed
    written: str = ""  # the value as the paper writes it, with its decimals

    @property
    def is_time(self) -> bool:
        """Return True if the figure is a time; otherwise it is a load."""
        return self.unit in ("ns", "us")

    @property
    def of(self) -> str:
        """The statistic; the default where an older record does not name it."""
        return self.statistic or ("median" if self.is_time else "mean")

    @property
    def words(self) -> str:
        """A description of the figure: `mean one-way time at 0.5 R+`, `mean load, L1, each
        direction`."""
        if self.is_time:
            at = "" if self.at is None else f" at {self.at:g} R+"
            return f"{self.of} {self.path} time{at}"
        layer = f", {self.layer}" if self.unit == "bps" else ""
        return f"{self.of} load{layer}{', each direction' if self.direction == 'each' else ''}"

    @property
    def text(self) -> str:
        """The value with its unit, as the paper writes it."""
        suffix = next((c for c in self.written[-1:] if c.isalpha()), "")
        digits = self.written.removesuffix(suffix) or f"{self.value:g}"
        return f"{digits} {suffix}{'µs' if self.unit == 'us' else self.unit}"

    def matches(self, trial: Trial) -> bool:
        """Return True if the figure was measured under the conditions of this trial."""
        return all(
            field in Trial.model_fields and getattr(trial, field) == value
            for field, value in self.match.items()
        )


class CampaignDefinition(Frozen):
    """A set of trials, how often and in which order they run, and which precision is demanded of
    them."""

    name: str = Field(pattern=NAME_PATTERN)
    description: str = ""
    sweeps: tuple[Sweep, ...] = Field(min_length=1)
    repetitions: int = Field(default=1, ge=1, le=MAX_REPETITIONS)
    until_ci: float | None = Field(default=None, gt=0, lt=1)  # half the interval over the mean
    max_repetitions: int = Field(default=20, ge=1, le=MAX_REPETITIONS)  # with `until_ci`
    repeat_disturbed: int = Field(default=0, ge=0, le=MAX_REPEATS)  # repeats of a measurement
    prove: float | None = Field(default=None, gt=0, lt=1)  # the smallest lead worth knowing
    budget_s: float | None = Field(default=None, gt=0)  # None: a set number of blocks
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    seed: int = Field(default=1, ge=0)  # for the order inside each block
    trim: TrimPolicy = TrimPolicy()
    verify: VerifyPolicy = VerifyPolicy()
    mixed_connect_modes: bool = False
    tuning: str = "as-is"  # profile of the machine during the campaign (host/tuning.py)
    skip_unavailable: bool = False  # leave out, by name, switches that the machine cannot run
    first_available: FirstAvailable = FirstAvailable()
    time_budget_s: float | None = Field(default=None, gt=0)  # for the measuring alone
    published: tuple[Published, ...] = ()
    findings: tuple[CampaignFinding, ...] = ()
    expect: tuple[Expectation, ...] = ()  # judged at the end of a run

    @property
    def proves(self) -> bool:
        """Return True if the campaign runs until every comparison is decided or its budget is
        spent."""
        return self.budget_s is not None

    @property
    def count(self) -> int:
        """The greatest number of trials, repetitions included (sweeps may overlap)."""
        return self.repetitions * sum(sweep.count for sweep in self.sweeps)
