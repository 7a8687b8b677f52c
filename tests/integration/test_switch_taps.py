"""Switches with taps, as for virtual machines: the test takes the place of the machine. Frames
written to one tap come out of the other, whole, and no tap remains."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from switchmark.host.kernel import netlink
from switchmark.host.session import open_session
from switchmark.host.undo.entries import NetworkDevice
from switchmark.model.ports import PortKind, SwitchPort
from switchmark.switch.registry import SWITCHES, make_switch
from tests.integration.machine import needs_root
from tests.integration.switch_rig import ETHERTYPE, available, mac_bytes, mac_of, own_state_dir

pytestmark = [pytest.mark.alone, pytest.mark.integration, needs_root]
TAKE_TAPS = [
    name
    for name in SWITCHES
    if PortKind.TAP in (capabilities := make_switch(name).capabilities).port_kinds
    and not capabilities.only_routes
]
FRAMES = 200
DEADLINE_S = 30.0
BYTES = 2048


@contextmanager
def opened(device: str) -> Iterator[int]:
    """Open a tap like a virtual machine: non-blocking."""
    flags = netlink.IFF_TAP | netlink.IFF_NO_PI
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(tap, netlink.TUNSETIFF, struct.pack("16sH22x", device.encode(), flags))
        yield tap
    finally:
        os.close(tap)


def frame(source: int, target: int, number: int) -> bytes:
    head = mac_bytes(mac_of(target)) + mac_bytes(mac_of(source)) + ETHERTYPE.to_bytes(2)
    return head + number.to_bytes(4) + bytes(range(42))


def read(tap: int) -> list[bytes]:
    """Return every frame of the test that has arrived."""
    found: list[Any] = []
    while True:
        try:
            data = os.read(tap, BYTES)
        except BlockingIOError:
            return [each for each in found if each[12:14] == ETHERTYPE.to_bytes(2)]
        found.append(data)


@pytest.mark.parametrize("name", TAKE_TAPS)
def test_frames_pass_between_two_taps(name: str) -> None:
    switch = available(name)
    with own_state_dir(), open_session(measuring=False) as session, ExitStack() as stack:
        ports, taps = [], []
        for index in range(2):
            device = f"sm{session.id}t{index}"
            session.ledger.record(NetworkDevice(device))
            netlink.create_tap(device, 1500)
            taps.append(stack.enter_context(opened(device)))
            ports.append(SwitchPort(index, PortKind.TAP, mac_of(index), device))
        mode = switch.capabilities.connect_modes[0]
        stack.callback(switch.stop)
        switch.start(session, ports, mode, sorted(os.sched_getaffinity(0))[:1])
        switch.wait_ports_up(DEADLINE_S)
        switch.wait_converged()
        for source, target in ((1, 0), (0, 1)):  # each address is learnt before frames go to it
            expected = {frame(source, target, number) for number in range(FRAMES)}
            came: set[bytes] = set()
            deadline = time.monotonic() + DEADLINE_S
            while (left := expected - came) and time.monotonic() < deadline:
                os.write(taps[source], min(left))
                came |= set(read(taps[target]))
            assert not left, f"{len(left)} of {FRAMES} frames did not come to tap {target}"
            assert came == expected, "frames arrive unchanged"
    assert not list(Path("/sys/class/net").glob(f"sm{session.id}*"))
