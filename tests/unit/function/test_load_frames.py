"""The load of functions as whole frames: the switch must pass each of them to the other port."""

from __future__ import annotations

from dataclasses import replace

import pytest

from switchmark.function.registry import forwarded
from switchmark.function.support.flows import load_flows
from switchmark.function.support.frames import parse
from switchmark.function.support.wire import split_outer
from switchmark.model.traffic import read_flows
from tests.unit.instrument_fakes import function_load


@pytest.mark.parametrize(
    ("function", "fields"),
    [
        ("route", {"routes": 50}),
        ("route", {"routes": 50, "ip_version": 6}),
        ("route+acl", {"routes": 50, "rules": 25}),
        ("forward+acl", {"rules": 20, "rule_hit": "uniform"}),
        ("forward+vlan", {"direction": "push", "vid": 7}),
        ("forward+vlan", {"direction": "pop", "vid": 7}),
        ("forward+vxlan", {"direction": "encap", "tunnels": 5}),
        ("forward+vxlan", {"direction": "decap", "tunnels": 5}),
        ("forward+policer", {}),
    ],
)
def test_each_frame_passes_the_function(function: str, fields: dict[str, object]) -> None:
    table, load = function_load(function, flows=read_flows("40"), **fields)
    assert len(load) == 40
    rows = load_flows(table, 40, [1], seed=table.seed)
    for number, entry in enumerate(load):
        result = forwarded(table, entry.passing)
        assert result is not None and result.egress == 1, "the neutral table passes it"
        data = entry.to_bytes()
        inner = split_outer(data)[1] if fields.get("direction") == "decap" else data
        assert len(inner) == 128 - 4, "the trial's size without the FCS"
        assert parse(inner) == entry.frame, "with right checksums"
        assert entry.frame.destination_port == rows.destination_ports[number]
    assert len({replace(entry.frame, payload=b"") for entry in load}) == 40


def test_frames_of_decapsulation_are_in_their_tunnels() -> None:
    table, load = function_load(
        "forward+vxlan", direction="decap", tunnels=3, flows=read_flows("7")
    )
    vnis = [split_outer(entry.to_bytes())[0].vni for entry in load]
    assert vnis == [table.tunnels[number % 3].vni for number in range(7)]


def test_frames_of_pop_have_the_tag() -> None:
    _, load = function_load("forward+vlan", direction="pop", vid=9)
    assert parse(load[0].to_bytes()).vid == 9
