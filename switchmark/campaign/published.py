"""The `published:` section: figures from the literature that a campaign is compared with."""

from __future__ import annotations

from enum import Enum
from typing import Any, get_args

from switchmark.campaign import sweeps
from switchmark.language import values
from switchmark.language.source import Bad, Items, Node, Problem, Table
from switchmark.language.values import BadValueError, Limits
from switchmark.model.campaign import Published
from switchmark.model.parameter import Known
from switchmark.model.parameters import BY_NAME

_EXAMPLE = "- {match: {io: udp}, value: 338k, unit: pps, source: Ara et al. 2021}"
_UNITS: tuple[str, ...] = get_args(Published.model_fields["unit"].annotation)
_FIGURE = Limits(0, 10**15, "not a figure", "too large a figure", suffixes=True)
_READERS: dict[str, Any] = {
    "value": lambda text: values.whole(text, _FIGURE),
    "unit": lambda text: values.choice(text, _UNITS, "unit"),
    "source": str,
    "note": str,
}


def read_published(node: Node | None, known: Known, problems: list[Problem]) -> list[Published]:
    """All figures of the section; what is wrong with them is added to the problems."""
    if node is None or isinstance(node, Bad):
        return []
    if not isinstance(node, Items):
        problems.append(Problem(node.place, "published", f"is a list; write e.g. {_EXAMPLE}"))
        return []
    found = [_figure(item, known, problems) for item in node.items]
    return [figure for figure in found if figure is not None]


def _figure(node: Node, known: Known, problems: list[Problem]) -> Published | None:
    before = len(problems)
    if not isinstance(node, Table):
        if not isinstance(node, Bad):
            problems.append(Problem(node.place, "published", f"write e.g. {_EXAMPLE}"))
        return None
    allowed = ["match", *_READERS]
    fields: dict[str, Any] = {}
    for name, value in node.entries.items():
        path = f"published.{name}"
        if name == "match":
            fields["match"] = _match(value, known, problems)
        elif name in _READERS:
            try:
                fields[name] = _READERS[name](sweeps.text_of(value, _EXAMPLE))
            except BadValueError as error:
                problems += [Problem(value.place, path, message) for message in error.messages]
        else:
            place = node.key_places.get(name, value.place)
            problems.append(Problem(place, path, sweeps.unknown_key(name, allowed)))
    for name in ("match", "value", "unit", "source"):
        if name not in node.entries:
            message = f"{name} is missing; write e.g. {_EXAMPLE}"
            problems.append(Problem(node.place, "published", message))
    return Published(**fields) if len(problems) == before else None


def _match(node: Node, known: Known, problems: list[Problem]) -> dict[str, Any]:
    path = "published.match"
    if not isinstance(node, Table):
        problems.append(Problem(node.place, path, f"holds trial keys; write e.g. {_EXAMPLE}"))
        return {}
    found: dict[str, Any] = {}
    for name, value in node.entries.items():
        key = BY_NAME.get(name)
        if key is None:
            place = node.key_places.get(name, value.place)
            message = sweeps.unknown_key(name, BY_NAME)
            problems.append(Problem(place, f"{path}.{name}", message))
            continue
        entry = sweeps.read_values(key, value, f"{path}.{name}", known, problems)
        if len(entry.values) > 1:
            problems.append(Problem(value.place, f"{path}.{name}", "takes one value, not several"))
        elif entry.values:
            one = entry.values[0]
            found[key.field] = one.value if isinstance(one, Enum) else one
    return found
