"""Special behaviour of `xdp-redirect`: lost frames without polling, long frames, refused
entries."""

from __future__ import annotations

import pytest

from switchmark.host.host import Session
from switchmark.host.kernel import netlink
from switchmark.host.kernel.netlink import VethEnd as Device
from switchmark.model.ports import ConnectMode
from switchmark.switch.support import bpf, bpf_calls
from switchmark.switch.xdp_redirect import XdpRedirect, program
from tests.integration.machine import needs_root
from tests.integration.switch_rig import BROADCAST, arrivals, available, mac_of, veth_ends

pytestmark = [
    pytest.mark.integration,
    needs_root,
]

FRAMES = 50


@pytest.fixture
def session(session: Session) -> Session:
    available("xdp-redirect")
    return session


def test_end_that_does_not_poll_loses_frames_uncounted(
    session: Session,
) -> None:
    """This is why the switch enables receive offload; the reconciliation would show it."""
    switch = XdpRedirect()
    with veth_ends(session, 2) as ends:
        try:
            switch.start(session, [end.port for end in ends], ConnectMode.CROSS_CONNECT, [0])
            ends[0].send(mac_of(1), FRAMES)
            assert len(ends[1].received(FRAMES)) == FRAMES
            netlink.set_receive_offload(Device("eth0", netns=ends[1].port.far_netns), False)
            ends[0].send(mac_of(1), FRAMES)
            assert ends[1].received() == []
            port = switch.counters().ports[1]
            assert (port.tx_frames, port.tx_dropped) == (FRAMES, 0)
        finally:
            switch.stop()


def test_frames_without_another_port_count_as_dropped(
    session: Session,
) -> None:
    switch = XdpRedirect()
    with veth_ends(session, 4) as ends:
        try:
            switch.start(session, [end.port for end in ends], ConnectMode.STATIC_MAC, [0])
            for to in (BROADCAST, mac_of(0)):  # unknown, and back to its own port
                ends[0].send(to, FRAMES)
            ends[0].send(mac_of(3), FRAMES)
            assert arrivals(ends, [0, 0, 0, FRAMES]) == [0, 0, 0, FRAMES]
            port = switch.counters().ports[0]
            assert (port.rx_frames, port.rx_dropped) == (3 * FRAMES, 2 * FRAMES)
        finally:
            switch.stop()


def test_kernel_reports_the_error_of_a_program() -> None:
    from switchmark.errors import UnavailableError

    with pytest.raises(UnavailableError, match=r"load an XDP program: .*R0"):
        bpf_calls.load_xdp(bpf.assemble([bpf.leave()]))


def test_size_of_programs_is_the_documented_size() -> None:
    """docs/switches-kernel.md states it."""
    assert [len(program(0, 3, 4, table)) // 8 for table in (None, 5)] == [21, 42]
