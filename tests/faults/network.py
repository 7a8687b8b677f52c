"""Faults of the devices, namespaces, addresses and ports of a bench."""

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

NEXT_NODE_S = 5.0  # until it has a namespace or the folder of its socket
ADDRESSES = ("10.64.0.1/24", "10.64.0.2/24")


def change_link(arguments: Sequence[str], job: Job, rng: random.Random) -> Undo | None:
    """Change one of the session's devices, in any of its namespaces."""
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
    which = ["dev", name] if arguments[0] == "set" else [name]
    return for_good if run("ip", *place, "link", arguments[0], *which, *arguments[1:]) else None


def remove_namespace(job: Job, rng: random.Random) -> Undo | None:
    """Remove a namespace of the session."""
    names = namespaces(job)
    return for_good if names and run("ip", "netns", "del", rng.choice(names)) else None


def namespaces(job: Job) -> list[str]:
    """Return the session's namespaces by name."""
    folder = Path("/run/netns")
    return sorted(p.name for p in folder.glob(f"*{job.session}*")) if job.session else []


def take_address(job: Job, _rng: random.Random) -> Undo | None:
    """Give the address of a node to another device in its namespace."""
    taken = [
        run("ip", "-n", name, "address", "add", address, "dev", "lo")
        for name in namespaces(job)
        for address in ADDRESSES
    ]
    return for_good if any(taken) else None


def take_port(job: Job, rng: random.Random) -> Undo | None:
    """Occupy the UDP port on which a node's engine will listen."""
    port = rng.choice((UDP_PORT_A, UDP_PORT_B))
    deadline = time.monotonic() + NEXT_NODE_S
    while job.running and not job.engines("sender") and time.monotonic() < deadline:
        taken = [bound for name in namespaces(job) if (bound := _listen(name, port))]
        if taken:
            return partial(_close, taken)
        time.sleep(0.002)
    return None


def _listen(namespace: str, port: int) -> socket.socket | None:
    """Return a bound socket; None if the port is in use or the namespace is gone."""

    def bound() -> socket.socket:
        bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            bound.bind(("0.0.0.0", port))
        except OSError:
            bound.close()
            raise
        return bound

    with suppress(OSError, SwitchmarkError):
        return inside(namespace, bound)
    return None


def _close(taken: list[socket.socket]) -> None:
    for bound in taken:
        bound.close()


def take_socket(job: Job, _rng: random.Random) -> Undo | None:
    """Occupy the path on which the next node's engine will listen for a switch."""
    deadline = time.monotonic() + NEXT_NODE_S
    while job.running and time.monotonic() < deadline:
        for folder in job.places.state.glob(f"{job.session or '-'}/vhost-*"):
            with suppress(OSError), socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(folder / SOCKET_NAME))
                return for_good  # no program answers there from now on
        time.sleep(0.002)
    return None
