"""Generated routes, longest-prefix match and the flows that follow from them."""

import ipaddress

import numpy as np
import pytest

from switchmark.function.registry import forwarded, table_of
from switchmark.function.support.flows import NO_HOP, load_flows
from switchmark.function.support.prefixes import draw_routes, longest_match, most_routes
from switchmark.function.support.samples import load_frame
from switchmark.function.support.table import FunctionTable, Routes
from switchmark.model.functions import read_functions
from switchmark.model.trial import Trial
from switchmark.scenario.registry import expand


def table(function: str = "route", **keys: object) -> FunctionTable:
    values = {"packet_size_bytes": 84} | keys
    trial = Trial(
        dimension="throughput", switch="linux-router", function=read_functions(function), **values
    )
    neutral = table_of(trial, expand(trial))
    assert neutral is not None
    return neutral


def by_hand(routes: Routes, address: str) -> int:
    """The longest match, by comparing with every route."""
    best, chosen = -1, -1
    for number, (network, bits, _) in enumerate(routes):
        inside = ipaddress.ip_address(address) in ipaddress.ip_network(f"{network}/{bits}")
        if inside and bits > best:
            best, chosen = bits, number
    return chosen


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("bits", [None, 24, 32])
def test_longest_match_agrees_with_a_comparison_of_all(version: int, bits: int | None) -> None:
    routes = draw_routes(400, bits, version, [[0, 1]], 7)
    rng = np.random.default_rng(3)
    width = 4 if version == 4 else 16
    inner = routes.networks[rng.integers(0, 400, 60)] | rng.integers(
        0, 2, (60, width), dtype=np.uint8
    )
    outer = rng.integers(0, 256, (20, width), dtype=np.uint8)
    destinations = np.concatenate([inner, outer])
    result = longest_match(routes, destinations)
    for row, number in zip(destinations, result, strict=True):
        assert by_hand(routes, str(ipaddress.ip_address(row.tobytes()))) == number


@pytest.mark.parametrize("version", [4, 6])
def test_routes_are_distinct_valid_and_repeatable(version: int) -> None:
    routes = draw_routes(5000, None, version, [[2, 3]], 1)
    assert len(routes) == 5000
    texts = [f"{network}/{bits}" for network, bits, _ in routes]
    assert len(set(texts)) == 5000
    for text in texts:
        ipaddress.ip_network(text)  # raises if host bits are set
    assert routes.digest() == draw_routes(5000, None, version, [[2, 3]], 1).digest()
    assert routes.digest() != draw_routes(5000, None, version, [[2, 3]], 2).digest()
    assert set(routes.hops.tolist()) == {2, 3}


def test_some_prefixes_lie_in_others_behind_another_next_hop() -> None:
    routes = draw_routes(800, None, 4, [[0, 1]], 1)
    networks = {(n, b): h for n, b, h in routes}
    differing = 0
    for (network, bits), hop in networks.items():
        inner = ipaddress.ip_network(f"{network}/{bits}")
        for shorter in range(8, bits):
            outer = inner.supernet(new_prefix=shorter)
            key = (str(outer.network_address), shorter)
            differing += key in networks and networks[key] != hop
    assert differing >= 50


def test_the_largest_tables_can_be_drawn() -> None:
    count = most_routes(8, 4)
    assert len(draw_routes(count, 8, 4, [[0, 1]], 1)) == count


@pytest.mark.parametrize("version", [4, 6])
def test_flows_carry_the_next_hop_of_the_longest_match(version: int) -> None:
    neutral = table(routes=300, ip_version=version)
    rows = load_flows(neutral, 500, [1], 1)
    assert neutral.routes is not None
    for row, hop in zip(rows.destinations, rows.hops, strict=True):
        number = by_hand(neutral.routes, str(ipaddress.ip_address(row.tobytes())))
        assert neutral.routes.hops[number] == hop
        assert neutral.next_hops[hop].port == 1
    width = 4 if version == 4 else 16
    assert len(rows.to_bytes()) == 500 * (2 * width + 8)
    step, raw = 2 * width + 8, rows.to_bytes()
    assert len({raw[k : k + 2 * width + 4] for k in range(0, len(raw), step)}) == 500


def test_traffic_both_ways_leaves_by_the_right_ports() -> None:
    neutral = table(routes=300, bidirectional=True)
    for egress in (0, 1):
        rows = load_flows(neutral, 200, [egress], 1)
        assert {neutral.next_hops[hop].port for hop in rows.hops} == {egress}


def test_flows_of_a_forwarding_base_have_no_next_hop() -> None:
    assert set(load_flows(table("forward+acl"), 10, [1], 1).hops.tolist()) == {NO_HOP}


def test_a_router_rewrites_addresses_and_lowers_the_ttl() -> None:
    neutral = table(routes=10)
    sent = load_frame(neutral, 0)
    result = forwarded(neutral, sent)
    assert result is not None
    assert result.egress == 1
    assert result.frame.ttl == sent.frame.ttl - 1
    assert result.frame.source_mac == neutral.ports[1].mac
    assert result.frame.destination_mac == neutral.ports[1].host_mac
    assert forwarded(neutral, load_frame(neutral, 0, ttl=1)) is None
    assert forwarded(neutral, load_frame(neutral, 0, destination="203.0.113.9")) is None
