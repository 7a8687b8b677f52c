"""The functions by name, the neutral table of a trial, and the reference model of all functions."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from functools import cache, lru_cache

from switchmark.function.support.files import file_identity
from switchmark.function.support.functions import Case, Function, Passing
from switchmark.function.support.table import (
    FunctionTable,
    RouterPort,
)
from switchmark.model.functions import FunctionList, function_names
from switchmark.model.topology import MONITOR, Topology, router_mac
from switchmark.model.trial import Trial
from switchmark.plugins import PluginRegistry, attribute_loader

FUNCTIONS: PluginRegistry[Function] = PluginRegistry(
    "switchmark.function", attribute_loader("FUNCTION")
)

RULES_IN_SAMPLE, TUNNELS_IN_SAMPLE = 200, 8


def functions_of(functions: FunctionList) -> list[Function]:
    """Return the functions of a list in the order in which a frame passes them. Filters come before
    the base; functions that change or copy a frame come after it."""
    base, added = FUNCTIONS[functions.base], [FUNCTIONS[name] for name in functions.added]
    before = [function for function in added if function.filters]
    return [*before, base, *(function for function in added if not function.filters)]


def router_port(index: int, host: str, host_mac: str, ip_version: int) -> RouterPort:
    """Return a port's own addresses as a router."""
    address = f"198.19.{index}.1/24" if ip_version == 4 else f"2001:2:0:{0x8000 + index:x}::1/64"
    return RouterPort(index, router_mac(index), address, host, host_mac)


def table_of(trial: Trial, topology: Topology) -> FunctionTable | None:
    """Return the neutral table of a trial; None if the switch only forwards."""
    if trial.function.is_plain:
        return None
    files = tuple(file_identity(path) for path in (trial.routes_file, trial.rules_file) if path)
    return _table(trial.changed({"repetition": 0, "switch": "reference"}), topology, files)


@lru_cache(maxsize=8)
def _table(trial: Trial, topology: Topology, _files: tuple[tuple[int, int], ...]) -> FunctionTable:
    """Make the table once for equal trials and files: a million routes take seconds."""
    version = trial.ip_version
    ports = []
    for node in topology.nodes:
        for port in node.ports if node.name != MONITOR else ():
            host = port.ip.partition("/")[0]
            if version == 6:
                host = host_ip6(node.pair, port.index & 1)
            ports.append(router_port(port.index, host, port.mac, version))
    sizes = trial.frame_sizes
    table = FunctionTable(
        trial.function.names,
        version,
        tuple(ports),
        frame_bytes=sizes.largest,
        smallest_frame_bytes=sizes.smallest,
    )
    base = FUNCTIONS[trial.function.base]
    for function in (base, *(FUNCTIONS[name] for name in trial.function.added)):
        table = function.fill(table, trial)
    return table


def sample_table(trial: Trial) -> FunctionTable:
    """Return a table with the parameters of a trial, by which a switch can refuse it before it
    runs: one pair of ports, no routes, and a part of the rules and tunnels that a generator makes.
    Rules of a file are there in full."""
    function = trial.function
    enough = max(RULES_IN_SAMPLE, 2 * trial.masks)
    small = {
        "rules": min(trial.rules, enough), "tunnels": min(trial.tunnels, TUNNELS_IN_SAMPLE),
        "repetition": 0, "switch": "reference",
    }  # fmt: skip
    return _sample(trial.changed(small), file_identity(trial.rules_file)
                   if trial.rules_file and "acl" in function.added else None)  # fmt: skip


@lru_cache(maxsize=32)
def _sample(trial: Trial, _file: tuple[int, int] | None) -> FunctionTable:
    version, sizes = trial.ip_version, trial.frame_sizes
    hosts = [f"10.64.0.{k + 1}" if version == 4 else host_ip6(0, k) for k in range(2)]
    ports = tuple(router_port(k, hosts[k], f"02:74:00:00:00:0{k}", version) for k in range(2))
    table = FunctionTable(
        trial.function.names, version, ports,
        frame_bytes=sizes.largest, smallest_frame_bytes=sizes.smallest,
    )  # fmt: skip
    for name in trial.function.added:
        table = FUNCTIONS[name].fill(table, trial)
    return table


def host_ip6(pair: int, end: int) -> str:
    """Return the IPv6 address of a tester, the same as in `engine/arguments.py`."""
    return str(ipaddress.ip_address(f"2001:2:0:{pair:x}::{1 + end:x}"))


def forwarded(table: FunctionTable, passing: Passing) -> Passing | None:
    """Return what becomes of a frame by the neutral table; None: the switch must drop it."""
    for function in functions_of(FunctionList.of("+".join(table.functions))):
        further = function.apply(table, passing)
        if further is None:
            return None
        passing = further
    return passing


def cases(table: FunctionTable) -> Iterator[Case]:
    """Yield the frames of the proof of all functions of a table."""
    for name in table.functions:
        yield from FUNCTIONS[name].cases(table)


@cache
def unread_keys(functions: FunctionList) -> dict[str, list[str]]:
    """Return the campaign keys that none of these functions reads, with the functions that do."""
    owners: dict[str, list[str]] = {}
    for name in function_names():
        for key in FUNCTIONS[name].keys:
            owners.setdefault(key, []).append(name)
    return {key: names for key, names in owners.items() if not set(names) & set(functions.names)}
