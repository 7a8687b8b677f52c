"""A paper as data: its items (tables and figures) and its findings, from one YAML file.

An item names the built-in campaign that measures it, which has the published values. The item also
has the form of its drawing, the parts that the bench lacks, and substitutes for parts that a
machine lacks. A finding is a sentence of the paper with claims that can be judged (`findings.py`).
"""

from __future__ import annotations

from importlib import resources
from typing import Any, Literal

from pydantic import Field, ValidationError
from ruamel.yaml import YAML

from switchmark.errors import UsageError
from switchmark.language import values
from switchmark.model.campaign import Published
from switchmark.model.parameter_table import BY_NAME
from switchmark.model.parameter_type import Known
from switchmark.model.trial import Frozen, Trial
from switchmark.plugins import yaml_names

_FOLDER = resources.files("switchmark.reproduction") / "papers"
_ANY = Known(scenarios=None)


class Figure(Frozen):
    """A figure of a row: a load, a time, or cores."""

    unit: Literal["pps", "bps", "us", "cores"] = "pps"
    statistic: str = "mean"
    layer: Literal["L1", "L2"] = "L2"
    path: Literal["round-trip", "one-way"] = "round-trip"
    at: float | None = None

    @property
    def kind(self) -> Published:
        """A published figure of this kind with value 0. Raises ValueError for cores."""
        if self.unit == "cores":
            raise ValueError("cores cannot be a published figure")
        known = self.model_dump(exclude={"unit"})
        return Published(match={}, value=0, unit=self.unit, source="", **known)

    @property
    def scale(self) -> tuple[float, str]:
        """The divisor of displayed values, and their unit."""
        return {
            "pps": (1e6, "Mpps"),
            "bps": (1e9, f"Gbit/s {self.layer}"),
            "us": (1.0, "µs"),
            "cores": (1.0, "cores"),
        }[self.unit]

    @property
    def words(self) -> str:
        """The figure with its unit: `mean load (Mpps)`."""
        if self.unit == "cores":
            return "CPU used (cores)"
        return f"{self.kind.words.partition(', L')[0]} ({self.scale[1]})"

    def is_of(self, published: Published) -> bool:
        """Return True if a published figure is of this kind."""
        if self.unit == "cores" or published.of != self.statistic or published.at != self.at:
            return False
        if published.is_time:
            return self.unit == "us" and published.path == self.path
        return published.unit == self.unit and (self.unit == "pps" or published.layer == self.layer)


class StandIn(Frozen):
    """Settings for machines that lack something."""

    unless: str  # `kvm`, `cores N`, or `nodes N` for NUMA nodes
    set: tuple[str, ...]  # settings of `--set`
    note: str


class Item(Frozen):
    """A table or figure of a paper."""

    name: str
    title: str
    section: str
    campaign: str
    form: Literal["lines", "bars", "grouped", "scatter", "cdf"] = "bars"
    x: str | None = None  # the key on the axis of lines and of grouped bars
    y: Figure = Figure()
    more: tuple[Figure, ...] = ()  # for bars: figures of the same unit beside `y`
    across: Figure | None = None  # on the other axis of a scatter, or as dots of grouped bars
    where: dict[str, str] = Field(default_factory=dict)  # selects rows of the campaign
    note: str = ""  # form in the paper, for example a plot without numbers
    missing: tuple[str, ...] = ()  # parts of the paper that the bench does not support
    unsaid: str = ""  # information that the paper lacks and that a reproduction needs
    coarse: tuple[str, ...] = ()  # settings of `--set` with fewer points, for short budgets
    stand_in: tuple[StandIn, ...] = ()
    instead: dict[str, str] = Field(default_factory=dict)  # switch -> note on its substitution

    def shows(self, trial: Trial) -> bool:
        """Return True if the item shows this trial."""
        return fulfils(trial, self.where)

    def concerns(self, published: Published) -> bool:
        """Return True if a published figure can belong to a trial of the item."""
        keys = ((BY_NAME[name], text) for name, text in self.where.items())
        return all(
            key.field not in published.match or published.match[key.field] in key.parse(text, _ANY)
            for key, text in keys
        )


class Place(Frozen):
    """Rows of an item, and the figure that ranks them."""

    item: str
    figure: Figure = Figure()
    where: dict[str, str] = Field(default_factory=dict)


