"""The bench as a user starts it, and its state as seen from outside: its ledger, its processes and
its results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from switchmark.host.cores.cpu_time import process_cpu_s
from switchmark.host.kernel import procfs
from tests.integration.ordinary_user import OrdinaryUser, first_and_bench_of
from tests.integration.two_hosts import TwoHosts, enter
from tests.integration.waiting import frames_sent

ROOT = Path(__file__).parents[2]
SIZES = (64, 1500)  # a trial each
MACHINES = ("qemu",)  # environments whose trials are slow if they are emulated
MACHINES_PATIENCE = 3.0
CAMPAIGN = """
name: faults
switch: {switch}
environment: {environment}
scenario: {scenario}
packet_size: {sizes}
throughput: {{rate: 5k, duration: 0.4s}}
trim: {{warm_up: 0.05s, cool_down: 0.05s}}
interval: 0.1s
location: {location}
switch_environment: {place}
idle: {idle}
"""
# A bridge of the user, to which switch `existing` attaches two ends; decoys.py makes it.
USER_BRIDGE = "userbr0"
OF_USER_BRIDGE = f"""switch_options: {{attach: {USER_BRIDGE}}}
addresses: 198.18.7.201/24+198.18.7.202/24
"""
# Options of container networks; the seed of a case chooses one. Two hosts with an overlay have all
# parts of one host twice.
NETWORK_OPTIONS = {
    "cni": ("overlay: vxlan-1550", "conflist: bridge-masq", "conflist: ptp", "conflist: macvlan"),
    "docker-network": ("overlay: vxlan-1550", "driver: user-bridge", "driver: macvlan"),
}
BENCH_INSIDE = 2  # the process number of a bench below the first process
# Programs that make and hold containers; the rest of a session is engines and switches.
CONTAINER_PROGRAMS = (
    "lxc-execute", "lxc-start", "[lxc monitor]", "dockerd", "docker", "containerd",
    "containerd-shim-runc-v2", "runc",
)  # fmt: skip


@dataclass
class Places:
    """Folders of a bench, each on a separate file system that faults may fill."""

    state: Path
    results: Path
    cache: Path
    campaign: Path


@dataclass
class Job:
    """A running bench."""

    places: Places
    process: subprocess.Popen[bytes]
    errors: Path  # its standard error
    session: str = ""
    started: float = field(default_factory=time.monotonic)
    lines_before: int = 0  # lines of its ledger when the disturbed trial began
    stored_before: int = 0
    groups: list[Path] = field(default_factory=list)  # cgroups that a fault made for it
    hosts: TwoHosts | None = None  # the bench runs on the left host
    has_machines: bool = False
    user: OrdinaryUser | None = None  # the bench runs as this user, in private namespaces

    @classmethod
    def start(
        cls,
        places: Places,
        *args: str,
        more: Mapping[str, str] | None = None,
        hosts: TwoHosts | None = None,
        has_machines: bool = False,
        user: OrdinaryUser | None = None,
    ) -> Job:
        """Start `switchmark` with these arguments and additional environment variables."""
        errors = places.campaign.with_suffix(".stderr")
        variables = {
            "SWITCHMARK_STATE_DIR": str(places.state), "SWITCHMARK_CACHE_DIR": str(places.cache),
        } if user is None else user.environment()  # fmt: skip
        with errors.open("wb") as log:
            process = subprocess.Popen(
                [
                    *(enter(hosts.left.pid) if hosts else []),
                    *(user.prefix if user else ()),
                    *(sys.executable, "-m", "switchmark", *args),
                ],
                cwd=places.campaign.parent,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    **variables,
                    "RUST_BACKTRACE": "0",
                    **({"SWITCHMARK_TESTBED": str(hosts.testbed)} if hosts else {}),
                    **(more or {}),
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        return cls(places, process, errors, hosts=hosts, has_machines=has_machines, user=user)

    @property
    def first(self) -> int | None:
        """The first process of its namespaces, as the host numbers it; None without namespaces."""
        found = first_and_bench_of(self.process.pid) if self.user else None
        return found[0] if found else None

    @property
    def bench(self) -> int:
        """The process that measures: the started one, or the one below it."""
        found = first_and_bench_of(self.process.pid) if self.user else None
        return found[1] if found else self.process.pid

    @property
    def patience(self) -> float:
        """The factor by which it may take longer than usual."""
        return MACHINES_PATIENCE if self.has_machines else 1.0

    @property
    def running(self) -> bool:
        """True if it has not ended."""
        return self.process.poll() is None

    def stderr(self) -> str:
        """Return its standard error so far."""
        return self.errors.read_text(errors="replace")

    def ledger(self) -> list[str]:
        """The lines of its ledger; none before it has one."""
        state, owner = self.places.state, self.process.pid
        if self.user:  # the number of the bench in its own namespace
            state, owner = Path(f"/proc/{self.first or 0}/root/run/switchmark"), BENCH_INSIDE
        for path in state.glob("*.ledger"):
            with suppress(OSError, ValueError, KeyError, IndexError):  # it is starting or ending
                lines = path.read_text().splitlines()
                if json.loads(lines[0])["pid"] == owner:
                    self.session = path.stem
                    return lines
        return []

    def engines(self, role: str = "") -> list[int]:
        """Return its traffic engines, of a role if it is given."""
        return [
            pid
            for pid, words in self.processes()
            if Path(words[0]).name == "switchmark-traffic" and (not role or role in words)
        ]

    def machines(self) -> list[int]:
        """Return its virtual machines."""
        return [
            pid for pid, words in self.processes() if Path(words[0]).name.startswith("qemu-system")
        ]

    def frames(self) -> int:
        """Return the frames that left a network with an engine, except those of guests."""
        return max(map(frames_sent, self.engines()), default=0)

    def sending_s(self) -> float:
        """Return the CPU time of the engine that has used most."""
        return max((process_cpu_s(pid) for pid in self.engines()), default=0.0)

    def processes(self) -> list[tuple[int, list[str]]]:
        """Return all processes of its session with their command lines, by their mark, and those in
        its containers by their group."""
        if not self.session:
            return []
        found = {one.pid for one in procfs.session_processes(self.session)}
        for pid in procfs.pids():
            with suppress(OSError):
                if f"sm{self.session}" in Path(f"/proc/{pid}/cgroup").read_text():
                    found.add(pid)
        if self.hosts:
            found |= {*self.hosts.right.programs()}
        named = []
        for pid in sorted(found - {self.process.pid}):
            with suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
                if command:
                    named.append((pid, command.rstrip("\0").split("\0")))
        return named

    def monitors(self) -> list[int]:
        """Return the monitors of its containers, and the daemons above them."""
        return [pid for pid, words in self.processes() if _name(words) in CONTAINER_PROGRAMS]

    def switches(self) -> list[int]:
        """Return its switches' processes; the simplest switches are engines."""
        engines = {*self.engines()} - {*self.engines("forwarder")}
        holders = ("init", "busybox")  # first processes of containers
        return [
            pid
            for pid, words in self.processes()
            if pid not in engines and _name(words) not in (*CONTAINER_PROGRAMS, *holders)
        ]


