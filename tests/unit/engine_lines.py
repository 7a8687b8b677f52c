"""Lines as the engine prints them, made from the types of its events: a test names the fields that
matter, the others get their smallest value. A line that is not an event cannot be made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from switchmark.engine.events import (
    EVENT,
    EngineCounters,
    EventPart,
    FrameCounters,
    IntervalEvent,
    TimedDelays,
    parse,
)
from switchmark.statistics.histogram import Histogram

KINDS: dict[str, type[EventPart]] = {
    get_args(kind.model_fields["event"].annotation)[0]: kind
    for kind in get_args(get_args(EVENT._type)[0])
}
MAC_PATTERN = "{2}:){5}"
PLAIN = {bool: False, float: 1.0, str: "", Histogram: Histogram.of({}).text}


def event(name: str, **given: Any) -> str:
    """Return the line of an event. Raises ValueError if a field does not belong to it."""
    line = json.dumps(fields(KINDS[name], {"v": 2, "event": name, **given}), separators=(",", ":"))
    parse(line)
    return line


def fields(kind: type[EventPart], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all required fields of a part and the given fields; inner parts may be incomplete."""
    known = {field.alias or name: field for name, field in kind.model_fields.items()}
    filled = dict(given)
    for name, field in known.items():
        if name in given:
            filled[name] = completed(field.annotation, given[name])
        elif field.is_required():
            filled[name] = least(field)
    return filled


def least(field: FieldInfo) -> Any:
    """Return the smallest value of a field; no entries, or null if that is allowed."""
    kind, limits = field.annotation, field.metadata
    match get_origin(kind):
        case origin if origin is Literal:
            return get_args(kind)[0]
        case origin if origin is tuple:
            return []
        case origin if origin in (Union, UnionType):
            return None if NoneType in get_args(kind) else fields(get_args(kind)[0], {})
    if isinstance(kind, type) and issubclass(kind, EventPart):
        return fields(kind, {})
    if kind is int:
        return max([0, *(getattr(one, "ge", 0) for one in limits)])
    is_mac = MAC_PATTERN in repr(limits)
    return "02:00:00:00:00:01" if is_mac else PLAIN[kind]  # type: ignore[index]


def completed(kind: Any, given: Any) -> Any:
    """Return the given values of a part with its other required fields."""
    if isinstance(given, Histogram):
        return given.text
    if isinstance(given, list):
        return [completed(get_args(kind)[0], one) for one in given]
    if not isinstance(given, dict):
        return given
    while get_origin(kind) is not None:
        kind = get_args(kind)[0]
    return fields(kind, given)


def counted(**given: float) -> EngineCounters:
    """Return the answer to `counters`."""
    answer = parse(event("counters", **given))
    assert isinstance(answer, EngineCounters)
    return answer


def interval(**given: int) -> IntervalEvent:
    """Return the event of an interval."""
    sample = parse(event("interval", **given))
    assert isinstance(sample, IntervalEvent)
    return sample


def counters(**given: int) -> FrameCounters:
    """Return counters that are 0 unless given."""
    return FrameCounters(**fields(FrameCounters, given))


def timed(given: Mapping[str, Any]) -> TimedDelays:
    """Return the `latency` of a result."""
    return TimedDelays.model_validate_json(json.dumps(fields(TimedDelays, given)))