class Claim(Frozen):
    """A statement about ratios of figures; findings consist of claims.

    `item` is the name of an item, or of a campaign, which means all its rows. `power`: figures are
    proportional to a power of the key `over` (0: constant, -1: 1/N, 1: linear). `rises`, `falls`:
    figures change from each value of a key to the next, by a bound if it is set. `flattens`: of
    three consecutive values of a key, the slope between the upper two is smaller. `order`: switches
    or groups of switches, the best first. `left`, `right`: ratios of two sets of rows lie between
    two bounds. `than`: ratios of two figures of one row, for example times at two loads, lie
    between two bounds. `other_item`: ratios of rows of `item` to rows of the other item with equal
    keys `alike`. `link`: ratios of loads to the rate of a link in bits per second. `of_set_rate`:
    ratios of loads in frames to the set rate. `steady`: two groups of switches; the first changes
    less from the least to the greatest value of `over`. `correlated`: the rank correlation with
    this figure over the switches lies between two bounds. `beaten_in`: no switch is the best in
    `item` and in all of these places."""

    item: str
    figure: Figure = Figure()
    where: dict[str, str] = Field(default_factory=dict)
    power: float | None = None
    over: str | None = None
    rises: str | None = None
    falls: str | None = None
    flattens: str | None = None
    order: tuple[tuple[str, ...], ...] = ()
    left: dict[str, str] | None = None
    right: dict[str, str] | None = None
    than: Figure | None = None
    other_item: str | None = None
    other_where: dict[str, str] = Field(default_factory=dict)
    alike: tuple[str, ...] = ()
    link: float | None = None
    of_set_rate: bool = False
    steady: tuple[tuple[str, ...], ...] = ()
    correlated: Figure | None = None
    beaten_in: tuple[Place, ...] = ()
    stand_in: Literal["any", "none", "only"] = "any"  # permitted rows with substitutes
    cores: Literal["any", "enough", "lacking"] = "any"  # permitted core supply of the upper row
    cable: bool = False  # only rows with frames over NICs, or between two machines
    at_least: float | None = None  # lower bound of the ratios
    at_most: float | None = None
    within: float = 0.2  # tolerance of a power in both directions

    @property
    def items(self) -> tuple[str, ...]:
        """The items with rows that it compares."""
        more = () if self.other_item is None else (self.other_item,)
        return (self.item, *more, *(place.item for place in self.beaten_in))

    @property
    def sides(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """For each side of the ratios: the item, and the switches of which it needs at least one;
        empty for any switch."""
        named = [{**self.where, **side} for side in (self.left, self.right) if side is not None]
        sides = [(self.item, _switches(where)) for where in named or [self.where]]
        if self.other_item is not None:
            sides.append((self.other_item, _switches(self.other_where)))
        groups = [*self.order, *self.steady]
        return (*sides, *((self.item, tuple(group)) for group in groups))


def _switches(where: dict[str, str]) -> tuple[str, ...]:
    return (
        tuple(map(str, BY_NAME["switch"].parse(where["switch"], _ANY))) if "switch" in where else ()
    )


class PaperFinding(Frozen):
    """A conclusion of the paper as a quotation. … marks omissions, and parentheses contain added
    explanations."""

    name: str
    section: str
    statement: str
    remark: str = ""  # added explanation of the statement, or of its judgement
    claims: tuple[Claim, ...] = ()
    needs: str = ""  # requirements of the claims on a machine
    cannot: str = ""  # reason why this bench cannot judge it


class Paper(Frozen):
    """One publication."""

    name: str
    authors: str
    year: int
    title: str
    where: str
    machine: str
    method: str
    target: str  # name of its machine for `plan --target`
    items: tuple[Item, ...]
    findings: tuple[PaperFinding, ...]

    @property
    def cited(self) -> str:
        """The citation: `Ara et al. 2021`."""
        return f"{self.authors} {self.year}"

    @property
    def compared_campaigns(self) -> frozenset[str]:
        """The campaigns with rows that findings compare."""
        return frozenset().union(*map(self.campaigns_of, self.findings))

    def campaigns_of(self, finding: PaperFinding) -> frozenset[str]:
        """Return the campaigns with rows that the finding compares."""
        names = (name for claim in finding.claims for name in claim.items)
        return frozenset(self.item(name).campaign for name in names)

    def item(self, name: str) -> Item:
        """Return the item of this name. Raise UsageError if it is unknown."""
        known = {item.name: item for item in self.items}
        short = name.removeprefix(f"{self.name}-")
        if short not in known:
            raise UsageError(f"{self.name}: {values.unknown(name, known, 'item')}")
        return known[short]


def paper_names() -> list[str]:
    """Return the names of all papers."""
    return yaml_names(_FOLDER)


def read_paper(name: str) -> Paper:
    """Read the paper of this name. Raise UsageError if it is unknown or invalid."""
    if name not in paper_names():
        raise UsageError(values.unknown(name, paper_names(), "paper"))
    document: dict[str, Any] = YAML(typ="safe", pure=True).load(
        (_FOLDER / f"{name}.yaml").read_text("utf-8")
    )
    try:
        return Paper.model_validate(document)
    except ValidationError as error:
        raise UsageError(f"{name}.yaml: {error}") from error


def fulfils(trial: Trial, where: dict[str, str]) -> bool:
    """Return True if the trial has one of the values of each key, written as in campaigns."""
    for name, text in where.items():
        key = BY_NAME[name]
        if getattr(trial, key.field) not in key.parse(text, _ANY):
            return False
    return True
