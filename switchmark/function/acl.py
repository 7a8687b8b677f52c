"""`acl`: stateless filtering by an access control list; the first matching rule decides.

`rule_hit: last` has denials that the load does not match, then one rule that permits the load.
`uniform` has as many denials, and permits spread between them, which the load hits equally often.
`none` has denials only, and frames that match no rule are permitted. Each list ends with a permit
for the addresses of the testers, by which the bench verifies paths; it is not counted in `rules`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import replace

from switchmark.errors import Refusal
from switchmark.function.support.files import read_rules, usage_problems
from switchmark.function.support.flows import (
    DENIED_PORT,
    DESTINATIONS,
    LOAD_PORT,
    PERMITTED_PORT,
    SOURCE_PORT,
    SOURCES,
    load_flows,
    verdict,
)
from switchmark.function.support.functions import Case, Passing
from switchmark.function.support.samples import load_frame
from switchmark.function.support.table import UDP, FunctionTable, Rule
from switchmark.model.trial import Trial

HOSTS = {4: "10.64.0.0/10", 6: "2001:2::/48"}  # addresses of the testers
RANDOM_RULES = 30
DENIED_PORTS = 9_999
MOST_PERMITS = 30_000  # destination ports that are left for them


class Acl:
    """An access control list of 5-tuple rules."""

    name = "acl"
    meaning = "stateless filter by a list of 5-tuple rules; the first matching rule decides"
    keys = ("rules", "rule_hit", "masks", "rules_file")
    scale_key: str | None = "rules"
    unit = "rules"
    filters = True

    def refusals(self, trial: Trial) -> Iterator[Refusal]:
        """More masks than the rules can have, and files with mistakes."""
        if trial.rules_file:
            yield from usage_problems(
                lambda: read_rules(trial.rules_file, trial.ip_version), "rules_file"
            )
            return
        if trial.masks > max(1, trial.rules):
            yield Refusal(
                f"{trial.masks} is above the number of rules, {trial.rules}",
                "use fewer masks, or more rules",
                key="masks",
            )

    def fill(self, table: FunctionTable, trial: Trial) -> FunctionTable:
        """Make the list."""
        if trial.rules_file:
            version = table.ip_version
            hosts = Rule(True, HOSTS[version], HOSTS[version])
            load = Rule(True, SOURCES[version], any_prefix(version))
            rules = (*read_rules(trial.rules_file, version), load, hosts)
            return replace(table, rules=rules, extra=table.extra | {"rules_file": True})
        if trial.rules == 0:
            return replace(table, default_permit=True)
        hit, version = trial.rule_hit, table.ip_version
        load = Rule(True, SOURCES[version], any_prefix(version))
        hosts = Rule(True, HOSTS[version], HOSTS[version])
        if hit == "none":
            denials = _denials(table, trial.rules, trial.masks)
            return replace(table, rules=tuple(denials), default_permit=True)
        if hit == "last":
            denials = _denials(table, trial.rules - 1, trial.masks)
            return replace(table, rules=(*denials, load, hosts))
        permits = min(max(1, trial.rules // 2), MOST_PERMITS)
        denials = _denials(table, trial.rules - permits, trial.masks)
        spread = [
            replace(load, destination_ports=(PERMITTED_PORT + k, PERMITTED_PORT + k))
            for k in range(permits)
        ]
        mixed = [rule for k in range(max(len(denials), len(spread)))
                 for rule in (*denials[k : k + 1], *spread[k : k + 1])]  # fmt: skip
        return replace(table, rules=(*mixed, hosts))

    def apply(self, table: FunctionTable, passing: Passing) -> Passing | None:
        """Drop what the list denies."""
        frame = passing.frame
        permitted = verdict(
            table, frame.source, frame.destination, frame.source_port, frame.destination_port
        )
        return passing if permitted else None

    def cases(self, table: FunctionTable) -> Iterator[Case]:
        """Yield frames that match the first, the last and random denials, and their neighbours by
        port and address, and frames of the load."""
        import numpy as np

        denials = [rule for rule in table.rules if not rule.permit]
        generator = np.random.default_rng([table.seed, 3])
        if denials:
            drawn = generator.integers(0, len(denials), min(len(denials), RANDOM_RULES))
            for number in sorted({0, len(denials) - 1, *map(int, drawn)}):
                yield from _around(table, denials[number], number)
        spread = [r for r in table.rules if r.permit and r.destination_ports is not None]
        for rule in [*spread[:1], *spread[-1:]]:
            assert rule.destination_ports is not None
            port = rule.destination_ports[0]
            yield Case(f"a permitted frame to port {port}",
                       load_frame(table, 0, destination_port=port))  # fmt: skip
        for entry in table.ports:
            where = entry.index
            yield Case(f"a frame of the load at port {where}", load_frame(table, where))
        yield Case("a frame from outside the sources of the load",
                   load_frame(table, 0, source=_outsider(table)))  # fmt: skip


def _around(table: FunctionTable, rule: Rule, number: int) -> Iterator[Case]:
    """Yield a frame that a rule matches, and two near neighbours."""
    source = str(ipaddress.ip_network(rule.source).network_address)
    destination = str(ipaddress.ip_network(rule.destination).network_address)
    port = (rule.destination_ports or (LOAD_PORT, LOAD_PORT))[0]

    def sample(source: str, port: int) -> Passing:
        return load_frame(
            table, 0, source=source, destination=destination, source_port=SOURCE_PORT,
            destination_port=port,
        )  # fmt: skip

    yield Case(f"a frame that denial {number} matches", sample(source, port))
    yield Case(f"its neighbour by port, {port + 1}", sample(source, port + 1))
    step = 2 ** (ipaddress.ip_network(rule.source).max_prefixlen
                 - ipaddress.ip_network(rule.source).prefixlen)  # fmt: skip
    beside = str(ipaddress.ip_address(source) + step)
    yield Case(f"its neighbour by source, {beside}", sample(beside, port))


def _outsider(table: FunctionTable) -> str:
    return "192.0.2.77" if table.ip_version == 4 else "2001:db8::77"


def any_prefix(ip_version: int) -> str:
    """Return the prefix that matches every address."""
    return "0.0.0.0/0" if ip_version == 4 else "::/0"


def _denials(table: FunctionTable, count: int, masks: int) -> list[Rule]:
    """Return denials of UDP frames from sources of the load to destinations that would be
    forwarded, at destination ports that the load does not use. Prefixes of the source have `masks`
    different lengths."""
    import numpy as np

    generator = np.random.default_rng([table.seed, 4])
    version = table.ip_version
    sources = ipaddress.ip_network(SOURCES[version])
    bits = sources.max_prefixlen
    if table.routes is not None and len(table.routes):
        ports = [port.index for port in table.ports if port.index % 2]
        rows = load_flows(replace(table, rules=()), max(1, min(count, 100_000)), ports, 77)
        destinations = [ipaddress.ip_address(row.tobytes()) for row in rows.destinations]
    else:
        base = ipaddress.ip_network(DESTINATIONS[version]).network_address
        destinations = [base + int(k) for k in generator.integers(1, 2**20 - 2, max(1, count))]
    rules: dict[Rule, None] = {}  # distinct: equal entries would be one entry in some switches
    while len(rules) < count:
        k = len(rules)
        host = sources.network_address + int(generator.integers(4096, 2**17 - 4096))
        source = ipaddress.ip_network((host, bits - k % masks), strict=False)
        port = DENIED_PORT + k % DENIED_PORTS
        destination = destinations[k % len(destinations)]
        rule = Rule(False, str(source), f"{destination}/{bits}", UDP, None, (port, port))
        rules[rule] = None
    return list(rules)


FUNCTION = Acl()
