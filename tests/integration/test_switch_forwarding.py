"""The first part of the contract: the output ports of each switch in each connect mode, and
counters that agree with sent and received frames. Real frames on real ports.

Each test runs for every switch that this machine can run; the others are skipped by name with
reason and remedy.
"""

from __future__ import annotations

import os

import pytest

from switchmark.host.host import Session
from switchmark.model.ports import ConnectMode
from switchmark.switch.registry import SWITCHES
from switchmark.switch.support.ports import WITNESS_MAC
from tests.integration.machine import needs_root
from tests.integration.switch_rig import (
    REAL,
    VethEnd,
    VhostEnd,
    available,
    port_ends,
    vhost_ends,
)
from tests.integration.switch_traffic import (
    address_of,
    bring_up,
    veth_bridge,
    veth_flooding,
    veth_peers,
    veth_wires,
    vhost_flooding,
    vhost_peers,
    witness,
)
from tests.integration.waiting import until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
]

LAST_CORE = max(os.sched_getaffinity(0))  # some programs use the first core by accident

MODES = [
    pytest.param(name, mode, id=f"{name}-{mode}")
    for name in REAL
    for mode in SWITCHES[name]().capabilities.connect_modes
]


@pytest.mark.parametrize(("name", "mode"), MODES)
def test_switch_forwards_by_its_mode_and_counts(
    name: str, mode: ConnectMode, session: Session
) -> None:
    """Two pairs in both directions; before that, frames to unknown addresses."""
    switch = available(name)
    with port_ends(session, switch, 4, core=0) as ends:
        devices = [end for end in ends if isinstance(end, VethEnd)]
        sockets = [end for end in ends if isinstance(end, VhostEnd)]
        addresses = [address_of(end) for end in devices if end.port.device]
        try:
            bring_up(switch, session, ends, mode, LAST_CORE)
            if sockets:
                for end in sockets:
                    end.tell()  # wait until its ports are up
                vhost_flooding(switch, sockets, mode)
                vhost_peers(switch, sockets, mode)
            else:
                if mode is ConnectMode.CROSS_CONNECT:
                    veth_wires(switch, devices, addresses)
                elif mode is ConnectMode.VEB:
                    veth_bridge(switch, devices)
                else:
                    veth_flooding(switch, devices, mode)
                veth_peers(switch, devices)
            details = switch.details()
            assert details["version"]
            assert details["connect_mode"] == mode.value
        finally:
            switch.stop()


def test_fastclick_counts_misdirected_frames(session: Session) -> None:
    """Its table drops unknown addresses, so the monitor port is an entry, which counts."""
    switch = available("fastclick")
    with vhost_ends(session, 2) as ends:
        try:
            bring_up(switch, session, ends, ConnectMode.STATIC_MAC)
            ends[0].send_for(0.02, to=WITNESS_MAC)
            sent = ends[0].wait_settled()[1]
            assert sent > 0
            until(lambda: witness(switch) == sent, f"{sent} frames at the witness")
        finally:
            switch.stop()
