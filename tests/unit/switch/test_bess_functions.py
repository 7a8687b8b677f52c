"""The modules of BESS for network functions."""

from __future__ import annotations

from switchmark.function.support.table import FunctionTable, RouterPort, Rule
from switchmark.switch.support import bess_functions

PORTS = tuple(
    RouterPort(
        k, f"02:72:00:00:00:0{k}", f"198.19.{k}.1/24", f"10.64.0.{k}", f"02:74:00:00:00:0{k}"
    )
    for k in range(2)
)


def test_first_tuples_are_written_by_one_command() -> None:
    """Further tuples are added one by one, and each has its place in the order."""
    count = bess_functions.TUPLES_A_COMMAND + 2
    rules = tuple(
        Rule(False, f"198.18.{k >> 8 & 255}.{k & 255}/32", "0.0.0.0/0", destination_ports=(p, p))
        for p in (1, 2) for k in range(1 << 16)
    )[:count]  # fmt: skip
    table = FunctionTable(("forward", "acl"), 4, PORTS[:1], rules=rules)
    plan = bess_functions.plan_of(table, {"acl_lookup": bess_functions.TUPLE_SPACE})
    first, *others = [command for command in plan.commands if command[0] == "acl-0-17"]
    assert first[1:3] == ["set_runtime_config", "WildcardMatchConfig"]
    assert len(first[3]["rules"]) == bess_functions.TUPLES_A_COMMAND
    assert [command[1] for command in others] == ["add", "add", "set_default_gate"]
    priorities = [rule["priority"] for rule in first[3]["rules"]] + [
        command[3]["priority"] for command in others[:2]
    ]
    assert priorities == list(range(count, 0, -1))
    assert plan.announced["tuple-space entries"] == count
