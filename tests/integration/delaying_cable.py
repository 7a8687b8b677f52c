"""A cable with a fixed delay: it carries frames between two interfaces, and delays those from the
first to the second. Run it in the namespace of the cable:

    python delaying_cable.py FIRST SECOND DELAY_S

It prints `up` when it carries frames. A frame is never early; without a core it comes later."""

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
    """Return a socket that receives every frame that arrives at the device."""
    receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    receiver.bind((device, ALL))
    receiver.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    index = socket.if_nametoindex(device)
    request = index.to_bytes(4, sys.byteorder) + PROMISCUOUS.to_bytes(2, sys.byteorder) + bytes(10)
    receiver.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, request)
    receiver.setblocking(False)
    return receiver


def carry(first: socket.socket, second: socket.socket, delay_s: float) -> None:
    """Carry frames until the process is killed."""
    delayed: deque[tuple[float, bytes]] = deque()
    while True:
        wait_s = max(0.0, delayed[0][0] - time.monotonic()) if delayed else None
        ready, _, _ = select.select([first, second], [], [], wait_s)
        if first in ready:
            frame = first.recv(LONGEST)
            delayed.append((time.monotonic() + delay_s, frame))
        if second in ready:
            first.send(second.recv(LONGEST))
        while delayed and delayed[0][0] <= time.monotonic():
            second.send(delayed.popleft()[1])


if __name__ == "__main__":
    ends = opened(sys.argv[1]), opened(sys.argv[2])
    print("up", flush=True)
    carry(*ends, float(sys.argv[3]))
