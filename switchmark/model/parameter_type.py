"""The row of a parameter in the table of `trial.py`.

There is no other list of parameters. Campaigns, notations, `--set`, messages, the tables of docs/,
the comparability of trials, the load of a baseline and the key of a stored baseline follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema

from switchmark.errors import Refusal
from switchmark.language import values
from switchmark.language.values import Limits
from switchmark.model.choices import Dimension
from switchmark.model.scenario import WRITTEN

ALL = "all"  # the word for all values, if a row lists them


@dataclass(frozen=True, slots=True)
class Known:
    """The names that exist on this installation; None takes any well-formed name."""

    switches: tuple[str, ...] | None = None
    environments: tuple[str, ...] | None = None
    scenarios: tuple[str, ...] | None = tuple(WRITTEN)
    methods: tuple[str, ...] | None = None
    goals: tuple[str, ...] | None = None  # goals of method `ndr-pdr`
    generators: tuple[str, ...] | None = None
    # Returns the reason why a program of that path cannot run; None: programs are not checked.
    program_problem: Callable[[str], Refusal | None] | None = None
    contenders: tuple[str, ...] | None = None  # the switches that `all` stands for
    workloads: tuple[str, ...] | None = None


class Kind(Enum):
    """The subject of a parameter. It decides which trials can be compared: trials at the same test
    point, with equal traffic, layout, place, cores and method."""

    TRAFFIC = auto()  # the frames that are sent, and when
    LAYOUT = auto()  # the ends and the VNFs
    PLACE = auto()  # the environment of the ends; compared if a campaign compares it
    CORES = auto()  # the cores of all programs, and other load; compared if a campaign compares it
    FUNCTION = auto()  # the network functions; compared if a campaign compares them
    METHOD = auto()  # the method and the duration
    CONTENDER = auto()  # the switch and its ports; compared at a test point
    BOOKKEEPING = auto()  # distinguishes repetitions; not a campaign key


class Wire(Enum):
    """The value of the parameter in the baseline of a trial."""

    SAME = auto()  # the same value, because with another value the baseline is not comparable
    PACE = auto()  # the same; the default, which saturates, if only a ceiling is needed
    ANY = auto()  # the same value, although the figure also holds for all other values
    DEFAULT = auto()  # the default, because it has no meaning without a switch
    PLANNED = auto()  # decided by experiment/wire.py from the ports and cores of the trial


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis of plots over a parameter, if a run has enough of its values."""

    title: str
    place: Callable[[Any], float | None] = float  # the position of a value; None: not on the axis
    label: Callable[[float], str] = "{:.15g}".format
    log: bool = True


BEFORE_ONE = 0.5  # the place of 0 on a logarithmic axis of whole numbers


def counted(noun: str) -> Callable[[int], str]:
    """Return a function that gives a number with its noun: `1 route`, `10,000 routes`."""
    return lambda number: f"{number:,} {noun}{'' if number == 1 else 's'}"


def label_scale(place: float) -> str:
    """Label a place on the axis of a scale: `0`, `100`, `10k`, `1M`."""
    if place < 1:
        return "0"
    for factor, suffix in ((1e6, "M"), (1e3, "k")):
        if place >= factor and place % (factor / 10) == 0:
            return f"{place / factor:g}{suffix}"
    return f"{place:.15g}"


