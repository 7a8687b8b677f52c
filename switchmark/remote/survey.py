"""Looks at what a testbed file names: hosts, their interfaces, their clocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from switchmark.errors import SwitchmarkError
from switchmark.host.interface_check import check_facing
from switchmark.host.local import LocalHost
from switchmark.remote.connection import Connection
from switchmark.remote.contact import ClockReading
from switchmark.testbed.testbed import SshTarget, Testbed


@dataclass(frozen=True, slots=True)
class HostSeen:
    """A host of a testbed. With a problem it cannot take part in trials as it is."""

    name: str
    address: str  # empty: this machine
    interface: str  # that faces the other host; empty: no cable of it is used
    reached: bool
    problem: str = ""  # with the remedy
    hostname: str = ""
    kernel: str = ""
    cores: int | None = None
    clock: ClockReading | None = None  # against this machine's; None: it is this machine


def survey(testbed: Testbed) -> Iterator[HostSeen]:
    """Look at this machine's end of the cable, and reach every other host, one after the other.
    Whatever the agents make there is undone again."""
    try:
        check_facing(LocalHost(), testbed.cable.near, 0)
        problem = ""
    except SwitchmarkError as error:
        problem = str(error)
    yield HostSeen(testbed.near, "", testbed.cable.near, reached=True, problem=problem)
    yield _reach(testbed.far, testbed.cable.far)
    for target in testbed.others:
        yield _reach(target, "")


def _reach(target: SshTarget, interface: str) -> HostSeen:
    seen = HostSeen(target.name, target.address, interface, reached=False)
    connection = Connection(target)
    try:
        hello = connection.open()
        seen = replace(
            seen,
            reached=True,
            hostname=hello.hostname,
            kernel=hello.facts.kernel,
            cores=len(hello.facts.usable_cpus),
        )
        seen = replace(seen, clock=connection.read_clock())
        if interface:
            connection.ask("facing", 5.0, device=interface, mtu_bytes=0)
    except SwitchmarkError as error:
        return replace(seen, problem=str(error))
    finally:
        connection.close()
    return seen
