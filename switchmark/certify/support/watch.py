"""The kernel's timestamps of frames that enter and leave the switch.

Two packet sockets in the switch's namespace receive a copy of each frame with its timestamp. They
are read after the traffic, so that they do not disturb it. Clock and code are independent of the
engine.
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
OUTGOING = 4  # PACKET_OUTGOING: the frame leaves by the device
SO_TIMESTAMPNS, SO_RCVBUFFORCE = 35, 33
SOL_PACKET, PACKET_STATISTICS = 263, 6
ROOM_BYTES = 512 << 20  # buffer for some 300,000 small frames with the kernel's overhead
LONGEST = 128  # bytes of a frame that are read, which include the engine's stamp
UDP_PAYLOAD = 42  # offset of the payload after Ethernet, IPv4 and UDP
MARK, DATA = 0x53, 1  # values of the engine's stamp (engine/traffic/frame.h)
LEAST_FRAMES = 100  # least number of frames for a rate
STEP_NS = 10_000  # largest change of the difference of the two clocks in a trial
TIME = struct.Struct("=qq")


@dataclass(frozen=True, slots=True)
class Passed:
    """One data frame: its number in the stream, and its time."""

    sequence: int
    at_ns: int  # CLOCK_MONOTONIC, from the stamp's CLOCK_REALTIME


class Watch:
    """Receives copies of frames that enter or leave by one device from now on."""

    def __init__(self, netns: str, device: str, *, leaving: bool) -> None:
        self._leaving = leaving
        self._socket = namespaces.inside(netns, lambda: _open_socket(device))
        self._skew_ns = _skew_ns()

    def data_frames(self) -> list[Passed]:
        """Return the frames that have passed so far. Raise `TrialFailed` if the kernel dropped
        copies, or the clock was set meanwhile."""
        frames = [frame for frame in self._all() if frame is not None]
        counts = self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        dropped = struct.unpack("=II", counts)[1]
        if dropped:
            raise TrialFailed(f"the kernel did not time {dropped} frames: the buffer was full")
        if abs(_skew_ns() - self._skew_ns) > STEP_NS:
            raise TrialFailed("CLOCK_REALTIME was set while frames were timed")
        return frames

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._socket.close()

    def _all(self) -> Iterator[Passed | None]:
        while True:
            try:
                frame, ancillary, _, address = self._socket.recvmsg(LONGEST, 64)
            except BlockingIOError:
                return
            if (address[2] == OUTGOING) == self._leaving:
                yield _data_frame(frame, ancillary, self._skew_ns)


@contextmanager
def watch_bridge(bridge: LinuxBridge) -> Iterator[tuple[Watch, Watch]]:
    """Watch frames that enter the bridge by the sender's port, and leave by the receiver's."""
    netns, (in_device, out_device) = bridge.namespace.name, map(device_of, bridge.ports[:2])
    with (
        closing(Watch(netns, in_device, leaving=False)) as entry,
        closing(Watch(netns, out_device, leaving=True)) as exit_,
    ):
        yield entry, exit_


def rate_pps(frames: Sequence[Passed]) -> float:
    """Return the rate of these frames between the first and the last."""
    if len(frames) < LEAST_FRAMES:
        raise TrialFailed(f"the kernel timed only {len(frames)} frames")
    first, last = min(frame.at_ns for frame in frames), max(frame.at_ns for frame in frames)
    return (len(frames) - 1) * 1e9 / (last - first)


def within(frames: Sequence[Passed], begin_ns: int, end_ns: int) -> list[Passed]:
    """Return the frames that passed between two moments."""
    return [frame for frame in frames if begin_ns <= frame.at_ns <= end_ns]


def _open_socket(device: str) -> socket.socket:
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
    packets.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, ROOM_BYTES)
    packets.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    packets.setblocking(False)
    packets.bind((device, ETH_P_ALL))
    return packets


def _data_frame(
    frame: bytes, ancillary: Sequence[tuple[int, int, bytes]], skew_ns: int
) -> Passed | None:
    if len(frame) < UDP_PAYLOAD + 8 or frame[12:15] != b"\x08\x00\x45" or frame[23] != 17:
        return None
    mark, kind, _, sequence = struct.unpack_from("!BBHI", frame, UDP_PAYLOAD)
    if mark != MARK or (kind >> 4) & 3 != DATA:
        return None
    for level, option, data in ancillary:
        if level == socket.SOL_SOCKET and option == SO_TIMESTAMPNS:
            seconds, ns = TIME.unpack(data[: TIME.size])
            return Passed(sequence, seconds * 1_000_000_000 + ns - skew_ns)
    return None


def _skew_ns() -> int:
    """Return CLOCK_REALTIME minus CLOCK_MONOTONIC."""
    return time.time_ns() - time.monotonic_ns()
