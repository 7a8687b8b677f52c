"""Starts a switch with chosen capabilities only and prints the result.

python -m tests.integration.switch_rights SWITCH own|veth|CABLE_DRIVER CAPABILITY ...
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from switchmark.errors import SwitchmarkError
from switchmark.host.host import Session
from switchmark.host.local import LocalHost
from switchmark.host.session import open_session
from switchmark.switch.registry import make_switch
from switchmark.switch.support.base import Switch
from switchmark.switch.support.options import configured
from tests.integration.switch_rig import VethEnd, VhostEnd, own_state_dir, port_ends, veth_ends
from tests.integration.switch_traffic import bring_up, natural_mode

OWN, VETH = "own", "veth"  # its preferred ports, veth; other values name a cable driver


@contextmanager
def ends_of(session: Session, switch: Switch, ports: str) -> Iterator[list[VethEnd | VhostEnd]]:
    """Make two ports, or two ends of cables."""
    if ports == OWN:
        with port_ends(session, switch, 2) as ends:
            yield list(ends)
    else:
        with veth_ends(session, 2) as devices:
            for end in devices:
                end.port = replace(end.port, cable=ports != VETH)
            yield list(devices)


def switch_of(name: str, ports: str) -> Switch:
    options = "" if ports in (OWN, VETH) else f"cable_driver:{ports}"
    return configured(make_switch(name), options)


def with_these(rights: Sequence[str]) -> None:
    """Give these capabilities to each program that would start with some."""
    spawn = LocalHost.spawn

    def chosen(self: LocalHost, args: Sequence[str], **options: Any) -> Any:
        if options.get("rights") and options["rights"].capabilities:
            options["rights"] = replace(options["rights"], capabilities=tuple(rights))
        return spawn(self, args, **options)

    LocalHost.spawn = chosen


def main(name: str, ports: str, *rights: str) -> None:
    """Print the output of the switch, or why it does not start."""
    with_these(rights)
    switch = switch_of(name, ports)
    with (
        own_state_dir(),
        open_session(measuring=False) as session,
        ends_of(session, switch, ports) as ends,
    ):
        try:
            bring_up(switch, session, ends, natural_mode(switch), max(os.sched_getaffinity(0)))
            print("up", getattr(switch, "output", str)())
        except SwitchmarkError as error:
            print("down", error)
        finally:
            switch.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
