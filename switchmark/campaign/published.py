"""The `published:` section: figures from the literature that a campaign is compared with.

An entry is one figure (`value`), or several figures of one kind that differ in one key of the trial
(`over: switch`, `values: {vpp: 4.5, bess: 4.0}`). Its other keys describe the figure; `match` names
the trials of the figure, and a match without a trial in the campaign is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, get_args

from switchmark.campaign import mixes, sweeps
from switchmark.language import values
from switchmark.language.source import Bad, Items, Node, Problems, SourcePlace, Text, YamlMapping
from switchmark.language.values import BadValueError
from switchmark.model import rates
from switchmark.model.campaign import STATISTIC_PATTERN, STATISTICS, Published
from switchmark.model.parameter_table import BY_NAME
from switchmark.model.parameter_type import Known, Parameter
from switchmark.model.scenario import Scenario

_EXAMPLE = "- {match: {io: udp}, value: 338k, unit: pps, source: Ara et al. 2021}"


def _choice(field: str) -> Callable[[str], str]:
    choices: tuple[str, ...] = get_args(Published.model_fields[field].annotation)
    return lambda text: values.choice(text, choices, field)


def _statistic(text: str) -> str:
    if re.fullmatch(STATISTIC_PATTERN, text):
        return text
    return values.choice(text, (*STATISTICS, "p99"), "statistic")


def _share_of_r_plus(text: str) -> float:
    at = values.share(text)
    if not at:
        raise BadValueError("at: must be above 0 of R+; write e.g. 0.5")
    return at


_READERS: dict[str, Callable[[str], Any]] = {
    "unit": _choice("unit"),
    "statistic": _statistic,
    "layer": _choice("layer"),
    "direction": _choice("direction"),
    "path": _choice("path"),
    "at": _share_of_r_plus,
    "source": str,
    "note": str,
}
KEYS = ("match", "value", "over", "values", *_READERS)


def read_published(
    node: Node | None, known: Known, problems: Problems
) -> list[tuple[Published, SourcePlace]]:
    """Read all figures of the section, each with its place in the file, and add errors to the
    problems."""
    if node is None or isinstance(node, Bad):
        return []
    if not isinstance(node, Items):
        problems.note(node.place, "published", f"is a list; write e.g. {_EXAMPLE}")
        return []
    return [
        (figure, item.place) for item in node.items for figure in _figures(item, known, problems)
    ]


def _figures(node: Node, known: Known, problems: Problems) -> list[Published]:
    before = len(problems)
    if not isinstance(node, YamlMapping):
        if not isinstance(node, Bad):
            problems.note(node.place, "published", f"write e.g. {_EXAMPLE}")
        return []
    fields: dict[str, Any] = {}
    for name, value in node.entries.items():
        path = f"published.{name}"
        if name == "match":
            fields["match"] = read_match(value, "published.match", known, problems)
        elif name in _READERS:
            try:
                fields[name] = _READERS[name](sweeps.text_of(value, _EXAMPLE))
            except BadValueError as error:
                problems.note(value.place, path, *error.messages)
        elif name not in KEYS:
            place = node.key_places.get(name, value.place)
            problems.note(place, path, sweeps.unknown_key(name, KEYS))
    for name, message in _missing(node, fields):
        problems.note(node.place, "published", f"{name} is missing; {message}")
    if len(problems) > before:
        return []
    fixed = fields.pop("match", {})
    found = [
        Published(
            **fields, match=_with_canonical_scenario(fixed | match), value=value, written=text
        )
        for match, value, text in _values(node, known, problems)
    ]
    return found if len(problems) == before else []


def _missing(node: YamlMapping, fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    several = "over" in node.entries or "values" in node.entries
    for name in ("over", "values") if several else ("match", "value"):
        if name not in node.entries:
            example = "write e.g. over: switch, values: {vpp: 4.5, bess: 4.0}"
            yield name, example if several else f"write e.g. {_EXAMPLE}"
    for name in ("unit", "source"):
        if name not in node.entries:
            yield name, f"write e.g. {_EXAMPLE}"
    if fields.get("unit") in ("ns", "us") and "statistic" not in node.entries:
        yield "statistic", f"a time is one of: {', '.join(STATISTICS)}, p99"
    if fields.get("unit") == "bps" and "layer" not in node.entries:
        yield "layer", "bits are counted on L1 (as on the wire) or L2 (frames with FCS)"


def _values(
    node: YamlMapping, known: Known, problems: Problems
) -> Iterator[tuple[dict[str, Any], float, str]]:
    """Yield for each figure its part of the match, its value, and the text of the value."""
    try:
        if "over" not in node.entries:
            yield {}, *_value(sweeps.text_of(node.entries["value"], _EXAMPLE))
            return
        name = sweeps.text_of(node.entries["over"], "over: switch")
        numbers = node.entries["values"]
        if name not in BY_NAME or not isinstance(numbers, YamlMapping):
            message = "over names a key of trials, values has a number for each of its values"
            problems.note(node.place, "published", message)
            return
        for name_text, value in numbers.entries.items():
            text = Text(name_text, numbers.key_places.get(name_text, numbers.place))
            for key_value in _one_value(BY_NAME[name], text, "published.values", known, problems):
                yield {BY_NAME[name].field: key_value}, *_value(sweeps.text_of(value, "4.5"))
    except BadValueError as error:
        problems.note(node.place, "published", *error.messages)


def _value(text: str) -> tuple[float, str]:
    """Read a number with its decimals and an optional suffix: `50.99`, `14.84M`."""
    number: Decimal = values.number(text)
    return float(number), text


def read_match(node: Node, path: str, known: Known, problems: Problems) -> dict[str, Any]:
    """Read keys of trials, with one value each, as fields of trials."""
    if not isinstance(node, YamlMapping):
        problems.note(node.place, path, f"must have trial keys; write e.g. {_EXAMPLE}")
        return {}
    fields: dict[str, Any] = {}
    for name, value in node.entries.items():
        key = BY_NAME.get(mixes.key_of(name, value))
        if key is None:
            place = node.key_places.get(name, value.place)
            message = sweeps.unknown_key(name, BY_NAME)
            problems.note(place, f"{path}.{name}", message)
            continue
        for trial_value in _one_value(key, value, f"{path}.{name}", known, problems):
            fields[key.field] = trial_value
    return _with_canonical_scenario(fields)


def _one_value(
    key: Parameter, node: Node, path: str, known: Known, problems: Problems
) -> Iterator[Any]:
    """Yield the value that trials of a match have for this key; nothing if there is a problem."""
    key_values = sweeps.read_values(key, node, path, known, problems).values
    if len(key_values) > 1:
        problems.note(node.place, path, "takes one value, not several")
    elif key_values and isinstance(key_values[0], rates.BitRate):
        message = "a rate of trials is in packets a second; write e.g. 1M"
        problems.note(node.place, path, message)
    elif key_values:
        yield key_values[0].value if isinstance(key_values[0], Enum) else key_values[0]


def _with_canonical_scenario(match: dict[str, Any]) -> dict[str, Any]:
    """Return the match with the scenario's canonical name, and its number of paths as `pairs`."""
    scenario = Scenario.of(match.get("scenario", ""))
    if not scenario.is_known:
        return match
    paths = {} if scenario.paths is None else {"pairs": scenario.paths}
    return {**match, "scenario": str(scenario.canonical), **paths}


