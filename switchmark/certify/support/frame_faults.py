"""Makes the kernel drop, copy or delay one in so many of the frames that enter by a port of the
bridge, and count which.

A BPF program at the ingress of the device, loaded without a compiler, does it; it knows nothing of
our frames. It goes with the device, and the device with the session's namespace.
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

PASS, DROP = -1, 2  # what a program tells traffic control
PRIORITY = 32  # of the frame, in the kernel's __sk_buff
CLOCK_NS = 12  # reading the clock never takes less
MOST_TURNS = 4000  # of a loop; the verifier follows each, and 8192 jumps at most
SEEN, STRUCK, OWN = 0, 8, 16  # in the one value of the map: two counts, and what a fault keeps
VALUE_BYTES = OWN + 24


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, and to which frames it happens: one in so many."""

    every: int
    action: tuple[Instruction, ...]


def dropped(every: int) -> Fault:
    """The frame is lost."""
    return Fault(every, (bpf.set_to(0, DROP), bpf.leave()))


def copied(every: int, to_index: int) -> Fault:
    """A copy leaves by the device of that number before the frame goes on."""
    clone = (bpf.move(1, 6), bpf.set_to(2, to_index), bpf.set_to(3, 0))
    return Fault(every, (*clone, bpf.call(bpf.HELPER_CLONE_REDIRECT)))


def classed(every: int, number: int) -> Fault:
    """The frame belongs to that class of the queueing discipline behind the bridge."""
    return Fault(every, (bpf.set_to(2, number), bpf.store(32, 6, PRIORITY, 2)))


def delayed(delay_ns: int, every: int = 1) -> Fault:
    """Each frame costs the kernel so long, by its own clock: nothing else passes meanwhile."""
    readings = 1 + delay_ns // (CLOCK_NS * MOST_TURNS)  # of the clock in each turn
    loop = (
        bpf.call(bpf.HELPER_TIME_NS),
        bpf.move(7, 0),
        bpf.set_to(9, MOST_TURNS),
        bpf.call(bpf.HELPER_TIME_NS).at("again"),
        *[bpf.call(bpf.HELPER_TIME_NS)] * (readings - 1),
        bpf.subtract(0, 7),
        bpf.jump_if_at_least(0, delay_ns, "pass"),
        bpf.add(9, -1),
        bpf.jump_unless_equal(9, 0, "again"),
    )
    return Fault(every, loop)


class Struck:
    """The kernel's counts since the fault was set."""

    def __init__(self, map_fd: int) -> None:
        self._map_fd = map_fd

    def counts(self) -> tuple[int, int]:
        """The numbers of frames that came in, and to which the fault happened."""
        seen, struck = struct.unpack_from("=QQ", bpf_calls.look_up(self._map_fd, 0, VALUE_BYTES))
        return seen, struck


@contextmanager
def struck(switch: LinuxBridge, fault: Fault, *ports: int) -> Iterator[Struck]:
    """Set the fault for frames that enter by these ports (0: the sender's); they are counted
    together.

    Raises `UnavailableError` where the kernel lacks BPF, or its traffic control does."""
    netns, devices = switch.namespace.name, [device_of(switch.ports[k]) for k in ports]
    with ExitStack() as stack:
        map_fd = bpf_calls.create_map(bpf_calls.MAP_ARRAY, 4, VALUE_BYTES, 1)
        stack.callback(os.close, map_fd)
        program = bpf.assemble(_program(map_fd, fault))
        made = bpf_calls.load_program(
            bpf_calls.PROG_TYPE_TC, program, "a program for traffic control", licence_name=b"GPL"
        )
        stack.callback(os.close, made)
        namespaces.inside(netns, lambda: _hook(devices, made))
        stack.callback(namespaces.inside, netns, lambda: _unhook(devices))
        yield Struck(map_fd)


def index_of(switch: LinuxBridge, port: int) -> int:
    """The number of the device of a port, in its namespace."""

    def look() -> int:
        with route_socket() as route:
            return int(route.link_lookup(ifname=device_of(switch.ports[port]))[0])

    return namespaces.inside(switch.namespace.name, look)


def _program(map_fd: int, fault: Fault) -> list[Instruction]:
    return [
        bpf.move(6, 1),
        bpf.set_to(2, 0),
        bpf.store(32, 10, -4, 2),
        *bpf.find_value(map_fd, -4, "pass"),
        bpf.move(7, 0),
        bpf.set_to(8, 1),
        bpf.fetch_add(7, SEEN, 8),
        bpf.add(8, 1),
        bpf.remainder(8, fault.every),
        bpf.jump_unless_equal(8, 0, "pass"),
        bpf.set_to(8, 1),
        bpf.fetch_add(7, STRUCK, 8),
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
            f"traffic control takes no BPF program ({error}): use a kernel with CONFIG_NET_CLS_BPF"
            " and CONFIG_NET_SCH_INGRESS"
        ) from None


def _unhook(devices: Sequence[str]) -> None:
    with route_socket() as route, suppress(NetlinkError):
        for device in devices:
            route.tc("del", "clsact", route.link_lookup(ifname=device)[0])
