"""Injects faults: the kernel drops, copies or delays every nth frame that enters a port of the
bridge, and counts these frames.

A BPF program at the ingress of the device injects the fault, independently of the frames' content.
It is loaded without a compiler, and is removed with the namespace of the session.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from pyroute2 import NetlinkError

from switchmark.errors import UnavailableError
from switchmark.host.kernel import namespaces
from switchmark.host.kernel.netlink import route_socket
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.support import bpf, bpf_calls
from switchmark.switch.support.bpf import Instruction
from switchmark.switch.support.ports import device_of

PASS, DROP = -1, 2  # return values for traffic control
PRIORITY = 32  # offset of the frame's priority in the kernel's __sk_buff
CLOCK_NS = 12  # lower limit of the time to read the clock
MOST_LOOPS = 4000  # iterations of a loop; the verifier follows each, and at most 8192 jumps
ALL, FAULTY, PRIVATE = 0, 8, 16  # offsets in the map's value: two counts, and data of a fault
VALUE_BYTES = PRIVATE + 24


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that happens to every nth frame."""

    every: int
    action: tuple[Instruction, ...]


def drop(every: int) -> Fault:
    """Return a fault that drops the frame."""
    return Fault(every, (bpf.set_to(0, DROP), bpf.leave()))


def copy(every: int, to_index: int) -> Fault:
    """Return a fault that sends a copy by the device with this index, before the frame."""
    clone = (bpf.move(1, 6), bpf.set_to(2, to_index), bpf.set_to(3, 0))
    return Fault(every, (*clone, bpf.call(bpf.HELPER_CLONE_REDIRECT)))


def classify(every: int, number: int) -> Fault:
    """Return a fault that assigns the frame to this class of the next queueing discipline."""
    return Fault(every, (bpf.set_to(2, number), bpf.store(32, 6, PRIORITY, 2)))


def delay(delay_ns: int, every: int = 1) -> Fault:
    """Return a fault in which the kernel waits for this time, by its clock. No other frame passes
    meanwhile."""
    readings = 1 + delay_ns // (CLOCK_NS * MOST_LOOPS)  # clock readings in each iteration
    loop = (
        bpf.call(bpf.HELPER_TIME_NS),
        bpf.move(7, 0),
        bpf.set_to(9, MOST_LOOPS),
        bpf.call(bpf.HELPER_TIME_NS).at("again"),
        *[bpf.call(bpf.HELPER_TIME_NS)] * (readings - 1),
        bpf.subtract(0, 7),
        bpf.jump_if_at_least(0, delay_ns, "pass"),
        bpf.add(9, -1),
        bpf.jump_unless_equal(9, 0, "again"),
    )
    return Fault(every, loop)


class FaultCounts:
    """The kernel's counts since the begin of the fault."""

    def __init__(self, map_fd: int) -> None:
        self._map_fd = map_fd

    def counts(self) -> tuple[int, int]:
        """Return the number of all frames, and of frames with the fault."""
        frames, faulty = struct.unpack_from("=QQ", bpf_calls.look_up(self._map_fd, 0, VALUE_BYTES))
        return frames, faulty


@contextmanager
def inject(switch: LinuxBridge, fault: Fault, *ports: int) -> Iterator[FaultCounts]:
    """Inject the fault into frames that enter by these ports (0: the sender's). All ports share
    the counts.

    Raise `UnavailableError` if the kernel or its traffic control lacks BPF."""
    netns, devices = switch.namespace.name, [device_of(switch.ports[k]) for k in ports]
    with ExitStack() as stack:
        map_fd = bpf_calls.create_map(bpf_calls.MAP_ARRAY, 4, VALUE_BYTES, 1)
        stack.callback(os.close, map_fd)
        program = bpf.assemble(_program(map_fd, fault))
        program_fd = bpf_calls.load_program(
            bpf_calls.PROG_TYPE_TC, program, "a program for traffic control", licence_name=b"GPL"
        )
        stack.callback(os.close, program_fd)
        namespaces.inside(netns, lambda: _hook(devices, program_fd))
        stack.callback(namespaces.inside, netns, lambda: _unhook(devices))
        yield FaultCounts(map_fd)


def index_of(switch: LinuxBridge, port: int) -> int:
    """Return the index of the device of a port, in its namespace."""

    def look_up() -> int:
        with route_socket() as route:
            return int(route.link_lookup(ifname=device_of(switch.ports[port]))[0])

    return namespaces.inside(switch.namespace.name, look_up)


def _program(map_fd: int, fault: Fault) -> list[Instruction]:
    return [
        bpf.move(6, 1),
        bpf.set_to(2, 0),
        bpf.store(32, 10, -4, 2),
        *bpf.find_value(map_fd, -4, "pass"),
        bpf.move(7, 0),
        bpf.set_to(8, 1),
        bpf.fetch_add(7, ALL, 8),
        bpf.add(8, 1),
        bpf.remainder(8, fault.every),
        bpf.jump_unless_equal(8, 0, "pass"),
        bpf.set_to(8, 1),
        bpf.fetch_add(7, FAULTY, 8),
        *fault.action,
        bpf.set_to(0, PASS).at("pass"),
        bpf.leave(),
    ]


def _hook(devices: Sequence[str], program_fd: int) -> None:
    try:
        with route_socket() as route:
            for device in devices:
                index = route.link_lookup(ifname=device)[0]
                route.tc("add", "clsact", index)
                route.tc("add-filter", "bpf", index, ":1", fd=program_fd, name="switchmark",
                         parent="ffff:fff2", classid=1, direct_action=True)  # fmt: skip
    except NetlinkError as error:
        raise UnavailableError(
            f"traffic control does not accept a BPF program ({error}): use a kernel with "
            "CONFIG_NET_CLS_BPF and CONFIG_NET_SCH_INGRESS"
        ) from None


def _unhook(devices: Sequence[str]) -> None:
    with route_socket() as route, suppress(NetlinkError):
        for device in devices:
            route.tc("del", "clsact", route.link_lookup(ifname=device)[0])
