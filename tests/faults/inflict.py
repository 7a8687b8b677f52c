"""The faults, a row each: what is done to a bench that runs, and how it is undone.

Every fault acts from outside, as a user, the kernel or an accident would."""

from __future__ import annotations

import os
import random
import resource
import secrets
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.faults import clock, far
from tests.faults.bench import Job

Undo = Callable[[], object]
Inflict = Callable[[Job, random.Random], Undo | None]

RUNNING = ["deploy", "verify", "measure", "tear down", "write"]
TRAFFIC = ["verify", "measure"]
HUNGRY = ("ovs-dpdk", "basicfwd", "testpmd", "vpp", "snabb", "bess", "fastclick", "t4p4s")
PROGRAMS = ("ovs-dpdk", "ovs-netdev", "ovs-afxdp", "basicfwd", "testpmd", "vpp", "snabb")
CGROUPS = Path("/sys/fs/cgroup")
STOPPED_S = 3.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One row. `undo` comes once the bench has ended, or after `lasts_s` if that is sooner."""

    name: str
    inflict: Inflict
    phases: Sequence[str] = ()  # none: any
    switches: Sequence[str] = ()  # that it can befall; none: any
    environments: Sequence[str] = ()
    lasts_s: float | None = None
    takes_results: bool = False  # what was stored is gone by the fault itself
    location: str = "local"
    prepare: Callable[[Path], Mapping[str, str]] | None = None  # the bench's environment

    def pairs_of(self, there: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Those of the machine's pairs of a switch and an environment that it can befall; all
        where it can befall none, and does nothing."""
        fitting = [
            (switch, environment)
            for switch, environment in there
            if (not self.switches or switch in self.switches)
            and (not self.environments or environment in self.environments)
        ]
        return fitting or list(there)


def _nothing(_job: Job, _rng: random.Random) -> None:
    """To see that a case without a fault is one without a finding."""


def _signal(number: signal.Signals, job: Job, _rng: random.Random) -> Undo | None:
    job.process.send_signal(number)
    return partial(_send, job.process.pid, signal.SIGCONT) if number is signal.SIGSTOP else None


def signal_one(
    find: Callable[[Job], list[int]], number: signal.Signals, job: Job, rng: random.Random
) -> Undo | None:
    """Send it to one of those that are found; SIGSTOP has an end."""
    pids = find(job)
    if not pids:
        return None
    pid = rng.choice(pids)
    _send(pid, number)
    return partial(_send, pid, signal.SIGCONT) if number is signal.SIGSTOP else None


def _kill_all(job: Job, _rng: random.Random) -> None:
    """As the kernel does when memory ends: everything at once."""
    pids = [pid for pid, _ in job.processes()]
    job.process.kill()
    for pid in pids:
        _send(pid, signal.SIGKILL)


def _fill(folder: Callable[[Job], Path], job: Job, _rng: random.Random) -> Undo:
    path = folder(job) / "filled"
    with suppress(OSError), path.open("wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()
    return partial(path.unlink, missing_ok=True)


def _read_only(job: Job, _rng: random.Random) -> Undo:
    folder = str(job.places.results)
    _run("mount", "--bind", folder, folder)
    _run("mount", "-o", "remount,bind,ro", folder)
    return partial(_run, "umount", "-l", folder)


def _move_away(job: Job, _rng: random.Random) -> Undo | None:
    for path in job.places.results.glob("*/trials"):
        away = job.places.results / "elsewhere" / path.parent.name
        away.parent.mkdir(exist_ok=True)
        path.parent.rename(away)
        return partial(_move_back, away, path.parent)
    return None


def _move_back(away: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)  # (what the bench made anew there meanwhile)
    away.rename(place)
    away.parent.rmdir()


def _remove(job: Job, _rng: random.Random) -> None:
    for path in job.places.results.glob("*"):
        shutil.rmtree(path, ignore_errors=True)


def _no_more_processes(job: Job, rng: random.Random) -> Undo | None:
    return _limit("pids", "pids.max", lambda used: used + rng.randrange(3), job)


def _no_more_memory(job: Job, rng: random.Random) -> Undo | None:
    return _limit("memory", "memory.limit_in_bytes", lambda used: 4096 + used // 2, job)


def _limit(kind: str, knob: str, limit: Callable[[int], int], job: Job) -> Undo | None:
    """Put the bench and all that it has started into a group, and draw it tight."""
    if not (CGROUPS / kind).is_dir():
        return None
    group = CGROUPS / kind / f"faults-{secrets.token_hex(4)}"  # (others may run a matrix, too)
    group.mkdir()
    job.groups.append(group)
    for pid in [job.process.pid, *(pid for pid, _ in job.processes())]:
        with suppress(OSError):
            (group / "cgroup.procs").write_text(str(pid))
    used = _tasks(group) if kind == "pids" else _resident(job)
    with suppress(OSError):
        (group / knob).write_text(str(limit(used)))
    return partial(_unlimit, group, knob)


def _unlimit(group: Path, knob: str) -> None:
    with suppress(OSError):
        (group / knob).write_text("max" if knob == "pids.max" else "-1")


def _tasks(group: Path) -> int:
    return int((group / "pids.current").read_text())


def _resident(job: Job) -> int:
    """Bytes that the bench holds; what it allocates from now on counts in its new group."""
    with suppress(OSError):
        pages = int(Path(f"/proc/{job.process.pid}/statm").read_text().split()[1])
        return pages * 4096 // 8
    return 1 << 24


def _no_more_descriptors(job: Job, rng: random.Random) -> Undo:
    pid = job.process.pid
    with suppress(OSError):
        used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + rng.randrange(4), 4096))
    return lambda: None


