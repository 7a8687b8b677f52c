"""Frames that another process's packet rings had no room for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from switchmark.host.host import Session
from switchmark.host.kernel.packet_rings import PacketRings
from tests.integration.switch_rig import BROADCAST, veth_ends

pytestmark = [pytest.mark.integration]

ROOM = 4
# A ring of four frames on each device, which no program reads, and a socket of another family.
OWNER = """
import socket, struct, sys
held = [socket.socket(socket.AF_UNIX)]
for device in sys.argv[1:]:
    ring = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    ring.setsockopt(263, 5, struct.pack("4I", 4096, 2, 2048, 4))
    ring.bind((device, 0))
    held.append(ring)
print("ready", flush=True)
sys.stdin.read()
"""


def test_drops_are_reported_by_device_and_added_up(session: Session) -> None:
    with veth_ends(session, 2) as ends:
        first, second = (str(end.port.device) for end in ends)
        with subprocess.Popen(
            [sys.executable, "-c", OWNER, first, second],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as owner:
            assert owner.stdin is not None and owner.stdout is not None
            assert owner.stdout.readline() == "ready\n"
            rings = PacketRings(owner.pid)
            assert rings.drops() == {first: 0, second: 0}
            ends[0].send(BROADCAST, 100)
            ends[1].send(BROADCAST, ROOM)
            assert rings.drops() == {first: 100 - ROOM, second: 0}
            ends[0].send(BROADCAST, 10)
            ends[1].send(BROADCAST, 1)
            assert rings.drops() == {first: 110 - ROOM, second: 1}
            owner.stdin.close()
            owner.wait()
            with pytest.raises(OSError, match=r"No such (process|file)"):
                rings.drops()