def _name(command: list[str]) -> str:
    """Return the name of a program; LXC's monitor has replaced its command line by a sentence."""
    name = Path(command[0]).name
    return "[lxc monitor]" if command[0].startswith("[lxc monitor]") else name


def campaign(
    switch: str,
    environment: str,
    location: str,
    place: str = "host",
    idle: str = "auto",
    more: str = "",
    seed: int = 0,
) -> tuple[str, int]:
    """Return a case's campaign (with `more`) and its number of trials.

    `place` is the switch's environment, `idle` the idle strategy of applications. Each trial has
    one virtual machine at most."""
    text = CAMPAIGN.format(
        switch=switch,
        environment=environment,
        scenario="p2v" if environment in MACHINES else "v2v",
        sizes=", ".join(map(str, SIZES)),
        location=location,
        place=place,
        idle=idle,
    )
    network = OF_USER_BRIDGE if switch == "existing" else ""
    if switch in NETWORK_OPTIONS:
        options = NETWORK_OPTIONS[switch]
        network = f"switch_options: {{{options[seed % len(options)]}}}\n"
    return text + network + more, len(SIZES)


def stored(places: Places) -> dict[str, tuple[int, int, str]]:
    """Return the stored records: file name to inode, time of change and status."""
    found = {}
    for path in places.results.glob("*/trials/*.json"):
        if path.name.startswith(".") or ".failed-" in path.name:
            continue
        with suppress(OSError, ValueError, KeyError):
            attributes = path.stat()
            status = json.loads(path.read_text())["status"]
            found[path.name] = (attributes.st_ino, attributes.st_mtime_ns, status)
    return found


def begun(places: Places) -> bool:
    """Return True if there is a run that can be resumed."""
    return any(places.results.glob("*/run.json"))
