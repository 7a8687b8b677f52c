"""Two VLAN tags, 802.1ad outside and 802.1Q inside, through snappi by packet sockets and DPDK."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import snappi

from tests.integration import dpdk_rig
from tests.integration.otg_server import (
    A_MAC,
    B_MAC,
    add_flow,
    capture,
    config_of,
    inside,
    mac,
    metrics,
    packets,
    serve,
    transmit,
    until_stopped,
)
from tests.integration.test_otg_conformance import offered

pytestmark = [pytest.mark.integration, *dpdk_rig.needs_dpdk]
TAGS = bytes.fromhex("88a800c8810000640800")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    more = ["--port", "d1=dpdk:af-packet=otga"]
    yield from serve(tmp_path_factory.mktemp("tags"), *offered([], []), *more)


@pytest.fixture
def api(server: Any) -> Iterator[Any]:
    with inside(server):
        yield snappi.api(location=server.location)


def doubly_tagged(config: Any, **more: Any) -> Any:
    flow = add_flow(config, **more)
    flow.packet.clear()
    ethernet, outer, inner, _, _ = flow.packet.ethernet().vlan().vlan().ipv4().udp()
    ethernet.src.value, ethernet.dst.value = A_MAC, B_MAC
    outer.id.value, inner.id.value = 200, 100
    return flow


@pytest.mark.parametrize("location", ["otga", "d1"])
@pytest.mark.parametrize("is_counted", [False, True])
def test_two_tags_are_sent_and_counted(
    api: Any, server: Any, location: Any, is_counted: Any
) -> None:
    """From the engine's own frames, and from a file if many values are set."""
    config = config_of(api, server, capture=shutil.which("tcpdump") is not None)
    config.ports[0].location = location
    flow = doubly_tagged(config)
    flow.rate.pps = 400
    if is_counted:
        flow.duration.fixed_packets.packets = 40
        flow.packet[-1].src_port.values = [5, 7]
    else:
        flow.duration.fixed_seconds.seconds = 0.1
    api.set_config(config)
    if config.captures:
        capture(api, "start")
    transmit(api)
    found = until_stopped(api)["f1"]
    assert 0 < found.frames_tx == found.frames_rx <= 40
    assert found.frames_tx == 40 or not is_counted
    assert (found.loss, found.bytes_rx) == (0, 128 * found.frames_rx)
    if config.captures:
        capture(api, "stop")
        request = api.capture_request()
        request.port_name = "p2"
        frames = [one for one in packets(api.get_capture(request)) if one[6:12] == mac(A_MAC)]
        assert len(frames) == found.frames_tx
        assert {(len(one), one[12:22]) for one in frames} == {(128, TAGS)}


def test_dpdk_receiver_counts_one_tag_and_refuses_two(api: Any, server: Any) -> None:
    config = config_of(api, server)
    config.ports[0].location = "d1"
    doubly_tagged(config, turned=True)
    message = r"flows\[0\]\.packet\[2\]\.vlan: .* af-packet port p1 gives the outer of two"
    with pytest.raises(Exception, match=message):
        api.set_config(config)
    config = config_of(api, server)
    config.ports[0].location = "d1"
    flow = add_flow(config, vlan=100, turned=True)
    flow.rate.pps, flow.duration.fixed_packets.packets = 400, 20
    api.set_config(config)
    transmit(api)
    until_stopped(api)
    assert (metrics(api)["f1"].frames_rx, metrics(api)["f1"].loss) == (20, 0)
