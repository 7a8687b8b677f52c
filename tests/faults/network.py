"""Faults of the devices, namespaces, addresses and ports that a bench uses."""

from __future__ import annotations

import random
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from switchmark.engine.arguments import UDP_PORT_A, UDP_PORT_B
from switchmark.errors import SwitchmarkError
from switchmark.host.kernel.namespaces import inside
from switchmark.port.vhost_user import SOCKET_NAME
from tests.faults.bench import Job
from tests.faults.undo import Undo, for_good, run

NEXT_NODE_S = 5.0  # until it has a namespace, or the folder of its socket
ADDRESSES = ("10.64.0.1/24", "10.64.0.2/24")


def change_link(words: Sequence[str], job: Job, rng: random.Random) -> Undo | None:
    """Of one of the session's devices, in whatever namespace of its own it is."""
    places = [[], *(["-n", name] for name in namespaces(job))]
    found = []
    for place in places:
        listed = subprocess.run(
            ["ip", *place, "-o", "link"], check=False, capture_output=True, text=True
        )
        for line in listed.stdout.splitlines():
            name = line.split(":")[1].strip().split("@")[0]
            if name != "lo" and (place or (job.session and job.session in name)):
                found.append((place, name))
    if not found:
        return None
    place, name = rng.choice(found)
    which = ["dev", name] if words[0] == "set" else [name]
    return for_good if run("ip", *place, "link", words[0], *which, *words[1:]) else None


def remove_namespace(job: Job, rng: random.Random) -> Undo | None:
    """One of those that the session made."""
    names = namespaces(job)
    return for_good if names and run("ip", "netns", "del", rng.choice(names)) else None


def namespaces(job: Job) -> list[str]:
    """Of the session, by name."""
    folder = Path("/run/netns")
    return sorted(p.name for p in folder.glob(f"*{job.session}*")) if job.session else []


def take_address(job: Job, _rng: random.Random) -> Undo | None:
    """Another device of a node gets the address that it has."""
    taken = [
        run("ip", "-n", name, "address", "add", address, "dev", "lo")
        for name in namespaces(job)
        for address in ADDRESSES
    ]
    return for_good if any(taken) else None


def take_port(job: Job, rng: random.Random) -> Undo | None:
    """The port of UDP at which a node's engine will listen is another program's."""
    port = rng.choice((UDP_PORT_A, UDP_PORT_B))
    deadline = time.monotonic() + NEXT_NODE_S
    while job.running and not job.engines("sender") and time.monotonic() < deadline:
        taken = [one for name in namespaces(job) if (one := _listen(name, port))]
        if taken:
            return partial(_close, taken)
        time.sleep(0.002)
    return None


def _listen(namespace: str, port: int) -> socket.socket | None:
    """None where somebody does already, or the namespace has gone."""

    def bound() -> socket.socket:
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            one.bind(("0.0.0.0", port))
        except OSError:
            one.close()
            raise
        return one

    with suppress(OSError, SwitchmarkError):
        return inside(namespace, bound)
    return None


def _close(taken: list[socket.socket]) -> None:
    for one in taken:
        one.close()


def take_socket(job: Job, _rng: random.Random) -> Undo | None:
    """The path at which the next node's engine will listen for a switch is another program's."""
    deadline = time.monotonic() + NEXT_NODE_S
    while job.running and time.monotonic() < deadline:
        for folder in job.places.state.glob(f"{job.session or '-'}/vhost-*"):
            with suppress(OSError), socket.socket(socket.AF_UNIX) as one:
                one.bind(str(folder / SOCKET_NAME))
                return for_good  # (nobody answers there from now on)
        time.sleep(0.002)
    return None
