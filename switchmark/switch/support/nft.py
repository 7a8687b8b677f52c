"""Access control lists, policers and mirrors as nftables, for the kernel's router and bridge.

A list is written in one of two ways. `nft-linear` has one nftables rule for each rule, in order.
`nft-set` has the rules of one verdict and one form as elements of a set, which the kernel looks up
at once. A set has no order, so a list can be written as sets only if its order can be given up in
parts: in few runs of one verdict, or with all rules of one verdict in front.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

from switchmark.errors import Refusal, SwitchmarkError, TrialFailed, UnavailableError, UsageError
from switchmark.function.support.table import PORT_PROTOCOLS, FunctionTable, Policer, Rule
from switchmark.host.kernel import namespaces
from switchmark.host.process_output import parse_counter, parsing
from switchmark.language.values import NS_PER_S
from switchmark.model.capabilities import SwitchOption
from switchmark.model.changes import TableChange
from switchmark.model.choices import FCS_BYTES
from switchmark.model.functions import FunctionEntries, FunctionSupport
from switchmark.model.ports import SwitchCounters
from switchmark.switch.support.changes import spare_rule
from switchmark.switch.support.private import Namespace

LINEAR, SETS = "nft-linear", "nft-set"
ACL_ENGINE = SwitchOption(
    "acl_engine",
    "how nftables holds an access control list: one rule after the other, or in sets",
    SETS,
    (SETS, LINEAR),
)
TRIED = "6.18"  # version of Linux
SUPPORT = {
    "acl": FunctionSupport(
        100_000,
        "more were not tried",
        version=TRIED,
        scale_by_option={
            f"acl_engine:{LINEAR}": (
                10_000,
                "more were not tried; each frame is compared with each rule in turn",
            )
        },
    ),
    "policer": FunctionSupport(limit="frames of one size", version=TRIED),
}
TABLE, CHAIN, POLICERS = "switchmark", "acl", "switchmark_policers"
MIRROR = "switchmark_mirror"
RULES_A_BATCH = 200  # larger batches do not fit into a socket buffer of an ordinary user
ELEMENTS_A_BATCH = 500
MOST_RUNS = 8  # each run of equal verdicts becomes separate sets
MOST_SETS = 32  # for rules of one form and verdict
FEWEST_ELEMENTS = 4  # a set of fewer would be slower than its rules
MOST_COMPARED = 5_000_000  # pairs of rules
LOAD_TIMEOUT_S = 300.0
HANDLE = re.compile(r"# handle (\d+)$", re.MULTILINE | re.ASCII)
NO_PORTS = (0, 0xFFFF)
# Longer units of nftables make finer rates; the kernel counts in nanoseconds for a frame.
UNITS_S = {"second": 1, "minute": 60, "hour": 3600}
RATE_ERROR_MOST = 0.005  # relative, by the kernel's whole nanoseconds for a frame


@dataclass(frozen=True, slots=True)
class Field:
    """A part of a frame that rules compare, as nftables writes it."""

    expression: str
    text: str  # value or range, as nftables writes it
    is_exact: bool
    low: int
    high: int


@dataclass
class NftSet:
    """The rules of one form and one verdict, as a set."""

    name: str
    expression: str
    elements: list[str] = field(default_factory=list)
    is_interval: bool = False


@dataclass
class NftList:
    """An access control list as nftables: sets, and the lines of its chain."""

    family: str  # ip, ip6 or bridge
    policy: str  # accept or drop
    lines: list[str] = field(default_factory=list)
    sets: list[NftSet] = field(default_factory=list)

    @property
    def announced(self) -> dict[str, int]:
        """Return the number of native entries by table."""
        entries = {"nft rules": len(self.lines)}
        if self.sets:
            entries["nft set elements"] = sum(len(nft_set.elements) for nft_set in self.sets)
        return entries

    def scripts(self) -> Iterator[str]:
        """Yield the input of each call of `nft`."""
        where = f"{self.family} {TABLE}"
        first = [f"add table {where}"]
        for nft_set in self.sets:
            flags = " flags interval;" if nft_set.is_interval else ""
            first.append(
                f"add set {where} {nft_set.name} {{ typeof {nft_set.expression};{flags} }}"
            )
        first.append(
            f"add chain {where} {CHAIN} "
            f"{{ type filter hook forward priority 0; policy {self.policy}; }}"
        )
        yield "\n".join(first)
        for nft_set in self.sets:
            for at in range(0, len(nft_set.elements), ELEMENTS_A_BATCH):
                part = ", ".join(nft_set.elements[at : at + ELEMENTS_A_BATCH])
                yield f"add element {where} {nft_set.name} {{ {part} }}"
        for at in range(0, len(self.lines), RULES_A_BATCH):
            lines = self.lines[at : at + RULES_A_BATCH]
            yield "\n".join(f"add rule {where} {CHAIN} {line}" for line in lines)


def list_of(table: FunctionTable, engine: str, *, bridged: bool) -> NftList:
    """Translate the access control list of a neutral table. Raises `UsageError` for a list that
    sets cannot express."""
    family = "bridge" if bridged else "ip" if table.ip_version == 4 else "ip6"
    nft_list = NftList(family, "accept" if table.default_permit else "drop")
    if engine == LINEAR:
        nft_list.lines = [rule_text(rule) for rule in table.rules]
        return nft_list
    for rules in ordered_parts(table.rules):
        _add_part(nft_list, rules)
    return nft_list


def ordered_parts(rules: Sequence[Rule]) -> list[list[Rule]]:
    """Return the rules in parts of one verdict. The order inside a part does not matter, and the
    parts in their order give every frame the verdict of the list. Raises `UsageError`."""
    runs = [list(run) for _, run in groupby(rules, lambda rule: rule.permit)]
    if len(runs) <= MOST_RUNS:
        return runs
    for first in (False, True):
        if _can_precede(rules, first):
            parts = [[r for r in rules if r.permit is verdict] for verdict in (first, not first)]
            return [part for part in parts if part]
    raise UsageError(
        f"acl_engine is {SETS}, which cannot express this list: permits and denials of the same "
        f"frames alternate in {len(runs)} runs, and sets have no order",
        remedy=f"use acl_engine: {LINEAR}",
    )


def _can_precede(rules: Sequence[Rule], first: bool) -> bool:
    """Return True if all rules of a verdict can stand before all others: none of them matches a
    frame that an earlier rule of the other verdict matches too."""
    exact: dict[int, list[Rule]] = {}
    wide: list[Rule] = []
    others: list[Rule] = []
    compared = 0
    for rule in rules:
        ports = rule.destination_ports or NO_PORTS
        is_exact = ports[0] == ports[1]
        if rule.permit is not first:
            (exact.setdefault(ports[0], []) if is_exact else wide).append(rule)
            others.append(rule)
            continue
        candidates = [*exact.get(ports[0], ()), *wide] if is_exact else others
        compared += len(candidates)
        if compared > MOST_COMPARED or any(_overlap(rule, other) for other in candidates):
            return False
    return True


def _overlap(a: Rule, b: Rule) -> bool:
    """Return True if some frame matches both rules."""
    if a.protocol is not None and b.protocol is not None and a.protocol != b.protocol:
        return False
    return all(
        low_a <= high_b and low_b <= high_a
        for (low_a, high_a), (low_b, high_b) in zip(_ranges(a), _ranges(b), strict=True)
    )


def _ranges(rule: Rule) -> list[tuple[int, int]]:
    ranges = []
    for prefix in (rule.source, rule.destination):
        network = ipaddress.ip_network(prefix)
        ranges.append((int(network.network_address), int(network.broadcast_address)))
    return [*ranges, rule.source_ports or NO_PORTS, rule.destination_ports or NO_PORTS]


def fields_of(rule: Rule) -> list[Field]:
    """Return the parts of a frame that a rule compares, without the protocol."""
    fields = []
    for direction, prefix in (("saddr", rule.source), ("daddr", rule.destination)):
        network = ipaddress.ip_network(prefix)
        if network.prefixlen == 0:
            continue
        family = "ip" if network.version == 4 else "ip6"
        exact = network.prefixlen == network.max_prefixlen
        text = str(network.network_address) if exact else str(network)
        low, high = int(network.network_address), int(network.broadcast_address)
        fields.append(Field(f"{family} {direction}", text, exact, low, high))
    for direction, ports in (("sport", rule.source_ports), ("dport", rule.destination_ports)):
        if ports is None:
            continue
        low, high = ports
        protocol = PORT_PROTOCOLS.get(rule.protocol or 0)
        if protocol is None:
            raise UsageError(
                f"acl: a rule with ports has protocol {rule.protocol}, which has no ports",
                remedy="use protocol 6 or 17",
            )
        exact = low == high
        text = str(low) if exact else f"{low}-{high}"
        fields.append(Field(f"{protocol} {direction}", text, exact, low, high))
    return fields


def _match_protocol(rule: Rule, fields: Sequence[Field]) -> str:
    """Return the comparison of the protocol, if no comparison of ports implies it."""
    if rule.protocol is None or any(part.expression.endswith("port") for part in fields):
        return ""
    return f"meta l4proto {rule.protocol} "


def _verdict(rule: Rule) -> str:
    return "accept" if rule.permit else "drop"


def rule_text(rule: Rule) -> str:
    """Return a rule as a line of a chain. A rule for all frames of one IP version names it, since
    a bridge sees others too."""
    fields = fields_of(rule)
    compared = "".join(f"{part.expression} {part.text} " for part in fields)
    if not any(part.expression.startswith("ip") for part in fields):
        version = ipaddress.ip_network(rule.source).version
        compared = f"meta protocol {'ip' if version == 4 else 'ip6'} {compared}"
    return f"{compared}{_match_protocol(rule, fields)}{_verdict(rule)}"


def _add_part(to: NftList, rules: Sequence[Rule]) -> None:
    """Add rules of one verdict in any order: those of each form as sets, or as lines if few."""
    forms: dict[tuple[tuple[str, ...], int | None], list[tuple[Rule, list[Field]]]] = {}
    for rule in dict.fromkeys(rules):
        fields = fields_of(rule)
        compared = tuple(part.expression for part in fields)
        forms.setdefault((compared, rule.protocol), []).append((rule, fields))
    for (expressions, _), members in forms.items():
        if len(members) < FEWEST_ELEMENTS or not expressions:
            to.lines += [rule_text(rule) for rule, _ in members]
            continue
        for part in _without_overlap(members):
            _add_set(to, part)


def _without_overlap(
    rows: Sequence[tuple[Rule, list[Field]]],
) -> list[list[tuple[Rule, list[Field]]]]:
    """Deal rules of one form out to sets whose elements do not overlap, which the kernel would
    refuse. Raises `UsageError` if too many sets are needed."""
    exact = [k for k in range(len(rows[0][1])) if all(row[k].is_exact for _, row in rows)]
    inexact = [k for k in range(len(rows[0][1])) if k not in exact]
    parts: list[list[tuple[Rule, list[Field]]]] = []
    buckets: list[dict[tuple[int, ...], list[list[Field]]]] = []
    for rule, row in rows:
        key = tuple(row[k].low for k in exact)
        free = (
            number for number, bucket in enumerate(buckets)
            if not any(_meet(row, other, inexact) for other in bucket.get(key, ()))
        )  # fmt: skip
        number = next(free, len(parts))
        if number == MOST_SETS:
            raise UsageError(
                f"acl_engine is {SETS}, which cannot express this list: more than {MOST_SETS} "
                "rules overlap each other",
                remedy=f"use acl_engine: {LINEAR}",
            )
        if number == len(parts):
            parts.append([])
            buckets.append({})
        parts[number].append((rule, row))
        buckets[number].setdefault(key, []).append(row)
    return parts


def _meet(a: Sequence[Field], b: Sequence[Field], places: Sequence[int]) -> bool:
    return all(a[k].low <= b[k].high and b[k].low <= a[k].high for k in places)


def _add_set(to: NftList, members: Sequence[tuple[Rule, list[Field]]]) -> None:
    rows = [fields for _, fields in members]
    expression = " . ".join(part.expression for part in rows[0])
    nft_set = NftSet(
        f"s{len(to.sets)}",
        expression,
        [" . ".join(part.text for part in row) for row in rows],
        any(not part.is_exact for row in rows for part in row),
    )
    to.sets.append(nft_set)
    rule = members[0][0]
    protocol = _match_protocol(rule, rows[0])
    to.lines.append(f"{protocol}{expression} @{nft_set.name} {_verdict(rule)}")


def policer_scripts(devices: Sequence[str], policer: Policer, frame_bytes: int) -> list[str]:
    """Return the input of `nft` for a policer at the ingress of each device, for frames of one
    size with FCS. It counts frames, since limits in bytes hold a second of the rate beyond the
    burst. Raises `UsageError` for a rate or burst that frames cannot express."""
    unit, rate, burst = frame_limit(policer, frame_bytes)
    where = f"netdev {POLICERS}"
    lines = [f"add table {where}"]
    for number, device in enumerate(devices):
        chain = f"p{number}"
        hook = f'type filter hook ingress device "{device}" priority 0; policy accept;'
        lines.append(f"add chain {where} {chain} {{ {hook} }}")
        lines.append(
            f"add rule {where} {chain} limit rate over {rate}/{unit} burst {burst} packets "
            "counter drop"
        )
    return ["\n".join(lines)]


def mirror_script(source: str, monitor: str) -> str:
    """Return the input of `nft` that copies the frames which enter a device to another device."""
    where = f"netdev {MIRROR}"
    hook = f'type filter hook ingress device "{source}" priority -1; policy accept;'
    return "\n".join([
        f"add table {where}",
        f"add chain {where} copies {{ {hook} }}",
        f'add rule {where} copies dup to "{monitor}"',
    ])  # fmt: skip


def frame_limit(policer: Policer, frame_bytes: int) -> tuple[str, int, int]:
    """Return unit, frames per unit and burst in frames of a policer for frames of this size with
    FCS. The kernel keeps whole nanoseconds a frame."""
    bytes_each = frame_bytes - FCS_BYTES
    burst = policer.cbs_bytes // bytes_each
    if burst < 1:
        raise UsageError(
            f"cbs is {policer.cbs_bytes} bytes, below a frame of {bytes_each} bytes without FCS",
            remedy=f"use {bytes_each} or more",
        )
    wanted_ns = bytes_each * 8 * NS_PER_S / policer.cir_bps
    best: tuple[float, str, int] | None = None
    for unit, seconds in UNITS_S.items():
        rate = round(seconds * NS_PER_S / wanted_ns)
        if not 1 <= rate <= 0xFFFF_FFFF:
            continue
        kept_ns = seconds * NS_PER_S // rate
        error = abs(wanted_ns / kept_ns - 1)
        if best is None or error < best[0]:
            best = error, unit, rate
    if best is None or best[0] > RATE_ERROR_MOST:
        raise UsageError(
            f"cir is {policer.cir_bps} bit/s: nftables cannot keep a frame of {bytes_each} bytes "
            f"every {wanted_ns:.3f} ns within {RATE_ERROR_MOST:.1%}",
            remedy="use a lower cir, or longer frames",
        )
    return best[1], best[2], burst


def load(namespace: Namespace, scripts: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """Run `nft` inside the namespace for each script; return the answers. Raises
    `UnavailableError`."""
    command = ["nft", *options, "-f", "-"]
    run = namespace.session.host.run

    def run_all() -> list[str]:
        return [
            run(command, input_text=script + "\n", timeout_s=LOAD_TIMEOUT_S).stdout
            for script in scripts
        ]

    try:
        return namespaces.inside(namespace.name, run_all)
    except UsageError:
        raise
    except SwitchmarkError as error:
        raise UnavailableError(
            f"nftables does not take the list: {error}",
            remedy="use a kernel with CONFIG_NF_TABLES, _INET, _BRIDGE and _NETDEV",
        ) from None


def refusal(table: FunctionTable, engine: str, *, bridged: bool) -> Refusal | None:
    """Return why nftables cannot express a table; None if it can."""
    try:
        if table.has_acl:
            list_of(table, engine, bridged=bridged)
        if table.policer is not None:
            check_one_size(table)
            frame_limit(table.policer, table.frame_bytes)
    except UsageError as error:
        return error.refusal
    return None


def check_one_size(table: FunctionTable) -> None:
    """Raise `UsageError` if the frames of the load have several sizes."""
    if table.smallest_frame_bytes != table.frame_bytes:
        raise UsageError(
            "the kernel polices in frames per second here, so function policer needs frames of "
            "one size",
            remedy="leave packet_mix out",
        )


@dataclass(frozen=True, slots=True)
class Filters:
    """The access control list, the policers and the mirror of a neutral table, in the namespace of
    a switch."""

    namespace: Namespace
    acl: NftList | None
    policed: Sequence[str] = ()  # devices with a policer
    scripts: Sequence[str] = ()  # input of each call of `nft`
    has_mirror: bool = False

    @classmethod
    def of(
        cls,
        namespace: Namespace,
        table: FunctionTable,
        engine: str,
        devices: Sequence[str],
        *,
        bridged: bool,
    ) -> Filters:
        """Translate the neutral table. Raises `UsageError` for a table that cannot be expressed."""
        acl = list_of(table, engine, bridged=bridged) if table.has_acl else None
        scripts = list(acl.scripts()) if acl else []
        if table.mirror is not None and table.mirror.copies:
            scripts.append(
                mirror_script(devices[table.mirror.source], devices[table.mirror.monitor])
            )
            return cls(namespace, acl, scripts=scripts, has_mirror=True)
        if table.policer is None:
            return cls(namespace, acl, scripts=scripts)
        check_one_size(table)
        scripts += policer_scripts(devices, table.policer, table.frame_bytes)
        return cls(namespace, acl, devices, scripts)

    def load(self) -> None:
        """Load everything. Raises `UnavailableError`."""
        if self.scripts:
            load(self.namespace, self.scripts)

    def table_changes(self, table: FunctionTable) -> list[TableChange]:
        """Return the changes of the list under load; empty if it has no rules."""
        if self.acl is None or not table.rules:
            return []
        return [rule_changes(self.namespace, self.acl, table)]

    def with_policed(self, counters: SwitchCounters, ports: Sequence[int]) -> SwitchCounters:
        """Add the frames that policers dropped; `ports` are the numbers of the policed devices."""
        if not self.policed:
            return counters
        added = dict(counters.ports)
        for port, dropped in zip(ports, policer_drops(self.namespace), strict=True):
            lost = added[port].rx_dropped + dropped
            added[port] = replace(added[port], rx_dropped=lost)
        return replace(counters, ports=added)

    def entries(self, load_time_s: float) -> FunctionEntries:
        """Return the announced entries, and those that the kernel has. Raises `TrialFailed`."""
        announced: dict[str, int] = {}
        observed: dict[str, int] = {}
        if self.acl is not None:
            announced |= self.acl.announced
            observed |= read_back(self.namespace, self.acl)
        if self.policed:
            announced["nft policers"] = len(self.policed)
            observed["nft policers"] = count_entries(self.namespace, "netdev", POLICERS)[0]
        if self.has_mirror:
            announced["nft copies"] = 1
            observed["nft copies"] = count_entries(self.namespace, "netdev", MIRROR)[0]
        return FunctionEntries(announced, observed, load_time_s)


def rule_changes(namespace: Namespace, acl: NftList, table: FunctionTable) -> TableChange:
    """Return the changes of a list: elements of the set that has denials of the form of the spare
    rules, or rules in front of all others if there is no such set."""
    where = f"{acl.family} {TABLE}"
    expression = " . ".join(part.expression for part in fields_of(spare_rule(table, 0)))
    nft_set = next(
        (s for s in acl.sets
         if s.expression == expression and f"{expression} @{s.name} drop" in acl.lines), None
    )  # fmt: skip
    spare_handles: list[str] = []

    def elements(verb: str, first: int, end: int) -> None:
        assert nft_set is not None
        parts = (fields_of(spare_rule(table, number)) for number in range(first, end))
        texts = ", ".join(" . ".join(part.text for part in parts_) for parts_ in parts)
        load(namespace, [f"{verb} element {where} {nft_set.name} {{ {texts} }}"])

    def insert(first: int, end: int) -> None:
        lines = [
            f"insert rule {where} {CHAIN} {rule_text(spare_rule(table, number))}"
            for number in range(first, end)
        ]
        answer = "".join(load(namespace, ["\n".join(lines)], ["--echo", "--handle"]))
        spare_handles.extend(HANDLE.findall(answer))

    def delete(first: int, end: int) -> None:
        lines = [f"delete rule {where} {CHAIN} handle {one}" for one in spare_handles[first:end]]
        load(namespace, ["\n".join(lines)])

    def count(kind: int) -> int:
        return count_entries(namespace, acl.family)[kind]

    if nft_set is None:
        return TableChange("rules", insert, delete, lambda: count(0))
    return TableChange(
        "rules", partial(elements, "add"), partial(elements, "delete"), lambda: count(1)
    )


def policer_drops(namespace: Namespace) -> list[int]:
    """Return the frames that each policer dropped, in the order of the devices."""
    rules = [entry["rule"] for entry in _listed(namespace, "netdev", POLICERS) if "rule" in entry]
    with parsing("nft -j"):
        drops = {
            int(rule["chain"].removeprefix("p")): parse_counter(part["counter"]["packets"])
            for rule in rules
            for part in rule["expr"]
            if "counter" in part
        }
    return [drops[number] for number in sorted(drops)]


def count_entries(namespace: Namespace, family: str, table: str = TABLE) -> tuple[int, int]:
    """Return the number of rules, and of elements of sets, that the kernel has in a table."""
    entries = _listed(namespace, family, table)
    with parsing("nft -j"):
        rules = sum("rule" in entry for entry in entries)
        elements = sum(len(entry["set"].get("elem", ())) for entry in entries if "set" in entry)
    return rules, elements


def _listed(namespace: Namespace, family: str, table: str) -> list[dict[str, Any]]:
    """Return the entries of a table as `nft -j` lists them."""
    args = ["nft", "-j", "list", "table", family, table]
    answer = namespaces.inside(
        namespace.name,
        lambda: namespace.session.host.run(args, check=False, timeout_s=LOAD_TIMEOUT_S),
    )
    if answer.exit_code != 0:
        raise TrialFailed(f"nftables: table {table} cannot be listed: {answer.stderr.strip()}")
    with parsing("nft -j"):
        return [dict(entry) for entry in json.loads(answer.stdout)["nftables"]]


def read_back(namespace: Namespace, written: NftList) -> dict[str, int]:
    """Return what the kernel has of a list, by the tables of `NftList.announced`."""
    rules, elements = count_entries(namespace, written.family)
    entries = {"nft rules": rules}
    if written.sets or elements:
        entries["nft set elements"] = elements
    return entries
