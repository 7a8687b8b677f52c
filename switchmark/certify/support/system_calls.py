"""Times frames by the kernel, from the call that sends to the return of the call that receives.

These are absolute times by CLOCK_MONOTONIC, independent of the engine's clock and code. Two BPF
programs trace the system calls of the two applications. They store the time at which a sending call
begins, and the time from it to the return of a receiving call with a frame. Two frames that are on
their way at the same time are both left out.
"""

from __future__ import annotations

import math
import os
import platform
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median

from switchmark.errors import TrialFailed, UnavailableError
from switchmark.model.io import Io
from switchmark.switch.support import bpf, bpf_calls
from switchmark.switch.support.bpf import Instruction


@dataclass(frozen=True, slots=True)
class Calls:
    """The numbers of the system calls that carry frames."""

    send: tuple[int, ...]  # one frame: sendto, sendmsg
    send_many: int  # sendmmsg, which returns the number of frames
    receive: tuple[int, ...]
    receive_many: int


CALLS = {
    "x86_64": Calls((44, 46), 307, (45, 47), 299),
    "aarch64": Calls((206, 211), 269, (207, 212), 243),
}
MOST = 4096  # number of stored times, a power of two
LEAST_TIMES = 50
BELOW_NS = 1_000  # the shortest time may be too low, by rounding or because of a frame left out
ALONE_SHARE = 0.85  # least share of frames with a time, for a median
# Offsets in the map's value: the time at which the frame on its way was sent; the call and thread
# of each process; the numbers of frames on their way and of stored times; the stored times.
SENT, SENDERS_CALL, RECEIVERS_CALL, ON_THE_WAY, COUNT, TIMES = 0, 8, 24, 40, 48, 56
THREAD = 8  # offset of the thread after the number of the call
STACKED = -16  # offset of the thread on a program's stack
VALUE_BYTES = TIMES + 8 * MOST


class CallTimes:
    """The times that the programs have stored so far."""

    def __init__(self, map_fd: int) -> None:
        self._map_fd = map_fd

    def times_ns(self) -> list[int]:
        """Return the times of the last frames (at most 4096) in ns."""
        value = bpf_calls.look_up(self._map_fd, 0, VALUE_BYTES)
        (count,) = struct.unpack_from("=Q", value, COUNT)
        return list(struct.unpack_from(f"={min(count, MOST)}Q", value, TIMES))


def why_not(io: Io) -> str | None:
    """Return why this I/O cannot be timed in this way; None if each frame has a system call."""
    if io in (Io.UDP, Io.UDP_MMSG, Io.RAW, Io.RAW_MMSG):
        return None
    return f"{io.value} makes no system call for each frame that could be timed"


def median_and_least(times_ns: Sequence[int], frames: int) -> tuple[float, float]:
    """Return the median and the shortest time, in ns.

    The median is NaN if too many frames were not alone on their way, since those frames were late.
    Raise `TrialFailed` if there are too few times."""
    if len(times_ns) < LEAST_TIMES:
        raise TrialFailed(f"only {len(times_ns)} frames were alone on their way")
    alone = len(times_ns) >= ALONE_SHARE * min(frames, MOST)
    return median(times_ns) if alone else math.nan, min(times_ns)


@contextmanager
def time_calls(sender_pid: int, receiver_pid: int) -> Iterator[CallTimes]:
    """Time the frames from one process to another, or round trips if both are the same process.

    Raise `UnavailableError` if the kernel lacks the tracepoints."""
    calls = CALLS.get(platform.machine())
    if calls is None:
        raise UnavailableError(f"the numbers of system calls of {platform.machine()} are unknown")
    sender, receiver = (sender_pid, SENDERS_CALL), (receiver_pid, RECEIVERS_CALL)
    if sender_pid == receiver_pid:
        receiver = sender
    with ExitStack() as stack:
        map_fd = bpf_calls.create_map(bpf_calls.MAP_ARRAY, 4, VALUE_BYTES, 1)
        stack.callback(os.close, map_fd)
        for tracepoint, program in (
            ("sys_enter", _entering(map_fd, sender, receiver, calls)),
            ("sys_exit", _returning(map_fd, sender, receiver, calls)),
        ):
            program_fd = bpf_calls.load_program(
                bpf_calls.PROG_TYPE_RAW_TRACEPOINT,
                bpf.assemble(program),
                "a program for tracepoints",
                licence_name=b"GPL",  # the kernel requires it for reading the clock
            )
            stack.callback(os.close, program_fd)
            stack.callback(os.close, bpf_calls.attach_to_tracepoint(program_fd, tracepoint))
        yield CallTimes(map_fd)


OUT = [bpf.set_to(0, 0).at("out"), bpf.leave()]
Process = tuple[int, int]  # process id, and offset of its present call


