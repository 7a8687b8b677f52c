"""Checks the command lines of planned flows by the engine itself.

Whatever the engine would refuse when a flow starts is so refused when the configuration is set,
with the path of the part that the engine's option comes from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from switchmark.engine.binary import find_engine
from switchmark.errors import SwitchmarkError
from switchmark.host.host import Host
from switchmark.otg.plan import FlowPlan
from switchmark.otg.refusal import Refused

TIMEOUT_S = 60.0
_OPTION = re.compile(r"(?:port \d+ \(.*?\): )?(?:--)?([a-z][a-z-]*)(?: ([^ :]\S*?))?: ")


def check_plans(host: Host, plans: Sequence[FlowPlan], commands: Sequence[Sequence[str]]) -> None:
    """Raise `Refused` if the engine does not accept one of the commands, each a role and its
    options. `plans` has the flow of each command."""
    if not commands:
        return
    lines = "".join("\t".join(one) + "\n" for one in commands)
    checked = host.run([str(find_engine()), "check"], input_text=lines, timeout_s=TIMEOUT_S)
    answers = checked.stdout.splitlines()
    if len(answers) != len(commands):
        raise SwitchmarkError(
            f"the engine checked {len(answers)} of {len(commands)} command lines: {checked.stderr}"
        )
    errors = [
        refusal_of(plan, command[0], message)
        for plan, command, message in zip(plans, commands, answers, strict=True)
        if message
    ]
    if errors:
        raise Refused(*dict.fromkeys(errors))


def refusal_of(plan: FlowPlan, role: str, message: str) -> str:
    """The engine's message with the path of the part that it is about."""
    found = _OPTION.match(message)
    option = found[1] if found else ""
    key = f"receiver {option}" if role == "receiver" else option
    field = f"{option} {found[2]}" if found else ""
    path = plan.paths.get(field) or plan.paths.get(key) or plan.paths.get(option)
    if found is None or path is None:
        return f"{plan.path}: {message}"
    return f"{path}: {message[found.end() :]}"
