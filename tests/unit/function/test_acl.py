"""Access control lists: their shapes, and the verdict of the first matching rule."""

import ipaddress

import pytest

from switchmark.function.registry import cases, forwarded
from switchmark.function.support.flows import denied_flows, load_flows, verdict
from tests.unit.function.test_route import table


def addresses(row: bytes) -> str:
    return str(ipaddress.ip_address(row))


@pytest.mark.parametrize("base", ["forward", "route"])
@pytest.mark.parametrize("hit", ["last", "uniform", "none"])
@pytest.mark.parametrize("version", [4, 6])
def test_the_load_is_permitted_and_denied_flows_are_not(base: str, hit: str, version: int) -> None:
    neutral = table(f"{base}+acl", rules=60, rule_hit=hit, ip_version=version, routes=50)
    rows = load_flows(neutral, 100, [1], 1)
    for k in range(100):
        assert verdict(
            neutral, addresses(rows.sources[k].tobytes()),
            addresses(rows.destinations[k].tobytes()),
            int(rows.source_ports[k]), int(rows.destination_ports[k]),
        )  # fmt: skip
    denied = denied_flows(neutral, 20)
    assert denied is not None
    for k in range(len(denied)):
        assert not verdict(
            neutral, addresses(denied.sources[k].tobytes()),
            addresses(denied.destinations[k].tobytes()),
            int(denied.source_ports[k]), int(denied.destination_ports[k]),
        )  # fmt: skip


@pytest.mark.parametrize(("hit", "host_rules"), [("last", 1), ("uniform", 1), ("none", 0)])
def test_a_list_has_its_rules_and_one_for_the_testers(hit: str, host_rules: int) -> None:
    neutral = table("forward+acl", rules=500, rule_hit=hit)
    assert len(neutral.rules) == 500 + host_rules
    assert len(set(neutral.rules)) == len(neutral.rules)


def test_no_rules_permit_everything() -> None:
    neutral = table("forward+acl", rules=0)
    assert neutral.rules == ()
    assert neutral.default_permit


def test_masks_are_different_prefix_lengths() -> None:
    neutral = table("forward+acl", rules=100, masks=4)
    lengths = {r.source.partition("/")[2] for r in neutral.rules if not r.permit}
    assert len(lengths) == 4


def test_the_proof_has_frames_that_arrive_and_frames_that_do_not() -> None:
    neutral = table("route+acl", rules=100, routes=100)
    results = [forwarded(neutral, case.passing) for case in cases(neutral)]
    assert sum(one is None for one in results) >= 20
    assert sum(one is not None for one in results) >= 50
