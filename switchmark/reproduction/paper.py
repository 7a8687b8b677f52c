"""A paper as a plain value: its items (tables and figures) and its findings, from one YAML file.

An item names the built-in campaign that measures it, which carries the published values; the item
itself says how it is drawn, what this bench lacks for it, and what may stand in where a machine
lacks something. A finding is a sentence of the paper with claims that can be judged
(`findings.py`).
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
        """A published figure of this kind, whose value is 0. Raises ValueError for cores."""
        if self.unit == "cores":
            raise ValueError("cores cannot be a published figure")
        known = self.model_dump(exclude={"unit"})
        return Published(match={}, value=0, unit=self.unit, source="", **known)

    @property
    def scale(self) -> tuple[float, str]:
        """The divisor for showing the figure, and the unit it then has."""
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
        """Whether a published figure is of this kind."""
        if self.unit == "cores" or published.of != self.statistic or published.at != self.at:
            return False
        if published.is_time:
            return self.unit == "us" and published.path == self.path
        return published.unit == self.unit and (self.unit == "pps" or published.layer == self.layer)


class StandIn(Frozen):
    """Settings in place of something that a machine does not have."""

    unless: str  # `kvm`, `cores N`, `nodes N` (of NUMA)
    set: tuple[str, ...]  # as of `--set`
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
    more: tuple[Figure, ...] = ()  # of bars: figures of the same unit beside `y`
    across: Figure | None = None  # on the other axis: of a scatter, of grouped bars the dots
    where: dict[str, str] = Field(default_factory=dict)  # which rows of the campaign it shows
    note: str = ""  # how the paper gives it: as a plot without numbers, say
    missing: tuple[str, ...] = ()  # what the paper had and cannot be asked here
    unsaid: str = ""  # what the paper does not tell, without which nobody can repeat it
    coarse: tuple[str, ...] = ()  # as of `--set`: fewer points, where there is little time
    stand_in: tuple[StandIn, ...] = ()
    instead: dict[str, str] = Field(default_factory=dict)  # switch -> in the place of what it runs

    def shows(self, trial: Trial) -> bool:
        """Whether the item shows this trial."""
        return fulfils(trial, self.where)

    def concerns(self, published: Published) -> bool:
        """Whether a published figure may be of a trial that the item shows."""
        keys = ((BY_NAME[name], text) for name, text in self.where.items())
        return all(
            key.field not in published.match or published.match[key.field] in key.parse(text, _ANY)
            for key, text in keys
        )


class Place(Frozen):
    """Rows of an item, and which of their figures says who is best."""

    item: str
    figure: Figure = Figure()
    where: dict[str, str] = Field(default_factory=dict)


class Claim(Frozen):
    """A statement about ratios of figures, which findings are made of.

    `item` is an item's name, or that of a campaign: then it is of all rows, whatever items show.
    `power`: figures are proportional to a power of the key `over` (0: flat, -1: 1/N, 1: linear).
    `rises`, `falls`: from each value of a key to the next, by a bound if one is set. `flattens`: of
    three values of a key in a row, the slope between the upper two is the smaller one. `order`:
    switches, or groups of them, the best first. `left`, `right`: of two sets of rows, between two
    bounds. `than`: of two figures of one row, such as times at two loads, between two bounds.
    `other_item`: rows of two items that agree in the keys `alike`, `item` over the other. `link`:
    of a load to a link's rate, in bits a second. `asked`: of a load in frames to the set rate.
    `steady`: groups of switches, of which the first change less than the second from the least to
    the greatest value of `over`. `correlated`: the rank correlation of the figure with this one
    over the switches, between two bounds. `beaten_in`: no switch is the best in `item` and in all
    of these places; each is beaten in one."""

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
    asked: bool = False
    steady: tuple[tuple[str, ...], ...] = ()
    correlated: Figure | None = None
    beaten_in: tuple[Place, ...] = ()
    stand_in: Literal["any", "none", "only"] = "any"  # of rows measured with stand-ins of the item
    cores: Literal["any", "enough", "lacking"] = "any"  # only ratios whose upper row had such
    cable: bool = False  # only of rows whose frames went over NICs, or between two machines
    at_least: float | None = None  # of left over right, of the figure over `than`
    at_most: float | None = None
    within: float = 0.2  # by which a power may be missed, either way

    @property
    def items(self) -> tuple[str, ...]:
        """The items whose rows it compares."""
        more = () if self.other_item is None else (self.other_item,)
        return (self.item, *more, *(one.item for one in self.beaten_in))

    @property
    def sides(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """An item and the switches of which it must have one, for each side of its ratios; none of
        them where any switch will do."""
        named = [{**self.where, **side} for side in (self.left, self.right) if side is not None]
        sides = [(self.item, _switches(one)) for one in named or [self.where]]
        if self.other_item is not None:
            sides.append((self.other_item, _switches(self.other_where)))
        groups = [*self.order, *self.steady]
        return (*sides, *((self.item, tuple(group)) for group in groups))


def _switches(where: dict[str, str]) -> tuple[str, ...]:
    return (
        tuple(map(str, BY_NAME["switch"].parse(where["switch"], _ANY))) if "switch" in where else ()
    )


class PaperFinding(Frozen):
    """A conclusion of the paper, in its words (… where some are left out; in parentheses what they
    are about)."""

    name: str
    section: str
    words: str
    remark: str = ""  # of ours, on what the words are, or how they are judged
    claims: tuple[Claim, ...] = ()
    needs: str = ""  # what a machine must have before its claims can be tried
    cannot: str = ""  # why it cannot be tried with this bench


class Paper(Frozen):
    """One publication."""

    name: str
    authors: str
    year: int
    title: str
    where: str
    machine: str
    method: str
    target: str  # the description of its machine that `plan --target` knows
    items: tuple[Item, ...]
    findings: tuple[PaperFinding, ...]

    @property
    def cited(self) -> str:
        """The citation: `Ara et al. 2021`."""
        return f"{self.authors} {self.year}"

    @property
    def compared_campaigns(self) -> frozenset[str]:
        """The campaigns whose rows a finding compares."""
        return frozenset().union(*map(self.campaigns_of, self.findings))

    def campaigns_of(self, finding: PaperFinding) -> frozenset[str]:
        """The campaigns whose rows the finding compares."""
        names = (name for claim in finding.claims for name in claim.items)
        return frozenset(self.item(name).campaign for name in names)

    def item(self, name: str) -> Item:
        """The item of this name. Raises UsageError."""
        held = {one.name: one for one in self.items}
        short = name.removeprefix(f"{self.name}-")
        if short not in held:
            raise UsageError(f"{self.name}: {values.unknown(name, held, 'item')}")
        return held[short]


def paper_names() -> list[str]:
    """The names of all papers."""
    return yaml_names(_FOLDER)


def read_paper(name: str) -> Paper:
    """Read the paper of this name. Raises UsageError."""
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
    """Whether the trial has these values, each key's written as in campaigns (several: any)."""
    for name, text in where.items():
        key = BY_NAME[name]
        if getattr(trial, key.field) not in key.parse(text, _ANY):
            return False
    return True
