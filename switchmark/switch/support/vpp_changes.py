"""Changes to a running VPP: unused interfaces, and table entries.

Both are files of CLI commands. The answer to `exec` may come before VPP has executed the file, so
the result is also checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from switchmark.errors import TrialFailed
from switchmark.function.support.table import FunctionTable
from switchmark.model.changes import Change, TableChange
from switchmark.model.ports import ConnectMode
from switchmark.switch.support.changes import PORTS, RULES, rule_mac, spare_route, spare_rule
from switchmark.switch.support.vpp_commands import BRIDGE_DOMAIN, WITNESS
from switchmark.switch.support.vpp_functions import list_command


def changes(
    mode: ConnectMode,
    folder: Path,
    cli: Callable[..., str],
    until: Callable[[Callable[[], bool], str], None],
) -> Sequence[Change]:
    """Return changes that add and remove interfaces and, except for cross-connect, which has no
    table, table entries."""

    def change(name: str, lines: Sequence[str], done: Callable[[], bool]) -> Change:
        script = folder / name.replace(" ", "-")
        script.write_text("\n".join(lines) + "\n")

        def apply() -> None:
            answer = " ".join(cli("exec", str(script)).split())
            if "error" in answer or "unknown" in answer:
                raise TrialFailed(f"vpp: {name}: {answer}")
            until(done, name)

        return Change(name, apply)

    def links() -> int:
        return spare_links(cli("show", "interface"))

    def entries() -> int:
        return table_size(cli("show", "l2fib"))

    bridged = mode is not ConnectMode.CROSS_CONNECT
    add, remove = spare_ports(bridged=bridged)
    interfaces = [
        change(f"{PORTS} ports added", add, lambda: links() == PORTS),
        change(f"{PORTS} ports removed", remove, lambda: links() == 0),
    ]
    if not bridged:
        return interfaces
    learn, forget = spare_entries()
    return [
        *interfaces,
        change(f"{RULES} table entries added", learn, lambda: entries() >= RULES),
        change(f"{RULES} table entries removed", forget, lambda: entries() < RULES),
    ]


def table_changes(
    table: FunctionTable,
    names: Mapping[int, str],
    folder: Path,
    cli: Callable[..., str],
    until: Callable[[Callable[[], bool], str], None],
    counts: Mapping[str, Callable[[], int]],
) -> list[TableChange]:
    """Return the changes of routes, one command each, and of the access control list, which VPP
    replaces as a whole; `counts` count the entries of both in VPP. A call waits until VPP has the
    entries."""
    script = folder / "changes"

    def execute(lines: Sequence[str], count: Callable[[], int], expected: int) -> None:
        script.write_text("\n".join(lines) + "\n")
        if answer := cli("exec", str(script)).strip():
            raise TrialFailed(f"vpp: {' '.join(answer.split())[:300]}")
        until(lambda: count() == expected, f"{expected} entries")

    def routes(verb: str, first: int, end: int) -> None:
        hop, count = table.next_hops[0], counts["routes"]
        way = f"via {hop.address} {names[hop.port]}"
        lines = [
            f"ip route {verb} {spare_route(table, number)}/{table.host_bits} {way}"
            for number in range(first, end)
        ]
        execute(lines, count, count() + (len(lines) if verb == "add" else -len(lines)))

    def rules(spare: Sequence[int]) -> None:
        entries = [spare_rule(table, number) for number in spare]
        changed = replace(table, rules=(*entries, *table.rules))
        expected = len(changed.rules) + int(table.default_permit)
        execute([list_command(changed, replaced=0)], counts["rules"], expected)

    def remove_rules(first: int, end: int) -> None:
        assert first < end
        rules(range(end, most[0]))

    def add_rules(first: int, end: int) -> None:
        assert first < end
        most[0] = end
        rules(range(end))

    most = [0]  # number of spare rules that were added
    changes = []
    if table.is_routed:
        changes.append(TableChange(
            "routes", partial(routes, "add"), partial(routes, "del"), counts["routes"]
        ))  # fmt: skip
    if table.rules:
        changes.append(TableChange("rules", add_rules, remove_rules, counts["rules"]))
    return changes


def spare_ports(*, bridged: bool) -> tuple[list[str], list[str]]:
    """Return commands that add loopback interfaces, also to the bridge if there is one, and
    commands that remove them."""
    names = [f"loop{number}" for number in range(PORTS)]
    add = [f"create loopback interface instance {number}" for number in range(PORTS)]
    if bridged:
        add += [f"set interface l2 bridge {name} {BRIDGE_DOMAIN}" for name in names]
    add += [f"set interface state {name} up" for name in names]
    return add, [f"delete loopback interface intfc {name}" for name in names]


def spare_entries() -> tuple[list[str], list[str]]:
    """Return commands that add table entries for unused addresses, and commands that remove
    them."""
    entries = [f"{rule_mac(number)} {BRIDGE_DOMAIN}" for number in range(RULES)]
    add = [f"l2fib add {entry} {WITNESS} static" for entry in entries]
    return add, [f"l2fib del {entry}" for entry in entries]


def table_size(text: str) -> int:
    """Return the number of entries in `show l2fib`."""
    found = re.search(r"L2FIB total/learned entries:\s*(\d+)", text)
    return int(found[1]) if found else 0


def spare_links(text: str) -> int:
    """Return the number of loopback interfaces in `show interface`."""
    return len(re.findall(r"^loop\d+\s", text, re.MULTILINE))