def note_unmatched(
    figures: Sequence[tuple[Published, SourcePlace]],
    grids: Sequence[dict[str, sweeps.Entry]],
    problems: Problems,
) -> None:
    """Note the figures that match no trial of these grids, each with the nearest trial."""
    for figure, place in figures:
        note_lacking(figure.match, place, "published.match", grids, problems)


def note_lacking(
    match: Mapping[str, Any],
    place: SourcePlace,
    path: str,
    grids: Sequence[dict[str, sweeps.Entry]],
    problems: Problems,
) -> None:
    """Note a match without a trial in these grids."""
    lacking = min((_GridValues(grid).lacking(match) for grid in grids), key=len, default=[])
    if lacking:
        message = f"{', '.join(lacking)}; change the match, or the trials"
        problems.note(place, path, message)


class _GridValues:
    """The values that the trials of a grid have, scenarios under their canonical names."""

    def __init__(self, grid: dict[str, sweeps.Entry]) -> None:
        self.values = {BY_NAME[name].field: entry.values for name, entry in grid.items()}
        paths = [
            (scenario.canonical, (scenario.paths,) if scenario.paths else self.values["pairs"])
            for scenario in self.values["scenario"]
            if scenario.is_known
        ]
        self.pairs_of: dict[str, set[int]] = {}
        for name, pairs in paths:
            self.pairs_of.setdefault(name, set()).update(pairs)
        self.values["scenario"] = tuple(self.pairs_of)
        self.values["pairs"] = tuple(sorted(set().union(*self.pairs_of.values())))

    def lacking(self, match: Mapping[str, Any]) -> list[str]:
        """Return a message for each value of a match that no trial of the grid has."""
        messages = []
        for field, value in match.items():
            existing = self.values[field]
            if field == "pairs" and match.get("scenario") in self.pairs_of:
                existing = tuple(sorted(self.pairs_of[str(match["scenario"])]))
            bit_rates = any(isinstance(one, rates.BitRate) for one in existing)
            if value not in existing and not bit_rates:
                key = next(one for one in BY_NAME.values() if one.field == field)
                shown = ", ".join(dict.fromkeys(key.text(one) for one in existing))
                messages.append(
                    f"no trial has {key.name} {key.text(value)}, the nearest has {shown}"
                )
        return messages
