"""The access control list of xdp-redirect: keys of its map, and lists that it refuses."""

from __future__ import annotations

import struct

import pytest

from switchmark.function.registry import router_port
from switchmark.function.support.table import FunctionTable, Rule
from switchmark.switch.support import xdp_acl

ANY = "0.0.0.0/0"
DENIAL = Rule(False, "198.18.0.0/24", "10.0.0.1/32", 17, None, (2000, 2000))
PERMIT = Rule(True, "198.18.0.0/15", ANY)


def table_with(*rules: Rule) -> FunctionTable:
    ports = tuple(router_port(k, f"10.64.0.{k + 1}", f"02:74:00:00:00:0{k}", 4) for k in range(2))
    return FunctionTable(("forward", "acl"), 4, ports, rules=rules)


def test_keys_are_masked_fields_and_values_are_places() -> None:
    masks, entries = xdp_acl.entries_of(table_with(DENIAL, PERMIT))
    assert [mask.source_bits for mask in masks] == [24, 15]
    assert masks[0].ports == b"\0\0\xff\xff" and masks[1].ports == bytes(4)
    denied, permitted = entries
    assert denied == struct.pack("=I", 17) + b"\0\0\x07\xd0" + bytes([198, 18, 0, 0, 10, 0, 0, 1])
    assert permitted == struct.pack("=I", 1 << 8 | 17) + bytes([0] * 4 + [198, 18] + [0] * 6)
    assert list(entries.values()) == [struct.pack("=I", 0), struct.pack("=I", 3)]


def test_the_first_of_rules_with_one_key_counts() -> None:
    opposite = Rule(True, *(DENIAL.source, DENIAL.destination, 17, None, (2000, 2000)))
    _, entries = xdp_acl.entries_of(table_with(DENIAL, opposite))
    assert list(entries.values()) == [struct.pack("=I", 0)]


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ([Rule(False, ANY, ANY, 17, (1, 2))], "range of ports"),
        ([Rule(False, ANY, ANY, None, (7, 7))], "ports and protocol None"),
        (
            [Rule(False, f"198.18.0.0/{k % 9 + 24}", f"10.0.0.0/{k // 9 + 8}") for k in range(65)],
            "65 combinations of masks",
        ),
    ],
)
def test_lists_beyond_the_program_are_refused(rules: list[Rule], reason: str) -> None:
    assert xdp_acl.refusal(table_with(DENIAL, PERMIT)) is None
    refusal = xdp_acl.refusal(table_with(*rules))
    assert refusal is not None and reason in refusal.reason