def _link(words: Sequence[str], job: Job, rng: random.Random) -> None:
    """To one of the session's devices, in whatever namespace of its own it is."""
    places = [[], *(["-n", name] for name in _namespaces(job))]
    found = []
    for place in places:
        listed = subprocess.run(
            ["ip", *place, "-o", "link"], check=False, capture_output=True, text=True
        )
        for line in listed.stdout.splitlines():
            name = line.split(":")[1].strip().split("@")[0]
            if name != "lo" and (place or job.session in name):
                found.append((place, name))
    if found:
        place, name = rng.choice(found)
        _run("ip", *place, "link", words[0], *(["dev", name] if words[0] == "set" else [name]),
             *words[1:])  # fmt: skip


def _remove_namespace(job: Job, rng: random.Random) -> None:
    if names := _namespaces(job):
        _run("ip", "netns", "del", rng.choice(names))


def _namespaces(job: Job) -> list[str]:
    folder = Path("/run/netns")
    return sorted(p.name for p in folder.glob(f"*{job.session}*")) if job.session else []


def _address_taken(job: Job, rng: random.Random) -> None:
    """Another device of a node gets the address that it has."""
    for name in _namespaces(job):
        for address in ("10.64.0.1/24", "10.64.0.2/24"):
            _run("ip", "-n", name, "address", "add", address, "dev", "lo")


def _hugepages_used_up(job: Job, _rng: random.Random) -> Undo:
    """As the kernel tells it to all in this host: they are the whole machine's, and others have
    them, too."""
    told = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
    few = job.places.campaign.with_name("free_hugepages")
    few.write_text("3\n")
    _run("mount", "--bind", str(few), str(told))
    return partial(_run, "umount", "-l", str(told))


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _run(*words: str) -> None:
    subprocess.run(words, check=False, capture_output=True)


def _bench(number: signal.Signals, lasts_s: float | None = None) -> Fault:
    return Fault(f"{number.name} of the bench", partial(_signal, number), lasts_s=lasts_s)


def _engine(number: signal.Signals, lasts_s: float | None = None) -> Fault:
    inflict = partial(signal_one, Job.engines, number)
    return Fault(f"{number.name} of an engine", inflict, TRAFFIC, lasts_s=lasts_s)


def _switch(number: signal.Signals, lasts_s: float | None = None) -> Fault:
    inflict = partial(signal_one, Job.others, number)
    return Fault(
        f"{number.name} of a switch's process", inflict, RUNNING, PROGRAMS, lasts_s=lasts_s
    )


def _monitor(number: signal.Signals) -> Fault:
    inflict = partial(signal_one, Job.others, number)
    return Fault(
        f"{number.name} of a container's monitor", inflict, RUNNING, ("linux-bridge",),
        ("lxc", "docker"),
    )  # fmt: skip


def _far(name: str, inflict: Inflict, phases: Sequence[str] = RUNNING) -> Fault:
    """The receiving half of each path is on another host, which is reached by SSH; nothing is
    done where this machine can have none."""
    return Fault(
        name, partial(far.between_hosts, inflict), phases, ("linux-bridge",), ("netns",),
        location="remote",
    )  # fmt: skip


FAULTS: list[Fault] = [
    Fault("none", _nothing),
    _bench(signal.SIGKILL),
    _bench(signal.SIGTERM),
    _bench(signal.SIGINT),
    _bench(signal.SIGHUP),
    _bench(signal.SIGQUIT),
    _bench(signal.SIGABRT),
    _bench(signal.SIGSTOP, STOPPED_S),
    Fault("SIGKILL of everything", _kill_all, RUNNING),
    _engine(signal.SIGKILL),
    _engine(signal.SIGTERM),
    _engine(signal.SIGSTOP, STOPPED_S),
    _switch(signal.SIGKILL),
    _switch(signal.SIGSTOP, STOPPED_S),
    _monitor(signal.SIGKILL),
    Fault("disk of results full", partial(_fill, lambda job: job.places.results)),
    Fault("disk of the state folder full", partial(_fill, lambda job: job.places.state)),
    Fault("results read-only", _read_only),
    Fault("results moved away", _move_away, RUNNING),
    Fault("results removed", _remove, RUNNING, takes_results=True),
    Fault("no more processes", _no_more_processes),
    Fault("no more memory", _no_more_memory),
    Fault("no more descriptors", _no_more_descriptors),
    Fault("a link goes down", partial(_link, ("set", "down")), TRAFFIC),
    Fault("a link is removed", partial(_link, ("delete",)), [*TRAFFIC, "deploy"]),
    Fault("a namespace is removed", _remove_namespace, RUNNING),
    Fault("an address is taken", _address_taken, ["deploy", "verify"]),
    Fault("hugepages used up", _hugepages_used_up, ["plan", "deploy"], HUNGRY),
    Fault("the clock jumps", clock.jump, environments=("netns", "bare"), prepare=clock.prepare),
    _far("none with a far host", _nothing),
    _far("SIGKILL of the bench with a far host", partial(_signal, signal.SIGKILL)),
    _far("SIGTERM of the bench with a far host", partial(_signal, signal.SIGTERM)),
    _far("SIGKILL of the far agent", far.kill_agent),
    _far("SSH cut", far.cut),
    _far("far host out of reach", far.out_of_reach),
    _far("far host rebooted", far.reboot),
    _far("the cable goes down", far.cable_down, TRAFFIC),
]
