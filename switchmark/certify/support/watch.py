"""The kernel's own times of frames: it stamps them where they enter and leave the switch.

Two packet sockets in the switch's namespace keep what passes, with the time that the kernel took
of each frame. They are read after the traffic, so that nothing of it is
disturbed. Neither clock nor code is the engine's.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from switchmark.errors import TrialFailed
from switchmark.host.kernel import namespaces
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.support.ports import device_of

ETH_P_ALL = 3
OUTGOING = 4  # PACKET_OUTGOING: what leaves by the device
SO_TIMESTAMPNS, SO_RCVBUFFORCE = 35, 33
SOL_PACKET, PACKET_STATISTICS = 263, 6
ROOM_BYTES = 512 << 20  # by the kernel's count of a frame's memory: some 300,000 small frames
LONGEST = 128  # of a frame that is read: the stamp lies within
UDP_PAYLOAD = 42  # behind Ethernet, IPv4 and UDP
MARK, DATA = 0x53, 1  # of the engine's stamp (engine/traffic/frame.h)
LEAST_FRAMES = 100  # for a rate
STEP_NS = 10_000  # by which the two clocks may have moved against each other in a trial
TIME = struct.Struct("=qq")


@dataclass(frozen=True, slots=True)
class Passed:
    """One data frame: its number in the stream, and when the kernel saw it."""

    sequence: int
    at_ns: int  # CLOCK_MONOTONIC, from the stamp's CLOCK_REALTIME


class Watch:
    """Keeps what enters or leaves by one device from now on."""

    def __init__(self, netns: str, device: str, *, leaving: bool) -> None:
        self._leaving = leaving
        self._socket = namespaces.inside(netns, lambda: _opened(device))
        self._skew_ns = _skew_ns()

    def data_frames(self) -> list[Passed]:
        """The frames that have passed since it was opened. Raises `TrialFailed` where the kernel
        dropped some of them, or the clock was set meanwhile."""
        found = [one for one in self._all() if one is not None]
        counts = self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        dropped = struct.unpack("=II", counts)[1]
        if dropped:
            raise TrialFailed(f"the kernel kept no time of {dropped} frames: no room")
        if abs(_skew_ns() - self._skew_ns) > STEP_NS:
            raise TrialFailed("CLOCK_REALTIME was set while frames were timed")
        return found

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._socket.close()

    def _all(self) -> Iterator[Passed | None]:
        while True:
            try:
                frame, told, _, address = self._socket.recvmsg(LONGEST, 64)
            except BlockingIOError:
                return
            if (address[2] == OUTGOING) == self._leaving:
                yield _data_frame(frame, told, self._skew_ns)


@contextmanager
def watched_ways(bridge: LinuxBridge) -> Iterator[tuple[Watch, Watch]]:
    """Watches where frames enter the bridge by the sender's port, and leave by the receiver's."""
    netns, (entry, exit_) = bridge.namespace.name, map(device_of, bridge.ports[:2])
    with (
        closing(Watch(netns, entry, leaving=False)) as came,
        closing(Watch(netns, exit_, leaving=True)) as went,
    ):
        yield came, went


def rate_pps(frames: Sequence[Passed]) -> float:
    """The rate of these frames a second, between the first and the last."""
    if len(frames) < LEAST_FRAMES:
        raise TrialFailed(f"only {len(frames)} frames were seen to pass")
    first, last = min(one.at_ns for one in frames), max(one.at_ns for one in frames)
    return (len(frames) - 1) * 1e9 / (last - first)


def within(frames: Sequence[Passed], begin_ns: int, end_ns: int) -> list[Passed]:
    """The frames that passed between two moments."""
    return [one for one in frames if begin_ns <= one.at_ns <= end_ns]


def _opened(device: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
    made.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, ROOM_BYTES)
    made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    made.setblocking(False)
    made.bind((device, ETH_P_ALL))
    return made


def _data_frame(
    frame: bytes, ancillary: Sequence[tuple[int, int, bytes]], skew_ns: int
) -> Passed | None:
    if len(frame) < UDP_PAYLOAD + 8 or frame[12:15] != b"\x08\x00\x45" or frame[23] != 17:
        return None
    mark, kind, _, sequence = struct.unpack_from("!BBHI", frame, UDP_PAYLOAD)
    if mark != MARK or (kind >> 4) & 3 != DATA:
        return None
    for level, what, data in ancillary:
        if level == socket.SOL_SOCKET and what == SO_TIMESTAMPNS:
            seconds, ns = TIME.unpack(data[: TIME.size])
            return Passed(sequence, seconds * 1_000_000_000 + ns - skew_ns)
    return None


def _skew_ns() -> int:
    """CLOCK_REALTIME less CLOCK_MONOTONIC."""
    return time.time_ns() - time.monotonic_ns()