Reader: TypeAlias = Callable[[str, Known], Any]  # one value; raises BadValueError
Names: TypeAlias = Callable[[Known], Sequence[str] | None]  # None: any well-formed name


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a trial. Missing settings of a row follow from the type of its field."""

    name: str  # in campaign files, `--set` and notations
    kind: Kind
    wire: Wire
    example: str
    meaning: str
    unit: str = ""
    letter: str | None = None  # in the (D, L, S, V, P, R, B) notation
    read: Reader | None = None
    show: Callable[[Any], str] = str  # a value as text that `read` takes back
    none: str | None = None  # the word for no value at all
    noun: str = ""  # the name of a value in messages
    limits: Limits | None = None  # for a number
    ranges: bool = False  # `64..512 step 64` may be written
    names: Names | None = None  # all possible values; None: they are unknown
    every: Names | None = None  # the values that the word `all` stands for
    mapping: bool = False  # a value may be written as a mapping: {emc: off}
    as_written: Any = None  # a type of written values that expansion converts to the field's type
    usual: Any = None  # the value of a campaign without the key, if the field is required
    usual_latency: Any = None  # the same for round trips, if it differs
    say: Callable[[Any], str] | None = None  # a value in reports
    axis: Axis | None = None
    resolved: bool = False  # planning replaces `auto`; records have the value that it chose
    by_switch: bool = False  # may differ between compared switches
    of_result: bool = True  # False: the value only changes the resolution of the result
    is_path: bool = False  # the path of a build, which differs between versions

    field: str = ""  # in Trial; `of` fills in this field and the following
    bounded: Any = None  # its type, with all constraints on its values
    value_type: Any = None  # without None
    optional: bool = False
    default: Any = None
    required: bool = False

    def of(self, name: str, info: FieldInfo) -> Parameter:
        """Return the row of a field, completed from the field's name, type and default."""
        return replace(
            self,
            field=name,
            bounded=Annotated[(info.annotation, *info.metadata)],
            value_type=_without_none(info.annotation),
            optional=NoneType in get_args(info.annotation),
            default=None if info.is_required() else info.default,
            required=info.is_required(),
        )

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of the field, within the limits of the row."""
        schema: Any = handler(source)
        if self.limits is not None:
            number = schema["schema"] if schema["type"] == "nullable" else schema
            number |= {"ge": self.limits.low, "le": self.limits.high}
        return schema  # type: ignore[no-any-return]

    @property
    def several(self) -> Any:
        """The type of its values in a sweep."""
        kind = self.bounded if self.as_written is None else self.bounded | self.as_written
        return GenericAlias(tuple, (kind, ...))

    @property
    def is_number(self) -> bool:
        """Return True if the parameter's values are amounts."""
        return self.value_type in (int, float) or isinstance(next(iter(self._literals), None), int)

    @property
    def _literals(self) -> tuple[Any, ...]:
        return get_args(self.value_type) if get_origin(self.value_type) is Literal else ()

    @property
    def choices(self) -> dict[str, Any]:
        """The values by their names, if there are only a few; without the word for no value."""
        if isinstance(self.value_type, type) and issubclass(self.value_type, StrEnum):
            return {one.value: one for one in self.value_type}
        return {str(one): one for one in self._literals}

    def usual_for(self, dimension: Dimension) -> Any:
        """Return the value for a campaign without this key. Raises KeyError if it is required."""
        if dimension is Dimension.LATENCY and self.usual_latency is not None:
            return self.usual_latency
        if self.required and self.usual is None:
            raise KeyError(self.name)
        return self.usual if self.required else self.default

    def parse(self, text: str, known: Known) -> list[Any]:
        """Read a value, a list or a range. Raises `BadValueError`."""
        if text == ALL and self.every is not None and (names := self.every(known)) is not None:
            return list(names)
        return values.many(text, lambda item: self.value(item, known), ranges=self.ranges)

    def value(self, text: str, known: Known) -> Any:
        """Read one value. Raises `BadValueError`."""
        if text == self.none:
            return self.default
        if self.read is not None:
            return self.read(text, known)
        if self.limits is not None:
            return values.whole(text, self.limits)
        if self.value_type is bool:
            return values.boolean(text)
        noun = self.noun or self.name.replace("_", " ")
        if self.names is not None:
            return values.choice(text, self.names(known), noun)
        names = ([] if self.none is None else [self.none]) + list(self.choices)
        return self.choices[values.choice(text, names, noun)]

    def text(self, value: Any) -> str:
        """Write a value as `value` reads it."""
        if self.none is not None and value == self.default:
            return self.none
        if self.value_type is bool:
            return "true" if value else "false"
        if self.as_written is not None and isinstance(value, self.as_written):
            return str(value)
        return self.show(value)

    def words(self, value: Any) -> str:
        """Return a value as reports print it."""
        return self.say(value) if self.say else f"{self.name.replace('_', ' ')} {self.text(value)}"


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, UnionType):
        annotation = next(kind for kind in get_args(annotation) if kind is not NoneType)
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
