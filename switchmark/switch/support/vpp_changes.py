"""Changes to a running VPP: interfaces with nobody behind them, and table entries.

Both are files of CLI commands. The answer to `exec` may come before VPP is through with the file,
so the result is checked, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from switchmark.errors import TrialFailed
from switchmark.model.changes import Change
from switchmark.model.ports import ConnectMode
from switchmark.switch.support.changes import PORTS, RULES, rule_mac
from switchmark.switch.support.vpp_commands import BRIDGE_DOMAIN, WITNESS


def changes(
    mode: ConnectMode,
    folder: Path,
    cli: Callable[..., str],
    until: Callable[[Callable[[], bool], str], None],
) -> Sequence[Change]:
    """Adding interfaces and (but for cross-connect, which has no table) table entries; removing
    both."""

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
    made = [
        change(f"{PORTS} ports added", add, lambda: links() == PORTS),
        change(f"{PORTS} ports removed", remove, lambda: links() == 0),
    ]
    if not bridged:
        return made
    learn, forget = spare_entries()
    return [
        *made,
        change(f"{RULES} table entries added", learn, lambda: entries() >= RULES),
        change(f"{RULES} table entries removed", forget, lambda: entries() < RULES),
    ]


def spare_ports(*, bridged: bool) -> tuple[list[str], list[str]]:
    """Commands that add loopback interfaces, to the bridge where there is one, and commands that
    remove them."""
    names = [f"loop{number}" for number in range(PORTS)]
    add = [f"create loopback interface instance {number}" for number in range(PORTS)]
    if bridged:
        add += [f"set interface l2 bridge {name} {BRIDGE_DOMAIN}" for name in names]
    add += [f"set interface state {name} up" for name in names]
    return add, [f"delete loopback interface intfc {name}" for name in names]


def spare_entries() -> tuple[list[str], list[str]]:
    """Commands that add table entries for addresses nobody has, and commands that remove them."""
    entries = [f"{rule_mac(number)} {BRIDGE_DOMAIN}" for number in range(RULES)]
    add = [f"l2fib add {entry} {WITNESS} static" for entry in entries]
    return add, [f"l2fib del {entry}" for entry in entries]


def table_size(text: str) -> int:
    """The number of entries in `show l2fib`."""
    found = re.search(r"L2FIB total/learned entries:\s*(\d+)", text)
    return int(found[1]) if found else 0


def spare_links(text: str) -> int:
    """The number of loopback interfaces in `show interface`."""
    return len(re.findall(r"^loop\d+\s", text, re.MULTILINE))
