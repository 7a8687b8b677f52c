"""Faults of another host and of the network to it. Both hosts are namespaces on this machine
(`tests/integration/two_hosts.py`): a reboot removes everything in the other host's."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from functools import partial

from tests.faults.bench import Job
from tests.faults.undo import Inflict, Undo, for_good
from tests.integration.two_hosts import TwoHosts, sh

FORGET = """
for name in /run/netns/*; do umount -l "$name" || true; done
for name in $(ls /sys/class/net); do
  case $name in lo | ctl0 | cable0) ;; *) ip link delete "$name" || true ;; esac
done
find /run /tmp /dev/shm -mindepth 1 -xdev -delete || true
mkdir -p /run/sshd
"""


def between_hosts(inflict: Inflict, job: Job, rng: random.Random) -> Undo | None:
    """Inject the fault if the bench has a remote host."""
    return inflict(job, rng) if job.hosts else None


def agents(job: Job) -> list[int]:
    """Return the processes of the bench there."""
    return sorted(_hosts(job).right.programs())


def cut(job: Job, _rng: random.Random) -> Undo | None:
    """Cut the connection without closing it."""
    sessions = _hosts(job).right.sshd_sessions()
    _kill(sessions)
    return for_good if sessions else None


def out_of_reach(job: Job, _rng: random.Random) -> Undo:
    """Take the control network down until the bench has ended."""
    return _down("ctl0", ["ip"], _hosts(job).left.pid)


def cable_down(job: Job, _rng: random.Random) -> Undo:
    """Take the carrier of the cable away until the bench has ended."""
    cable = _hosts(job).cable
    assert cable is not None
    return _down("c0", ["nsenter", "-t", str(cable.pid), "-n", "ip"])


def reboot(job: Job, _rng: random.Random) -> Undo:
    """End all processes there, and remove all files in memory."""
    hosts = _hosts(job)
    right = hosts.right
    sh("ip", "link", "set", "ctl0", "down", inside=right.pid)
    assert right.sshd is not None and right.holder is not None
    stay = {right.pid, right.holder.pid, right.sshd.pid}
    for _ in range(3):  # a dying process may still start others
        _kill([pid for pid in right.pids() if pid not in stay])
    sh("sh", "-c", FORGET, inside=right.pid, check=False)
    hosts.plug_in_anew(right)
    sh("ip", "link", "set", "ctl0", "up", inside=right.pid)
    return for_good


def _down(device: str, ip: list[str], inside: int | None = None) -> Undo:
    sh(*ip, "link", "set", device, "down", inside=inside)
    return partial(sh, *ip, "link", "set", device, "up", inside=inside, check=False)


def _hosts(job: Job) -> TwoHosts:
    assert job.hosts is not None
    return job.hosts


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
