"""The `expect:` section: what a campaign's figures should be, for CI (docs/ci.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from switchmark.campaign import sweeps
from switchmark.language import values
from switchmark.language.source import Bad, Node, Problems, SourcePlace, YamlMapping
from switchmark.language.values import BadValueError, Limits
from switchmark.model.choices import MAX_TIME_S, Dimension
from switchmark.model.expectation import Expectation, ExpectedFigure

EXAMPLES = {
    ExpectedFigure.THROUGHPUT: ">= 5M",
    ExpectedFigure.LOSS: "<= 0.1%",
    ExpectedFigure.RTT_P50: "<= 50us",
    ExpectedFigure.RTT_P99: "<= 200us",
    ExpectedFigure.SLOWER_THAN_BASELINE: "<= 5%",
}
_WRITE = 'write e.g. expect: {throughput: ">= 5M", loss: "<= 0.1%"}'
_BOUND = re.compile(r"(>=|<=)\s*(\S.*)", re.DOTALL)
_RATE = Limits(1, 10**12, "no throughput", "more than any port carries", suffixes=True)
_READERS: dict[ExpectedFigure, Callable[[str], float]] = {
    ExpectedFigure.THROUGHPUT: lambda text: float(values.whole(text, _RATE)),
    ExpectedFigure.LOSS: values.share,
    ExpectedFigure.RTT_P50: lambda text: values.seconds(text, 1e-9, MAX_TIME_S) * 1e9,
    ExpectedFigure.RTT_P99: lambda text: values.seconds(text, 1e-9, MAX_TIME_S) * 1e9,
    ExpectedFigure.SLOWER_THAN_BASELINE: values.share,
}


def read_expectations(
    node: Node | None, dimensions: Collection[Dimension], problems: Problems
) -> list[Expectation]:
    """Read the section; what is wrong is added to `problems`, such as a figure that no trial of
    these dimensions has."""
    if node is None or isinstance(node, Bad):
        return []
    if not isinstance(node, YamlMapping):
        problems.note(node.place, "expect", f"holds other keys; {_WRITE}")
        return []
    found = []
    for name, value in node.entries.items():
        place = node.key_places.get(name, value.place)
        if name not in EXAMPLES:
            message = sweeps.unknown_key(name, [str(one) for one in EXAMPLES])
            problems.note(place, f"expect.{name}", message)
            continue
        one = _read(ExpectedFigure(name), value, problems)
        if one is not None and not set(one.dimensions) & set(dimensions):
            _note_unused(one, place, problems)
        elif one is not None:
            found.append(one)
    return found


def _read(figure: ExpectedFigure, node: Node, problems: Problems) -> Expectation | None:
    path, example = f"expect.{figure}", EXAMPLES[figure]
    try:
        text = sweeps.text_of(node, f'{figure}: "{example}"')
        match = _BOUND.fullmatch(text.strip())
        if match is None:
            raise BadValueError(f"'{values.shorten(text)}' is no bound; write e.g. \"{example}\"")
        fields: dict[str, Any] = {"relation": match[1], "bound": _READERS[figure](match[2].strip())}
    except BadValueError as error:
        problems.note(node.place, path, *error.messages)
        return None
    return Expectation(figure=figure, text=" ".join(text.split()), **fields)


def _note_unused(one: Expectation, place: SourcePlace, problems: Problems) -> None:
    wanted = " or ".join(one.dimensions)
    message = f"no trial of this campaign has that figure; add {wanted} to dimension"
    problems.note(place, f"expect.{one.figure}", message)
