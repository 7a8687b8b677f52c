"""The types of the engine's events agree with its schema, and a line that is not an event is
refused with a message of one line."""

from __future__ import annotations

import dataclasses
import json
from importlib import resources
from typing import Any

import pytest

from switchmark.engine import plain_events
from switchmark.engine.events import EVENT, IntervalEvent, parse
from tests.unit import engine_lines

SCHEMA = json.loads(resources.files("switchmark.engine").joinpath("events.schema.json").read_text())
DESCRIPTIVE_KEYS = {"title", "description", "default", "discriminator", "$schema", "$defs"}


def canonical(node: Any, root: dict[str, Any]) -> Any:
    """Return a schema without descriptions and references, and with one notation for null."""
    if isinstance(node, list):
        return [canonical(item, root) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target: Any = root
        for step in node["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        return canonical(target, root)
    plain = {}
    for key, inner in node.items():
        if key == "properties":
            plain[key] = {name: canonical(field, root) for name, field in inner.items()}
        elif key not in DESCRIPTIVE_KEYS:
            plain[key] = canonical(inner, root)
    if "const" in plain or "enum" in plain:
        plain.pop("type", None)
    match plain.get("anyOf"):
        case [{"type": str() as kind, **rest}, {"type": "null"}] if kind not in ("array", "object"):
            plain = {"type": [kind, "null"], **rest}
    for key in ("required", "oneOf"):
        if key in plain:
            plain[key] = sorted(plain[key], key=lambda item: json.dumps(item, sort_keys=True))
    return plain


def by_event(schema: dict[str, Any]) -> dict[str, Any]:
    events = canonical(schema, schema)["oneOf"]
    return {event["properties"]["event"]["const"]: event for event in events}


TYPE_EVENTS, SCHEMA_EVENTS = by_event(EVENT.json_schema()), by_event(SCHEMA)


def test_schema_and_types_have_the_same_events() -> None:
    assert TYPE_EVENTS.keys() == SCHEMA_EVENTS.keys() and len(SCHEMA_EVENTS) == 13


@pytest.mark.parametrize("event", SCHEMA_EVENTS)
def test_types_and_schema_agree(event: str) -> None:
    assert TYPE_EVENTS[event] == SCHEMA_EVENTS[event]


def interval(**changes: Any) -> str:
    fields = dict.fromkeys(SCHEMA_EVENTS["interval"]["required"], 1) | {"v": 2}
    return json.dumps({**fields, "event": "interval", **changes})


def test_event_equals_the_line_that_it_was_parsed_from() -> None:
    line = interval(rx_frames=-3, rx_bytes=-192, tx_bytes=2**64 - 1)
    event = parse(line)
    assert isinstance(event, IntervalEvent)
    assert (event.rx_frames, event.tx_bytes, event.ports) == (-3, 2**64 - 1, None)
    assert event.as_printed() == json.loads(line)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Segmentation fault", "printed a line that is not an event: Segmentation fault"),
        ('{"v": 2, "event": "started"', "printed a line that is not an event: "),
        ("[1, 2]", "printed a line that is not an event: [1, 2]"),
        ('{"event": "started"}', "printed a line that is not an event: "),
        ('{"v": 1, "event": "started"}', "uses protocol 1, the bench 2: install both from the"),
        ('{"v": 2, "event": "begun", "t_ns": 1}', "printed 'begun' with event: Input tag"),
        ('{"v": 2, "event": "started"}', "printed 'started' with t_ns: Field required"),
        ('{"v": 2, "event": "started", "t_ns": "1"}', "t_ns: Input should be a valid integer"),
        ('{"v": 2, "event": "started", "t_ns": 1.5}', "t_ns: Input should be a valid integer"),
        ('{"v": 2, "event": "started", "t_ns": NaN}', "t_ns: Input should be a valid integer"),
        ('{"v": 2, "event": "started", "t_ns": -1}', "t_ns: Input should be greater than"),
        ('{"v": 2, "event": "started", "t_ns": true}', "t_ns: Input should be a valid integer"),
        (
            '{"v": 2, "event": "started", "t_ns": 1, "tsc_hz": 1, "x": 2}',
            "x: Extra inputs are not permitted",
        ),
        (interval(ports=None), "printed 'interval' with ports: Value error, null, though"),
        (interval(rx_other=-1), "printed 'interval' with rx_other: Input should be greater"),
        ("x" * 5000, "printed a line that is not an event: xxx"),
    ],
)
def test_line_outside_the_schema_is_refused_in_one_line(line: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(line)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


JSON_TYPES = {
    "int": "integer",
    "bool": "boolean",
    "str | None": ["string", "null"],
    "int | None": ["integer", "null"],
}


@pytest.mark.parametrize("name", plain_events.KINDS)
def test_plain_events_agree_with_the_schema(name: str) -> None:
    described = SCHEMA_EVENTS[name]["properties"]
    for field in dataclasses.fields(plain_events.KINDS[name]):
        if field.name != "ports":
            assert described[field.name]["type"] == JSON_TYPES[str(field.type)], field.name
            assert field.name in SCHEMA_EVENTS[name]["required"]
            continue
        port = described["ports"]["items"]
        for part in dataclasses.fields(plain_events.PlainPort):
            assert port["properties"][part.name]["type"] == JSON_TYPES[str(part.type)], part.name
            assert part.name in port["required"]


def test_plain_events_are_parsed_from_lines_of_the_engine() -> None:
    port = {"rx_frames": 1, "rx_socket_drops": 2, "tx_offered": 3, "tx_dropped": 4, "up": True}
    read = plain_events.parse_plain(engine_lines.event("interval", t_ns=5, ports=[port]))
    assert read == plain_events.PlainInterval(5, (plain_events.PlainPort(**port),))
    assert plain_events.parse_plain(
        engine_lines.event("counters", t_ns=6)
    ) == plain_events.PlainCounters(6)
    assert plain_events.parse_plain(engine_lines.event("started")) is None
    older = (
        '{"event":"ready","dpdk_version":"DPDK 22.11"}'  # the key `program` can name an older build
    )
    assert plain_events.parse_plain(older) == plain_events.PlainReady("DPDK 22.11", None)
    for line in ("", "[]", "{}", "null", '{"event":"interval","t_ns":5}'):
        with pytest.raises(ValueError, match=r"."):
            plain_events.parse_plain(line)
