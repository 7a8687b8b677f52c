"""The private resources of a switch on the machine: a network namespace, a folder, processes.

Each has an entry in the session's ledger before it is made. They are undone in reverse order, and
then their entries are removed. The private namespace isolates a switch from the host's firewall
hooks, from a user's switch, and from another instance of the same switch (for example, every
userspace Open vSwitch makes a device of the same name).
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from switchmark.errors import TrialFailed, UnavailableError
from switchmark.host.host import Session, Spawned
from switchmark.host.kernel import device_counters, namespaces, procfs
from switchmark.host.kernel.namespaces import NETNS_DIR
from switchmark.host.process_output import parse_counter, parsing
from switchmark.host.undo.entries import Directory, LentDevice, NetworkNamespace, UndoEntry
from switchmark.model.ports import PortCounters
from switchmark.model.rights import Rights

# The form of a line of `ss -0 -m` is `p_raw 0 0 *:DEVICE * skmem:(...,dDROPS)`.
PACKET_SOCKET = re.compile(
    r"^p_\w+\s+\d+\s+\d+\s+\S+:(?P<device>\S+)\s.*skmem:\(.*,d(?P<drops>\d+)\)", re.MULTILINE
)
POLL_S = 0.002
SOCKET_PATH_MAX = 107  # sun_path has 108 bytes, with the final NUL

NO_FIREWALL = ("bridge-nf-call-iptables", "bridge-nf-call-ip6tables", "bridge-nf-call-arptables")


def check_socket_path(path: Path | str) -> str:
    """Return the path as text. Raises `UnavailableError` if it is too long for the kernel."""
    text = str(path)
    length = len(os.fsencode(text))
    if length > SOCKET_PATH_MAX:
        raise UnavailableError(
            f"socket {text}: {length} bytes, a Unix socket path has at most {SOCKET_PATH_MAX}",
            remedy="use a shorter run directory",
        )
    return text


def parse_socket_drops(text: str) -> dict[str, int]:
    """Return the drops of all sockets of each device, from the output of `ss`."""
    drops: dict[str, int] = {}
    for found in PACKET_SOCKET.finditer(text):
        drops[found["device"]] = drops.get(found["device"], 0) + int(found["drops"])
    return drops


class Namespace:
    """The private network namespace of a session's switch, and the port devices that are
    temporarily in it."""

    def __init__(self, session: Session, name: str | None = None) -> None:
        self.session = session
        self.name = name or f"sm{session.id}sw"
        self._adopted: list[str] = []
        self._made_here: list[str] = []
        self._lent: list[int] = []  # entries of the ledger

    def make(self, *, firewall: bool = False) -> None:
        """Create the namespace without IPv6 and, unless `firewall` is set, without netfilter hooks
        on bridged frames."""
        namespaces.create_namespace(self.name)
        if not firewall:
            namespaces.inside(self.name, _disable_firewall)

    def hand_back(self, *, made_here: bool = True) -> None:
        """Move the devices that still exist back to their namespace; with `made_here`, also those
        that were made in this namespace. Idempotent."""
        while self._lent:
            self.session.ledger.undo(self._lent.pop())
        if made_here:
            self._adopted += self._made_here
            self._made_here.clear()
        if self._adopted:
            home = os.getpid()  # the devices came from the namespace of the bench
            lines = [f"link set dev {device} netns {home}" for device in self._adopted]
            self.batch("ip", lines, force=True)
            self._adopted.clear()

    def adopt(self, devices: Sequence[str], lent: Collection[str] = ()) -> None:
        """Move devices from the root namespace into this namespace, except those that were made
        here, and set all up. Devices in `lent` belong to the host, and are also moved back if the
        bench is killed."""
        for device in lent:
            entry = self.session.ledger.record(LentDevice.of(device, self.name))
            self._lent.append(entry)
        here = device_counters.all_device_counters(self.name)
        self._made_here += [device for device in devices if device in here]
        devices = [device for device in devices if device not in here]
        if not devices:
            return
        self._adopted += devices  # `hand_back` ignores devices that could not be moved
        lines = [f"link set dev {device} netns {self.name}" for device in devices]
        moved = self.session.host.run(
            ["ip", "-batch", "-"], input_text="\n".join(lines) + "\n", check=False
        )
        if moved.exit_code != 0:
            here = device_counters.all_device_counters(self.name)
            device = next((name for name in devices if name not in here), "?")
            self._adopted = [name for name in devices if name in here]
            reason = moved.stderr.strip().splitlines()[:1] or ["ip gave no reason"]
            raise UnavailableError(
                f"port device {device}: cannot be moved to the switch ({reason[0]})",
                remedy="make the node that owns it first, and give each device to one switch only",
            )
        self.batch("ip", [f"link set dev {device} up" for device in devices])
        if lent:  # frames are for the applications' addresses, not for those of the interfaces
            self.batch("ip", [f"link set dev {device} promisc on" for device in lent])

    def batch(
        self, tool: str, lines: Sequence[str], *, force: bool = False, options: Sequence[str] = ()
    ) -> None:
        """Run lines of `ip`, `bridge` or `tc` inside, in one process, with further options."""
        args = [tool, *options, "-n", self.name, *(["-force"] if force else []), "-batch", "-"]
        self.session.host.run(args, input_text="\n".join(lines) + "\n", check=not force)

    def query(self, tool: str, *args: str) -> list[dict[str, Any]]:
        """Return the JSON answer of `ip`, `bridge` or `tc`; an empty list after an error."""
        answer = self.session.host.run([tool, "-n", self.name, "-j", *args], check=False)
        if answer.exit_code != 0 or not answer.stdout.strip():
            return []
        with parsing(f"{tool} -j"):
            return [dict(entry) for entry in json.loads(answer.stdout) if entry]

    def link_counters(self) -> dict[str, PortCounters]:
        """Return the kernel's counters of every device in the namespace, by name, from the device's
        point of view."""
        return {
            name: PortCounters(fields[1], fields[9], fields[3], fields[11])
            for name, fields in device_counters.all_device_counters(self.name).items()
        }

    def queue_drops(self, device: str) -> int:
        """Return the frames that a device's queueing discipline has dropped, which no other counter
        includes."""
        roots = self.query("tc", "-s", "qdisc", "show", "dev", device)
        with parsing("tc -j"):
            return sum(parse_counter(one.get("drops", 0)) for one in roots if one.get("root"))

    def packet_socket_drops(self) -> dict[str, int]:
        """Return the frames that found full AF_PACKET sockets on each device, which no counter of
        the device includes; empty if the kernel does not report them (CONFIG_PACKET_DIAG)."""
        sockets = ["ss", "-N", self.name, "-0", "-n", "-m"]
        return parse_socket_drops(self.session.host.run(sockets, check=False).stdout)

    def sysctl(self, key: str) -> str:
        """Return the value of a kernel setting in the namespace; `absent` if it does not exist."""
        answer = self.session.host.run(
            ["ip", "netns", "exec", self.name, "sysctl", "-n", "-e", key], check=False
        )
        return answer.stdout.strip() or "absent"


def prepare_namespace(session: Session) -> tuple[str, int]:
    """Make the namespace for the switch that starts next, so that its devices can be made there;
    return its name and its number in the ledger."""
    namespace = Namespace(session)
    with session.ledger.making(NetworkNamespace(namespace.name)) as (entry,):
        namespace.make()
    return namespace.name, entry


class Resources:
    """The objects that a started switch has made; `undo` undoes them in reverse order."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.for_good = False  # True: `undo` is final, and devices may end with their namespace
        self._folders: list[str] = []
        self._undo = ExitStack()

    def namespace(self, *, firewall: bool = False, suffix: str = "") -> Namespace:
        """Make the switch's namespace, or use the prepared namespace. A suffix names another
        namespace of the switch. With `firewall`, bridged frames pass the firewall as usual."""
        namespace = Namespace(self.session, f"sm{self.session.id}sw{suffix}")
        self.note(NetworkNamespace(namespace.name))
        self._undo.callback(lambda: namespace.hand_back(made_here=not self.for_good))
        if not (NETNS_DIR / namespace.name).exists():
            namespace.make(firewall=firewall)
        return namespace

    def note(self, undo_entry: UndoEntry) -> int:
        """Enter in the ledger an object that the bench or a program will make; return its
        number."""
        entry = self.session.ledger.record(undo_entry)
        self._undo.callback(self.session.ledger.undo, entry)
        return entry

    def at_end(self, action: Callable[[], object]) -> None:
        """Let `undo` call this action, before it undoes earlier objects."""
        self._undo.callback(action)

    def folder(self, name: str) -> Path:
        """Make an empty folder under the session's run directory."""
        path = self.session.run_dir / name
        self.note(Directory(str(path)))
        path.mkdir(mode=0o700, parents=True)
        self._folders.append(str(path))
        return path

    def in_folders(self, rights: Rights | None) -> Rights | None:
        """Return these rights; if they restrict writing, with write access to the folders that were
        made so far."""
        if rights is None or rights.writes is None:
            return rights
        return replace(rights, writes=(*rights.writes, *self._folders))

    def spawn(
        self,
        args: Sequence[str],
        *,
        cores: Sequence[int] | None = None,
        env: Mapping[str, str] | None = None,
        netns: str | None = None,
        rights: Rights | None = None,
    ) -> Spawned:
        """Start a process that `undo` ends by its id, with the rest of its process group. On the
        host it has `rights` with those of `in_folders`; in a container those of them that exist.

        The host marks every process with the session, so that it can be found if the bench is
        killed at this moment."""
        rights = self.in_folders(rights)
        process = self.session.host.spawn(args, cores=cores, env=env, netns=netns, rights=rights)
        self._undo.callback(self._end_group, process.pid)
        self._undo.callback(process.terminate)
        return process

    def _end_group(self, leader: int) -> None:
        """End the children that outlive their parent, which led its own process group."""
        left = []
        for identity in procfs.session_processes(self.session.id):
            with suppress(ProcessLookupError):
                if os.getpgid(identity.pid) == leader:
                    left.append(identity)
        if left:
            procfs.end_processes(left)

    def undo(self) -> None:
        """Undo everything. Idempotent; entries that fail stay in the ledger."""
        self._undo.close()


