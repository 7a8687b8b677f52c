"""A cable that takes a set time: carries frames between two interfaces, held for so long on the way
from the first to the second, and not at all on the way back. Run in the namespace of the cable:
python delaying_cable.py FIRST SECOND DELAY_S; it says `up` when it carries.

What it adds beyond the set time is time in which it got no core: a frame is never early."""

from __future__ import annotations

import select
import socket
import sys
import time
from collections import deque

ALL = 0x0003  # ETH_P_ALL
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_IGNORE_OUTGOING = 263, 1, 23
PROMISCUOUS = 1
LONGEST = 9100


def opened(device: str) -> socket.socket:
    """Everything that arrives there, whoever it is for."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    made.bind((device, ALL))
    made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    index = socket.if_nametoindex(device)
    request = index.to_bytes(4, sys.byteorder) + PROMISCUOUS.to_bytes(2, sys.byteorder) + bytes(10)
    made.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, request)
    made.setblocking(False)
    return made


def carry(first: socket.socket, second: socket.socket, delay_s: float) -> None:
    """Until it is killed."""
    held: deque[tuple[float, bytes]] = deque()
    while True:
        wait_s = max(0.0, held[0][0] - time.monotonic()) if held else None
        ready, _, _ = select.select([first, second], [], [], wait_s)
        if first in ready:
            frame = first.recv(LONGEST)
            held.append((time.monotonic() + delay_s, frame))
        if second in ready:
            first.send(second.recv(LONGEST))
        while held and held[0][0] <= time.monotonic():
            second.send(held.popleft()[1])


if __name__ == "__main__":
    ends = opened(sys.argv[1]), opened(sys.argv[2])
    print("up", flush=True)
    carry(*ends, float(sys.argv[3]))