def _begin(map_fd: int, sender: Process, receiver: Process) -> list[Instruction]:
    """Set r6 to the program's context, r7 to the map's value, r8 to the process id. Leave the
    program if this is another process."""
    return [
        bpf.move(6, 1),
        bpf.call(bpf.HELPER_PID),
        bpf.store(64, 10, STACKED, 0),
        bpf.move(8, 0),
        bpf.shift_right(8, 32),
        bpf.jump_if_equal(8, sender[0], "match"),
        bpf.jump_unless_equal(8, receiver[0], "out"),
        bpf.set_to(2, 0).at("match"),
        bpf.store(32, 10, -4, 2),
        *bpf.find_value(map_fd, -4, "out"),
        bpf.move(7, 0),
    ]


def _entering(map_fd: int, sender: Process, receiver: Process, calls: Calls) -> list[Instruction]:
    """Store the call of the thread. For a sending call, also store the time, if no frame is on its
    way."""
    return [
        *_begin(map_fd, sender, receiver),
        bpf.load(64, 9, 6, 8),  # number of the call
        bpf.load(64, 1, 10, STACKED),
        bpf.jump_unless_equal(8, receiver[0], "sender"),
        *(bpf.jump_if_equal(9, call, "receives") for call in (*calls.receive, calls.receive_many)),
        bpf.jump_unless_equal(8, sender[0], "out"),
        *(
            bpf.jump_if_equal(9, call, "sends").at("sender" if call == calls.send_many else None)
            for call in (calls.send_many, *calls.send)
        ),
        bpf.jump("out"),
        bpf.store(64, 7, receiver[1], 9).at("receives"),
        bpf.store(64, 7, receiver[1] + THREAD, 1),
        bpf.jump("out"),
        bpf.store(64, 7, sender[1], 9).at("sends"),
        bpf.store(64, 7, sender[1] + THREAD, 1),
        bpf.set_to(1, 1),
        bpf.fetch_add(7, ON_THE_WAY, 1),
        bpf.set_to(0, 0),
        bpf.jump_unless_equal(1, 0, "keep"),
        bpf.call(bpf.HELPER_TIME_NS),
        bpf.store(64, 7, SENT, 0).at("keep"),
        *OUT,
    ]


def _returning(map_fd: int, sender: Process, receiver: Process, calls: Calls) -> list[Instruction]:
    """Store the time of a frame that a call has received, if it was alone on its way."""
    return [
        *_begin(map_fd, sender, receiver),
        bpf.load(64, 9, 6, 8),  # return value of the call
        bpf.load(64, 2, 10, STACKED),
        bpf.set_to(3, 0),
        bpf.jump_unless_equal(8, sender[0], "receiver"),
        bpf.load(64, 1, 7, sender[1] + THREAD),
        bpf.jump_unless_same(1, 2, "out"),
        bpf.load(64, 1, 7, sender[1]),
        bpf.store(64, 7, sender[1], 3),  # no present call
        bpf.jump_if_equal(1, calls.send_many, "sent many"),
        *(bpf.jump_if_equal(1, call, "sent one") for call in calls.send),
        bpf.jump_if_equal(8, receiver[0], "returned"),
        bpf.jump("out"),
        bpf.load(64, 1, 7, receiver[1] + THREAD).at("receiver"),
        bpf.jump_unless_same(1, 2, "out"),
        bpf.load(64, 1, 7, receiver[1]),
        bpf.store(64, 7, receiver[1], 3),
        bpf.jump_unless_positive(9, "out").at("returned"),
        bpf.jump_if_equal(1, calls.receive_many, "got"),
        bpf.set_to(9, 1),
        *(bpf.jump_if_equal(1, call, "got") for call in calls.receive),
        bpf.jump("out"),
        # Load the time before the count decreases, since the next frame then overwrites it.
        bpf.load(64, 8, 7, SENT).at("got"),
        bpf.set_to(1, 0),
        bpf.subtract(1, 9),
        bpf.fetch_add(7, ON_THE_WAY, 1),
        bpf.jump_unless_equal(1, 1, "out"),
        bpf.jump_unless_equal(9, 1, "out"),
        bpf.jump_if_equal(8, 0, "out"),
        bpf.call(bpf.HELPER_TIME_NS),
        bpf.subtract(0, 8),
        bpf.load(64, 1, 7, COUNT),
        bpf.move(2, 1),
        bpf.add(2, 1),
        bpf.store(64, 7, COUNT, 2),
        bpf.mask(1, MOST - 1),
        bpf.shift_left(1, 3),
        bpf.join(7, 1),
        bpf.store(64, 7, TIMES, 0),
        bpf.jump("out"),
        # One frame was counted when the call began. Correct the count.
        bpf.jump_unless_positive(9, "none").at("sent one"),
        bpf.jump("out"),
        bpf.jump_unless_positive(9, "none").at("sent many"),
        bpf.add(9, -1),
        bpf.fetch_add(7, ON_THE_WAY, 9),
        bpf.jump("out"),
        bpf.set_to(9, -1).at("none"),
        bpf.fetch_add(7, ON_THE_WAY, 9),
        *OUT,
    ]
