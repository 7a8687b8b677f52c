"""AF_XDP loses bursts, and no counter shows the loss.

From https://github.com/xdp-project/xdp-tutorial/issues/116 (bursts of 150 frames on veth),
/issues/92 and /issues/238. Frames that a sender's port accepted and that a receiver did not get are
in a named counter: that of the receiver's socket, or that of the device in the kernel. No frame is
lost without a counter.
"""

from __future__ import annotations

import json

import pytest

from tests.integration.engine_tools import Node, engine, ip, port
from tests.integration.machine import needs_root

pytestmark = [pytest.mark.integration, needs_root]


def device_drops(node: Node) -> int:
    """Return what the kernel dropped at a device, in either direction."""
    (link,) = json.loads(ip("-n", node.namespace, "-j", "-s", "link", "show", "dev", node.device))
    stats = link["stats64"]
    return sum(int(stats[way][name]) for way in ("rx", "tx") for name in ("dropped", "errors"))


@pytest.mark.parametrize("io", ["af_xdp", "raw-mmsg"])
@pytest.mark.parametrize("burst", [1, 150])
def test_each_lost_frame_has_an_owner(wire: tuple[Node, Node], io: str, burst: int) -> None:
    """1,500 frames of 1,024 bytes in bursts of on-off load, to a receiver that sleeps meanwhile."""
    a, b = wire
    size = ["--packet-size", "1024"]
    load = ["--rate", "150k", "--burst", str(burst), "--schedule", "on-off:1ms:20ms"]
    patient = ["--idle", "sleep", "--catch-up-us", "1000000000", "--frames", "1500"]
    before = device_drops(a) + device_drops(b)
    with (
        engine("receiver", "--port", port(io, b), "--idle", "sleep", *size, node=b) as receiver,
        engine("sender", "--port", port(io, a), *size, *load, *patient, node=a) as sender,
    ):
        receiver.tell("start patience=1s")
        receiver.wait("started")
        sender.tell("start")
        sent, code = sender.finish("wait")
        assert code == 0
        offered = sent["totals"]["tx_offered"]
        got, code = receiver.finish(f"stop sent={offered}")
        assert code == 0
    totals = got["totals"]
    assert offered == 1500
    owned = totals["rx_socket_drops"] + device_drops(a) + device_drops(b) - before
    assert totals["rx_frames"] + owned >= offered
    assert totals["rx_frames"] <= offered
    assert totals["rx_corrupt"] == totals["rx_other"] == 0
