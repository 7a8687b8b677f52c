"""A switch inside a container: a host whose spawned programs run in containers of their own.

A switch under test starts its programs through its session's host. Given this one in its place, it
starts each in an LXC or Docker container, and otherwise works as it does on the host: its tools
reach it by the sockets in the session's folder, which the container sees under the same path, as it
sees the host's /usr, read-only. `netns` sets nothing apart but the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from switchmark.environment.registry import ENVIRONMENTS, traits_of
from switchmark.environment.support.base import PLACES_MEMORY, Apart, HoldsSwitches, needed_under
from switchmark.errors import Refusal
from switchmark.host.containers.in_container import Inside, ShownPath
from switchmark.host.host import Session, Spawned
from switchmark.host.undo.entries import UndoEntry
from switchmark.model.rights import Rights

HOST = "host"

# What a switch in a container can have of root's rights: devices and sockets, memory locked. It has
# PLACES_MEMORY, too, where a filter asks for that.
CAPABILITIES = ("net_admin", "net_raw", "ipc_lock")
TUN = Path("/dev/net/tun")  # of an internal port in the container's own network


class ContainedHost:
    """The host, except that spawned programs run in containers. `close` removes these."""

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
    ) -> Spawned:
        """Start it in a container of its own, which sees `netns`, or a network without devices.

        Raises SwitchmarkError, or TrialFailed with the last words of what did not start."""
        name = f"sm{self._session.id}-sw{self._count}"
        self._count += 1
        shown = [ShownPath(self._session.run_dir, writable=True)]
        devices = [TUN] if TUN.exists() else []
        inside = Inside(name, args, self.capabilities_of(rights), shown, cores or (), env, devices)
        environment = ENVIRONMENTS[self.kind]()
        assert isinstance(environment, HoldsSwitches), "no switch runs in others"
        return environment.spawn_apart(self._session, Apart(inside, netns, log, rights, self._note))

    def capabilities_of(self, rights: Rights | None) -> tuple[str, ...]:
        """What a program has of its rights there: all that there can be where none are told."""
        own = (one for one in CAPABILITIES if rights is None or one in rights.capabilities)
        return needed_under(traits_of(self.kind), (*own, PLACES_MEMORY))

    def close(self) -> None:
        """Remove the containers; what runs in them has ended, or is ended. Idempotent."""
        while self._entries:
            self._session.ledger.undo(self._entries.pop())

    def _note(self, made: UndoEntry) -> None:
        self._entries.append(self._session.ledger.record(made))


def contained(session: Session, kind: str) -> Session:
    """The session with which a switch in a container is started."""
    return session if kind == HOST else replace(session, host=ContainedHost(session, kind))


def close(session: Session) -> None:
    """Remove the containers of a session made by `contained`. Idempotent."""
    if isinstance(session.host, ContainedHost):
        session.host.close()


def has_own_cgroup(kind: str) -> bool:
    """Whether such a container is a control group of its own."""
    return kind != HOST and traits_of(kind).own_cgroup


def problem(kind: str) -> Refusal | None:
    """What this machine lacks for such containers; None when nothing."""
    if kind == HOST:
        return None
    if (refusal := ENVIRONMENTS[kind]().availability().refusal) is not None:
        return refusal.about(f"switch_environment {kind} cannot run here: ")
    if has_own_cgroup(kind) and not Path("/usr/bin/taskset").exists():
        return Refusal(f"switch_environment {kind}: no `taskset` program", "apt install util-linux")
    return None
