"""The time from the call that sent a frame to the return of the call that got it, by the kernel.

It is an absolute time, by CLOCK_MONOTONIC, that neither the engine's clock nor its code made. Two
BPF programs look at the system calls of the two applications. When a sending call begins, its time
is kept; when a receiving call returns with something, the time since is kept. A frame that was sent
while another was on its way is left out, with that one.
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
    """The numbers of the calls that carry frames."""

    send: tuple[int, ...]  # one frame: sendto, sendmsg
    send_many: int  # sendmmsg, which returns how many
    receive: tuple[int, ...]
    receive_many: int


CALLS = {
    "x86_64": Calls((44, 46), 307, (45, 47), 299),
    "aarch64": Calls((206, 211), 269, (207, 212), 243),
}
MOST = 4096  # times that are kept; a power of two
LEAST_TIMES = 50
BELOW_NS = 1_000  # the shortest time may be too low: by rounding, or as that of a frame left out
ALONE_SHARE = 0.85  # of the frames, for a median
# In the one value of the map: when the frame on its way was sent, which thread of each process is
# in which such call, how many frames are on their way, how many times have been kept, and these.
SENT, SENDERS_CALL, RECEIVERS_CALL, ON_THE_WAY, COUNT, TIMES = 0, 8, 24, 40, 48, 56
THREAD = 8  # behind the number of the call
STACKED = -16  # where a program keeps which thread it is
VALUE_BYTES = TIMES + 8 * MOST


class CallTimes:
    """The times that the programs have kept so far."""

    def __init__(self, map_fd: int) -> None:
        self._map_fd = map_fd

    def times_ns(self) -> list[int]:
        """The times of the last frames (4096 at most) from call to return, in ns."""
        value = bpf_calls.look_up(self._map_fd, 0, VALUE_BYTES)
        (count,) = struct.unpack_from("=Q", value, COUNT)
        return list(struct.unpack_from(f"={min(count, MOST)}Q", value, TIMES))


def why_not(io: Io) -> str | None:
    """Why this I/O cannot be timed so: it moves frames without a system call for each."""
    if io in (Io.UDP, Io.UDP_MMSG, Io.RAW, Io.RAW_MMSG):
        return None
    return f"{io.value} makes no system call for each frame that could be timed"


def middle_and_least(times_ns: Sequence[int], frames: int) -> tuple[float, float]:
    """The median and the shortest time, in ns.

    The median is NaN where too many of the frames were not alone on their way: these were the late
    ones. Raises `TrialFailed` where there are too few for either."""
    if len(times_ns) < LEAST_TIMES:
        raise TrialFailed(f"only {len(times_ns)} frames were alone on their way")
    alone = len(times_ns) >= ALONE_SHARE * min(frames, MOST)
    return median(times_ns) if alone else math.nan, min(times_ns)


@contextmanager
def calls_timed(sender_pid: int, receiver_pid: int) -> Iterator[CallTimes]:
    """Time the frames from one process to the other (or to itself: round trips).

    Raises `UnavailableError` where the kernel has no such tracepoints."""
    calls = CALLS.get(platform.machine())
    if calls is None:
        raise UnavailableError(f"system calls of {platform.machine()} are not known by number")
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
            made = bpf_calls.load_program(
                bpf_calls.PROG_TYPE_RAW_TRACEPOINT,
                bpf.assemble(program),
                "a program for tracepoints",
                licence_name=b"GPL",  # or it may not read the clock
            )
            stack.callback(os.close, made)
            stack.callback(os.close, bpf_calls.attach_to_tracepoint(made, tracepoint))
        yield CallTimes(map_fd)


OUT = [bpf.set_to(0, 0).at("out"), bpf.leave()]
Process = tuple[int, int]  # its number, and where the call that it is in is kept


def _begin(map_fd: int, sender: Process, receiver: Process) -> list[Instruction]:
    """r6 = the program's context, r7 = the value, r8 = the process, one of these two."""
    return [
        bpf.move(6, 1),
        bpf.call(bpf.HELPER_PID),
        bpf.store(64, 10, STACKED, 0),
        bpf.move(8, 0),
        bpf.shift_right(8, 32),
        bpf.jump_if_equal(8, sender[0], "ours"),
        bpf.jump_unless_equal(8, receiver[0], "out"),
        bpf.set_to(2, 0).at("ours"),
        bpf.store(32, 10, -4, 2),
        *bpf.find_value(map_fd, -4, "out"),
        bpf.move(7, 0),
    ]


def _entering(map_fd: int, sender: Process, receiver: Process, calls: Calls) -> list[Instruction]:
    """Keep which thread is in which call; of one that sends, the time, if none is on its way."""
    return [
        *_begin(map_fd, sender, receiver),
        bpf.load(64, 9, 6, 8),  # which call
        bpf.load(64, 1, 10, STACKED),
        bpf.jump_unless_equal(8, receiver[0], "sender"),
        *(bpf.jump_if_equal(9, one, "receives") for one in (*calls.receive, calls.receive_many)),
        bpf.jump_unless_equal(8, sender[0], "out"),
        *(
            bpf.jump_if_equal(9, one, "sends").at("sender" if one == calls.send_many else None)
            for one in (calls.send_many, *calls.send)
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
    """Keep the time since a call received a frame, the only one on its way."""
    return [
        *_begin(map_fd, sender, receiver),
        bpf.load(64, 9, 6, 8),  # what the call returns
        bpf.load(64, 2, 10, STACKED),
        bpf.set_to(3, 0),
        bpf.jump_unless_equal(8, sender[0], "receiver"),
        bpf.load(64, 1, 7, sender[1] + THREAD),
        bpf.jump_unless_same(1, 2, "out"),
        bpf.load(64, 1, 7, sender[1]),
        bpf.store(64, 7, sender[1], 3),  # it is in none any more
        bpf.jump_if_equal(1, calls.send_many, "sent many"),
        *(bpf.jump_if_equal(1, one, "sent one") for one in calls.send),
        bpf.jump_if_equal(8, receiver[0], "returned"),
        bpf.jump("out"),
        bpf.load(64, 1, 7, receiver[1] + THREAD).at("receiver"),
        bpf.jump_unless_same(1, 2, "out"),
        bpf.load(64, 1, 7, receiver[1]),
        bpf.store(64, 7, receiver[1], 3),
        bpf.jump_unless_positive(9, "out").at("returned"),
        bpf.jump_if_equal(1, calls.receive_many, "got"),
        bpf.set_to(9, 1),
        *(bpf.jump_if_equal(1, one, "got") for one in calls.receive),
        bpf.jump("out"),
        # Before it is off its way, or it might be the next one's.
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
        # One frame was counted when the call began: more or fewer were sent.
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
