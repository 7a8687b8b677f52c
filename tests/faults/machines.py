"""Faults of virtual machines, and cases with them: the wire ends on the host and in a guest.

A user names the QEMU (`SWITCHMARK_QEMU`): a script that adds a monitor, by which the guest is
reset, paused, and made to kill its processes, and a kernel argument that permits the latter by
keyboard."""

from __future__ import annotations

import os
import random
import shlex
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from switchmark.environment.qemu import ENGINE_SETTING
from switchmark.environment.vm import accelerator, packages
from switchmark.errors import UnavailableError
from tests.faults.bench import ROOT, Job
from tests.faults.inflict import FAULTS, RUNNING, STOPPED_S, TRAFFIC, Fault, signal_one
from tests.faults.undo import Inflict, Undo, for_good

EVERY = 101  # every n-th case of long runs, as such a case takes long
FOLDER = "machines"  # shared by all cases, as the check for KVM belongs to this QEMU
# A switch that polls permanently leaves no core to an emulated machine.
SWITCHES = ("linux-bridge", "tc-redirect", "ovs-netdev", "af-packet")
ANSWERS_S = 10.0

SCRIPT = """#!/bin/bash
for ((n = 1; n < $#; n++)); do
  next=$((n + 1))
  [ "${!n}" != -append ] || words=${!next}
done
[ -n "${words-}" ] || exec PROGRAM "$@"
exec PROGRAM "$@" -append "$words sysrq_always_enabled=1" \\
  -chardev socket,id=faults,path=FOLDER/$$,server=on,wait=off -mon chardev=faults
"""


def problem() -> str | None:
    """Return why no case can have a machine; None if cases can.

    A private host of the matrix has no network to download a kernel."""
    try:
        qemu = packages.qemu()
    except UnavailableError as error:
        return str(error)
    if packages.kernel_at_hand() is None:
        return f"no guest's kernel; run a trial with it, or set {packages.KERNEL_SETTING}"
    guests_cpu = accelerator.known(qemu)
    if (guests_cpu is None or guests_cpu.emulated) and not _portable_engine():
        return f"no engine for an emulated CPU; run tools/guest-engine, or set {ENGINE_SETTING}"
    return None


def _portable_engine() -> Path | None:
    """Return the engine for any guest, if it was built or is named."""
    named = os.environ.get(ENGINE_SETTING)
    path = Path(named) if named else ROOT / "build-vm" / "switchmark-traffic"
    return path if path.exists() else None


def prepare(folder: Path) -> Mapping[str, str]:
    """Return the environment of a bench with machines; its files are made once in this folder."""
    qemu, kernel, place = packages.qemu(), packages.kernel_at_hand(), folder / FOLDER
    assert kernel is not None
    script = place / "bin" / "qemu-system-x86_64"
    if not script.exists():
        script.parent.mkdir(parents=True)
        (place / "share").symlink_to(qemu.program.parent.parent / "share")
        text = SCRIPT.replace("PROGRAM", shlex.quote(str(qemu.program)))
        script.write_text(text.replace("FOLDER", shlex.quote(str(place))))
        script.chmod(0o755)
    more = {packages.QEMU_SETTING: str(script), packages.KERNEL_SETTING: str(kernel.root)}
    if portable := _portable_engine():
        more[ENGINE_SETTING] = str(portable)
    return more


def _tell(command: str, job: Job, rng: random.Random, then: str = "") -> Undo | None:
    """Send a command to the monitor of one of its machines, and another one afterwards."""
    pids = job.machines()
    if not pids:
        return None
    door = job.places.campaign.parent.parent / FOLDER / str(rng.choice(pids))
    if not _say(door, command):
        return None
    return partial(_say, door, then) if then else for_good


def _say(door: Path, command: str) -> bool:
    """Return True if the command was sent; the monitor may have ended or not started yet."""
    was_sent = False
    with socket.socket(socket.AF_UNIX) as monitor, suppress(OSError):
        monitor.settimeout(ANSWERS_S)
        monitor.connect(str(door))
        _read_prompt(monitor)
        monitor.sendall(f"{command}\n".encode())
        was_sent = True
        _read_prompt(monitor)
    return was_sent


def _read_prompt(monitor: socket.socket) -> None:
    output, deadline = b"", time.monotonic() + ANSWERS_S
    while not output.rstrip().endswith(b"(qemu)") and time.monotonic() < deadline:
        some = monitor.recv(4096)
        if not some:
            return
        output += some


def _machine(number: signal.Signals, lasts_s: float | None = None) -> Fault:
    inflict = partial(signal_one, Job.machines, number)
    return Fault(f"{number.name} of a virtual machine", inflict, RUNNING, lasts_s=lasts_s)


def _guest(name: str, command: str, phases: Sequence[str] = TRAFFIC, then: str = "") -> Fault:
    inflict: Inflict = partial(_tell, command, then=then)
    return Fault(name, inflict, phases, lasts_s=STOPPED_S if then else None)


OWN = [
    _machine(signal.SIGKILL),
    _machine(signal.SIGTERM),
    _machine(signal.SIGSTOP, STOPPED_S),
    _guest("SIGKILL of the engine in a guest", "sendkey alt-sysrq-i"),
    _guest("SIGTERM of the engine in a guest", "sendkey alt-sysrq-e"),
    _guest("a guest's kernel panics", "sendkey alt-sysrq-c"),
    _guest("a guest is reset", "system_reset", RUNNING),
    _guest("a guest is paused", "stop", RUNNING, "cont"),
]
OTHERS = (
    *("none", "SIGKILL of the bench", "SIGTERM of the bench", "SIGSTOP of the bench"),
    *("SIGKILL of everything", "SIGKILL of an engine", "disk of the state folder full"),
    *("results read-only", "no more memory", "no more processes", "a link is removed"),
    "a namespace is removed",
)
MACHINE_FAULTS = [*OWN, *(fault for fault in FAULTS if fault.name in OTHERS)]