class WithResources:
    """A switch that is a private instance, whose objects are undone when it stops."""

    name: str
    _resources: Resources | None = None

    @property
    def resources(self) -> Resources:
        """The objects that the running instance has made."""
        assert self._resources is not None
        return self._resources

    def alive(self) -> str | None:
        """See `Switch`."""
        raise NotImplementedError

    def stop(self) -> None:
        """End its processes, move its devices back, and undo all other objects."""
        if self._resources is not None:
            self._resources.undo()
            self._resources = None

    def discard(self) -> None:
        """Stop for good. Port devices that were made in its namespace end with it, because to move
        a device back takes the kernel some 30 ms."""
        if self._resources is not None:
            self._resources.for_good = True
        self.stop()

    def wait_for_peers(
        self,
        waiting: Callable[[], Sequence[str]],
        timeout_s: float,
        pause: Callable[[], object] = lambda: time.sleep(POLL_S),
    ) -> None:
        """Poll until no port is `waiting` for its peer. Raises `TrialFailed` after the timeout,
        with the names of the ports, or if the switch dies."""
        deadline = time.monotonic() + timeout_s
        while True:
            if (problem := self.alive()) is not None:
                raise TrialFailed(f"{self.name}: {problem}")
            ports = waiting()
            if not ports:
                return
            if time.monotonic() > deadline:
                raise TrialFailed(
                    f"{self.name}: no peer on {', '.join(ports)} after {timeout_s:g} s",
                    remedy="is the application behind it running?",
                )
            pause()


def _disable_firewall() -> None:
    """Disable netfilter for bridged frames, if br_netfilter is loaded."""
    for key in NO_FIREWALL:
        with suppress(FileNotFoundError):
            Path("/proc/sys/net/bridge", key).write_text("0\n")
