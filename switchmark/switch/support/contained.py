"""A switch inside a container: a host object that spawns each program in a separate container.

A switch under test starts its programs through its session's host. With this host, each program
runs in an LXC or Docker container, and the switch otherwise works as on the host. Its tools reach
it by the sockets in the session's folder, which has the same path in the container, as has the
host's /usr, read-only. `netns` isolates only the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from switchmark.environment.registry import ENVIRONMENTS, traits_of
from switchmark.environment.support.base import (
    PLACES_MEMORY,
    IsolatedProgram,
    SwitchEnvironment,
    needed_under,
)
from switchmark.errors import Refusal
from switchmark.host.containers.in_container import Inside, ShownPath
from switchmark.host.host import Session, Spawned
from switchmark.host.undo.entries import UndoEntry
from switchmark.model.rights import Rights

HOST = "host"

# The rights of root that a switch in a container can have: for devices, sockets and locked memory.
# It also has PLACES_MEMORY if a filter requires that.
CAPABILITIES = ("net_admin", "net_raw", "ipc_lock")
TUN = Path("/dev/net/tun")  # for an internal port in the container's network


class ContainedHost:
    """The host, except that spawned programs run in containers, which `close` removes."""

    def __init__(self, session: Session, kind: str) -> None:
        self.name = session.host.name
        self.run = session.host.run  # a switch's tools do not run in its container
        self.kind = kind
        self._session = session
        self._count = 0
        self._entries: list[int] = []

    def spawn(
        self,
        args: Sequence[str],
        *,
        cores: Sequence[int] | None = None,
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
        netns: str | None = None,
        rights: Rights | None = None,
        container: str = "",
    ) -> Spawned:
        """Start a program in a separate container, in `netns` or in a network without devices.

        Raises SwitchmarkError, or TrialFailed with the end of its output."""
        assert not container, "programs of switches make no containers"
        name = f"sm{self._session.id}-sw{self._count}"
        self._count += 1
        shown = [ShownPath(self._session.run_dir, writable=True)]
        devices = [TUN] if TUN.exists() else []
        inside = Inside(name, args, self.capabilities_of(rights), shown, cores or (), env, devices)
        environment = ENVIRONMENTS[self.kind]()
        assert isinstance(environment, SwitchEnvironment), "a rule of campaigns refuses others"
        return environment.spawn_isolated(
            self._session, IsolatedProgram(inside, netns, log, rights, self._note)
        )

    def capabilities_of(self, rights: Rights | None) -> tuple[str, ...]:
        """Return the capabilities of a program in the container: all possible ones if `rights` is
        None."""
        granted = (one for one in CAPABILITIES if rights is None or one in rights.capabilities)
        return needed_under(traits_of(self.kind), (*granted, PLACES_MEMORY))

    def close(self) -> None:
        """Remove the containers, and end the programs in them. Idempotent."""
        while self._entries:
            self._session.ledger.undo(self._entries.pop())

    def _note(self, entry: UndoEntry) -> None:
        self._entries.append(self._session.ledger.record(entry))


def contained(session: Session, kind: str) -> Session:
    """Return the session for the start of a switch in a container."""
    return session if kind == HOST else replace(session, host=ContainedHost(session, kind))


def close(session: Session) -> None:
    """Remove the containers of a session made by `contained`. Idempotent."""
    if isinstance(session.host, ContainedHost):
        session.host.close()


def has_own_cgroup(kind: str) -> bool:
    """Return True if such a container has its own control group."""
    return kind != HOST and traits_of(kind).own_cgroup


def problem(kind: str) -> Refusal | None:
    """Return the reason why this machine cannot run such containers; None if it can."""
    if kind == HOST:
        return None
    if (refusal := ENVIRONMENTS[kind]().availability().refusal) is not None:
        return refusal.about(f"switch_environment {kind} cannot run here: ")
    if has_own_cgroup(kind) and not Path("/usr/bin/taskset").exists():
        return Refusal(f"switch_environment {kind}: no `taskset` program", "apt install util-linux")
    return None
