"""The faults, one a row: the action on a running bench, and how it is undone.

Every fault acts from outside, like a user, the kernel or an accident."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.faults import clock, far, network, shortages, storage
from tests.faults.bench import Job
from tests.faults.undo import Inflict, Undo, for_good, send
from tests.integration.ordinary_user import SWITCHES as USER_SWITCHES

RUNNING = ["deploy", "verify", "measure", "tear down", "write"]
TRAFFIC = ["verify", "measure"]
HUNGRY = ("ovs-dpdk", "basicfwd", "testpmd", "vpp", "snabb", "bess", "fastclick", "t4p4s")
PROGRAMS = ("ovs-dpdk", "ovs-netdev", "ovs-afxdp", "basicfwd", "testpmd", "vpp", "snabb")
NAMED = ("netns", "lxc", "docker")  # environments whose nodes have a namespace with a name
STOPPED_S = 3.0
MOMENT_S = 1.0  # a trial in deployment has its processes soon


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault. `undo` is called once the bench has ended, or after `lasts_s` if that is sooner."""

    name: str
    inflict: Inflict
    phases: Sequence[str] = ()  # none: any
    switches: Sequence[str] = ()  # switches that it applies to; none: any
    environments: Sequence[str] = ()
    lasts_s: float | None = None
    takes_results: bool = False  # the fault itself removes stored records
    location: str = "local"
    travels: bool = False  # also drawn between two hosts
    prepare: Callable[[Path], Mapping[str, str]] | None = None  # the bench's environment
    on_disk: bool = False  # the results are on a disk that can fail
    campaign: str = ""  # additional keys of its campaign
    user: bool = False  # also drawn for an ordinary user's bench
    only_user: bool = False

    def pairs_of(self, available: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return those of the machine's pairs of switch and environment that it applies to; all if
        it applies to none and does nothing."""
        fitting = [
            (switch, environment)
            for switch, environment in available
            if (not self.switches or switch in self.switches)
            and (not self.environments or environment in self.environments)
        ]
        return fitting or list(available)


def _nothing(_job: Job, _rng: random.Random) -> Undo:
    """Do nothing: a case without a fault must have no finding."""
    return for_good


def _signal(number: signal.Signals, job: Job, _rng: random.Random) -> Undo | None:
    """Signal the started process as a user does; SIGKILL and SIGSTOP, which cannot be passed on,
    may go to the process that measures."""
    pid = job.bench if number in (signal.SIGKILL, signal.SIGSTOP) else job.process.pid
    return send(pid, number) if job.running else None


def _supervisor(number: signal.Signals, job: Job, _rng: random.Random) -> Undo | None:
    return send(job.process.pid, number) if job.running else None


def _first(number: signal.Signals, job: Job, _rng: random.Random) -> Undo | None:
    first = job.first
    return send(first, number) if job.running and first else None


def signal_one(
    find: Callable[[Job], list[int]], number: signal.Signals, job: Job, rng: random.Random
) -> Undo | None:
    """Send the signal to one of the processes, now or in a moment; SIGSTOP ends later."""
    deadline = time.monotonic() + MOMENT_S
    while not (pids := find(job)) and job.running and time.monotonic() < deadline:
        time.sleep(0.002)
    return send(rng.choice(pids), number) if pids else None


def _kill_all(job: Job, _rng: random.Random) -> Undo | None:
    """Kill all processes at once, like the kernel without memory."""
    if not job.running:
        return None
    pids = [pid for pid, _ in job.processes()]
    job.process.kill()
    for pid in pids:
        send(pid, signal.SIGKILL)
    return for_good


def _bench(number: signal.Signals, lasts_s: float | None = None) -> Fault:
    return Fault(
        f"{number.name} of the bench", partial(_signal, number), lasts_s=lasts_s, travels=True,
        user=True,
    )  # fmt: skip


def _engine(number: signal.Signals, lasts_s: float | None = None) -> Fault:
    inflict = partial(signal_one, Job.engines, number)
    return Fault(
        f"{number.name} of an engine", inflict, TRAFFIC, lasts_s=lasts_s, travels=True, user=True
    )


def _switch(number: signal.Signals, lasts_s: float | None = None) -> Fault:
    inflict = partial(signal_one, Job.switches, number)
    return Fault(
        f"{number.name} of a switch's process", inflict, RUNNING, PROGRAMS, lasts_s=lasts_s,
        travels=True, user=True,
    )  # fmt: skip


def _monitor(number: signal.Signals, lasts_s: float | None = None) -> Fault:
    inflict = partial(signal_one, Job.monitors, number)
    return Fault(
        f"{number.name} of a container's monitor", inflict, RUNNING,
        environments=("lxc", "docker"), lasts_s=lasts_s,
    )  # fmt: skip


def _of_user(name: str, inflict: Inflict, lasts_s: float | None = None) -> Fault:
    """Make a fault of an ordinary user's bench in private namespaces."""
    return Fault(
        name, inflict, switches=USER_SWITCHES, environments=("netns",), lasts_s=lasts_s,
        user=True, only_user=True,
    )  # fmt: skip


def _agent(number: signal.Signals, lasts_s: float | None = None) -> Fault:
    inflict = partial(signal_one, far.agents, number)
    return _far(f"{number.name} of the far agent", inflict, lasts_s=lasts_s)


def _far(
    name: str, inflict: Inflict, phases: Sequence[str] = RUNNING, lasts_s: float | None = None
) -> Fault:
    """Make a fault with the receiving half of each path on another host, reached by SSH; it does
    nothing if this machine cannot have two hosts."""
    return Fault(
        name, partial(far.between_hosts, inflict), phases, environments=("netns",),
        location="remote", lasts_s=lasts_s,
    )  # fmt: skip


FAULTS: list[Fault] = [
    Fault("none", _nothing, travels=True, user=True),
    _bench(signal.SIGKILL),
    _bench(signal.SIGTERM),
    _bench(signal.SIGINT),
    _bench(signal.SIGHUP),
    _bench(signal.SIGQUIT),
    _bench(signal.SIGABRT),
    _bench(signal.SIGSTOP, STOPPED_S),
    Fault("SIGKILL of everything", _kill_all, RUNNING, travels=True, user=True),
    _engine(signal.SIGKILL),
    _engine(signal.SIGTERM),
    _engine(signal.SIGSTOP, STOPPED_S),
    _switch(signal.SIGKILL),
    _switch(signal.SIGTERM),
    _switch(signal.SIGSTOP, STOPPED_S),
    _monitor(signal.SIGKILL),
    _monitor(signal.SIGTERM),
    _monitor(signal.SIGSTOP, STOPPED_S),
    Fault(
        "disk of results full", partial(storage.fill, lambda job: job.places.results), travels=True,
        user=True,
    ),
    Fault(
        "disk of the state folder full", partial(storage.fill, lambda job: job.places.state),
        travels=True,
    ),
    Fault("results read-only", storage.cover_read_only),
    Fault("file system of results becomes read-only", storage.fail_disk, on_disk=True),
    Fault("results moved away", storage.move_away, RUNNING, travels=True, user=True),
    Fault("results removed", storage.remove, RUNNING, takes_results=True, travels=True,
          user=True),
    Fault("no more processes", shortages.no_more_processes, travels=True),
    Fault("no more memory", shortages.no_more_memory, travels=True),
    Fault("no more descriptors", shortages.no_more_descriptors, travels=True),
    Fault("a link goes down", partial(network.change_link, ("set", "down")), TRAFFIC),
    Fault("a link is removed", partial(network.change_link, ("delete",)), [*TRAFFIC, "deploy"]),
    Fault("a namespace is removed", network.remove_namespace, RUNNING),
    Fault("an address is taken", network.take_address, ["deploy", "verify"], environments=NAMED),
    Fault(
        "a port is busy", network.take_port, ["deploy"], ("linux-bridge", "ovs-netdev"), NAMED,
        campaign="io: udp\n",
    ),
    Fault("a socket's path is taken", network.take_socket, ["deploy"], HUNGRY, NAMED),
    Fault("hugepages used up", shortages.hugepages_used_up, ["plan", "deploy"], HUNGRY),
    Fault("the clock jumps", clock.jump, environments=("netns", "bare"), prepare=clock.prepare),
    _of_user("SIGKILL of the supervisor", partial(_supervisor, signal.SIGKILL)),
    _of_user("SIGSTOP of the supervisor", partial(_supervisor, signal.SIGSTOP), STOPPED_S),
    _of_user("SIGKILL of the first process", partial(_first, signal.SIGKILL)),
    _of_user("SIGSTOP of the first process", partial(_first, signal.SIGSTOP), STOPPED_S),
    _far("none with a far host", _nothing),
    _far("SIGKILL of the bench with a far host", partial(_signal, signal.SIGKILL)),
    _far("SIGTERM of the bench with a far host", partial(_signal, signal.SIGTERM)),
    _agent(signal.SIGKILL),
    _agent(signal.SIGTERM),
    _agent(signal.SIGSTOP, STOPPED_S),
    _far("SSH cut", far.cut),
    _far("far host out of reach", far.out_of_reach),
    _far("far host rebooted", far.reboot),
    _far("the cable goes down", far.cable_down, TRAFFIC),
]  # fmt: skip
