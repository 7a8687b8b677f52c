"""Planted errors: neutral tables that differ from the checker's in one thing.

A test gives the mutated table to the switch, and the right table to the proof. The proof must then
fail, with a text that matches `message`."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from switchmark.function.support.table import FunctionTable


@dataclass(frozen=True, slots=True)
class Mutation:
    """A planted error, the function that it breaks, and what the proof must say about it."""

    name: str
    function: str
    message: str  # regular expression
    change: Callable[[FunctionTable], FunctionTable]
    # False for an error that not every switch can be made to have.
    everywhere: bool = True


def _without_a_route(table: FunctionTable) -> FunctionTable:
    assert table.routes is not None
    return replace(table, routes=table.routes.without(0))


def _wrong_hop_mac(table: FunctionTable) -> FunctionTable:
    """Change the next hop of the first route, which the proof always tries."""
    assert table.routes is not None
    number = int(table.routes.hops[0])
    hops = list(table.next_hops)
    hops[number] = replace(hops[number], mac="02:6e:ff:ff:ff:ff")
    return replace(table, next_hops=tuple(hops))


def _wrong_port(table: FunctionTable) -> FunctionTable:
    """Send the first route to the peer port."""
    assert table.routes is not None
    number = int(table.routes.hops[0])
    hops = list(table.next_hops)
    hop = hops[number]
    other = next(one for one in hops if one.port == hop.port ^ 1)
    hops[number] = replace(other, index=hop.index)
    return replace(table, next_hops=tuple(hops))


def _last_denial(table: FunctionTable) -> int:
    return max(k for k, rule in enumerate(table.rules) if not rule.permit)


def _swapped_rules(table: FunctionTable) -> FunctionTable:
    """Swap the last denial with a permit that its frames match too."""
    last = _last_denial(table)
    rules = list(table.rules)
    source = ipaddress.ip_network(rules[last].source)
    permit = next(
        k for k, rule in enumerate(rules)
        if rule.permit and rule.destination_ports is None
        and source.subnet_of(ipaddress.ip_network(rule.source))  # type: ignore[arg-type]
    )  # fmt: skip
    rules[last], rules[permit] = rules[permit], rules[last]
    return replace(table, rules=tuple(rules))


def _missing_rule(table: FunctionTable) -> FunctionTable:
    last = _last_denial(table)
    return replace(table, rules=table.rules[:last] + table.rules[last + 1 :])


def _wrong_vni(table: FunctionTable) -> FunctionTable:
    first, *rest = table.tunnels
    return replace(table, tunnels=(replace(first, vni=first.vni + 5000), *rest))


def _wrong_vid(table: FunctionTable) -> FunctionTable:
    assert table.vlan is not None
    return replace(table, vlan=replace(table.vlan, vid=table.vlan.vid + 1))


def _without_copies(table: FunctionTable) -> FunctionTable:
    assert table.mirror is not None
    return replace(table, mirror=replace(table.mirror, copies=False))


def with_rate(table: FunctionTable, percent: int) -> FunctionTable:
    """Return the table whose CIR is multiplied by a percentage."""
    assert table.policer is not None
    other = table.policer.cir_bps * percent // 100
    return replace(table, policer=replace(table.policer, cir_bps=other))


MUTATIONS = (
    Mutation("missing route", "route", r"did not arrive|destination mac is", _without_a_route),
    Mutation("wrong next-hop MAC", "route", r"destination mac is '02:6e:ff:ff:ff:ff'",
             _wrong_hop_mac),
    Mutation("wrong egress port", "route", r"it arrived at port|did not arrive", _wrong_port),
    Mutation("TTL not decremented", "route", r"ttl is \d+, not \d+|must be dropped",
             lambda table: replace(table, decrements_ttl=False), everywhere=False),
    Mutation("swapped rules", "acl", r"denial \d+ matches: .*must be dropped", _swapped_rules),
    Mutation("missing rule", "acl", r"denial \d+ matches: .*must be dropped", _missing_rule),
    Mutation("wrong VNI", "vxlan", r"VNI is|did not arrive", _wrong_vni),
    Mutation("wrong VLAN ID", "vlan", r"vid is|did not arrive", _wrong_vid),
    Mutation("mirror without copies", "mirror", r"did not arrive", _without_copies),
)  # fmt: skip

# Errors that single frames do not show, only measured rates.
WRONG_RATES = tuple(
    Mutation(
        f"CIR 5 % too {word}", "policer", rf"forwarded \d\.\d% {compared} frames",
        partial(with_rate, percent=percent),
    )
    for word, compared, percent in (("high", "more", 105), ("low", "fewer", 95))
)  # fmt: skip
EVERY_MUTATION = (*MUTATIONS, *WRONG_RATES)


def mutations_of(functions: tuple[str, ...]) -> list[Mutation]:
    """Return the planted errors of these functions that the proof by frames finds; `swapped
    rules` and `missing rule` need a list of `rule_hit: last` with at least 3 rules."""
    return [mutation for mutation in MUTATIONS if mutation.function in functions]
