"""The `expect:` section: the expected figures of a campaign, for CI (docs/ci.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from switchmark.campaign import sweeps
from switchmark.language import values
from switchmark.language.source import Bad, Node, Problems, YamlMapping
from switchmark.language.values import BadValueError, Limits
from switchmark.model.choices import MAX_TIME_S, Dimension
from switchmark.model.expectation import Expectation, ExpectedFigure

_WRITE = 'write e.g. expect: {throughput: ">= 5M", loss: "<= 0.1%"}'
_FORM = re.compile(r"(>=|<=)\s*(\S.*)", re.DOTALL)
_RATE = Limits(1, 10**12, "no throughput", "more than any port carries", suffixes=True)


def _ns(text: str) -> float:
    return values.seconds(text, 1e-9, MAX_TIME_S) * 1e9


# The reader of each bound, and an example.
_BOUNDS: dict[ExpectedFigure, tuple[Callable[[str], float], str]] = {
    ExpectedFigure.THROUGHPUT: (lambda text: float(values.whole(text, _RATE)), ">= 5M"),
    ExpectedFigure.LOSS: (values.share, "<= 0.1%"),
    ExpectedFigure.RTT_P50: (_ns, "<= 50us"),
    ExpectedFigure.RTT_P99: (_ns, "<= 200us"),
    ExpectedFigure.SLOWER_THAN_BASELINE: (values.share, "<= 5%"),
}


def read_expectations(
    node: Node | None, dimensions: Collection[Dimension], problems: Problems
) -> list[Expectation]:
    """Read the section, and add errors to `problems`, for example a figure that no trial of these
    dimensions has."""
    if node is None or isinstance(node, Bad):
        return []
    if not isinstance(node, YamlMapping):
        problems.note(node.place, "expect", f"must have keys; {_WRITE}")
        return []
    expectations = []
    for name, value in node.entries.items():
        place = node.key_places.get(name, value.place)
        if name not in _BOUNDS:
            message = sweeps.unknown_key(name, map(str, _BOUNDS))
            problems.note(place, f"expect.{name}", message)
            continue
        expectation = _read(ExpectedFigure(name), value, problems)
        if expectation is not None and not set(expectation.dimensions) & set(dimensions):
            dimension = " or ".join(expectation.dimensions)
            message = f"no trial of this campaign has that figure; add {dimension} to dimension"
            problems.note(place, f"expect.{name}", message)
        elif expectation is not None:
            expectations.append(expectation)
    return expectations


def _read(figure: ExpectedFigure, node: Node, problems: Problems) -> Expectation | None:
    read, example = _BOUNDS[figure]
    try:
        text = sweeps.text_of(node, f'{figure}: "{example}"')
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise BadValueError(
                f"'{values.shorten(text)}' is not a bound; write e.g. \"{example}\""
            )
        fields: dict[str, Any] = {"relation": match[1], "bound": read(match[2].strip())}
    except BadValueError as error:
        problems.note(node.place, f"expect.{figure}", *error.messages)
        return None
    return Expectation(figure=figure, text=" ".join(text.split()), **fields)
