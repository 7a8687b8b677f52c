"""Changes to a running switch, to measure how long it stops forwarding meanwhile.

A switch that supports changes has them in pairs, in which the second undoes the first. A switch
that does not has no `changes`, and its capabilities name no change.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from switchmark.errors import TrialFailed
from switchmark.function.support.table import UDP, FunctionTable, Rule
from switchmark.model.changes import UNKNOWN_WAY, Change, TableChange
from switchmark.switch.support.base import Switch

# Spare entries of tables, by IP version: destinations of routes to which no frame goes, because
# they are only sources of the load, and sources of rules from which no frame comes.
SPARE_ROUTES = {4: "198.18.0.0", 6: "2001:2:0:7000::"}
SPARE_SOURCES = {4: "100.64.0.0", 6: "2001:db8:1::"}
SPARE_DESTINATIONS = {4: "203.0.113.9", 6: "2001:db8:2::9"}
SPARE_PORT = 9  # discard
PORTS = 4  # added and removed together
RULES = 1000  # table entries or flow rules that match no frame of the trial


@runtime_checkable
class Reconfigurable(Protocol):
    """A switch that can be changed while it runs, besides being a `Switch`."""

    def changes(self) -> Sequence[Change]:
        """Return the changes in order; the last restores the first state."""
        ...


@runtime_checkable
class ChangesTables(Protocol):
    """A switch whose tables of functions can be changed while it runs
    (`Capabilities.changes_tables`)."""

    def table_changes(self) -> Sequence[TableChange]:
        """Return the changes of each table of its functions, the routes first."""
        ...


def table_changes_of(switch: Switch) -> Sequence[TableChange]:
    """Return the changes of the switch's tables. Raises `TrialFailed` without such changes."""
    if not isinstance(switch, ChangesTables):
        raise TrialFailed(f"{switch.name}: {UNKNOWN_WAY}")
    return switch.table_changes()


def spare_route(table: FunctionTable, number: int) -> str:
    """Return the address to which the spare route of this number leads; it has full length."""
    return str(ipaddress.ip_address(SPARE_ROUTES[table.ip_version]) + number)


def spare_rule(table: FunctionTable, number: int) -> Rule:
    """Return the spare rule of this number: a denial in the form of those of the list."""
    version = table.ip_version
    source = ipaddress.ip_address(SPARE_SOURCES[version]) + number
    return Rule(
        False, f"{source}/{table.host_bits}",
        f"{SPARE_DESTINATIONS[version]}/{table.host_bits}", UDP,
        destination_ports=(SPARE_PORT, SPARE_PORT),
    )  # fmt: skip


def changes_of(switch: Switch) -> Sequence[Change]:
    """Return the switch's changes. Raises `TrialFailed` without changes."""
    if not isinstance(switch, Reconfigurable):
        raise TrialFailed(f"{switch.name}: {switch.capabilities.cannot_reconfigure or UNKNOWN_WAY}")
    return switch.changes()


def rule_mac(number: int) -> str:
    """Return a locally administered address that no application has."""
    return f"0e:5a:00:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
