"""Frames of 9,000 bytes arrive whole, or are refused, but are never cut.

From https://github.com/FDio/vpp/issues/3475 (8,192 of 8,996 bytes came out),
https://github.com/FDio/csit/issues/3891 and https://github.com/pktgen/Pktgen-DPDK/issues/146 (the
MTU was never set). A jumbo frame needs several buffers. Each frame arrives with every byte that
was written, or the size is refused before the first frame, with the limit.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cases.engine import run_engine
from tests.integration.engine_tools import Node, engine, ip, port, veth_pair
from tests.integration.machine import needs_root

pytestmark = [pytest.mark.integration, needs_root]
SIZES = (1518, 1519, 2048, 2049, 4096, 8192, 8193, 9000, 9018)


@pytest.fixture(scope="module")
def jumbo_wire() -> Iterator[tuple[Node, Node]]:
    """A veth pair of MTU 9000."""
    with veth_pair("cj") as nodes:
        for node in nodes:
            ip("-n", node.namespace, "link", "set", node.device, "mtu", "9000")
        yield nodes


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("io", ["raw-mmsg", "packet_mmap", "io_uring", "af_xdp"])
def test_each_size_is_whole_or_refused(jumbo_wire: tuple[Node, Node], io: str, size: int) -> None:
    """Every payload byte is written and verified (`--touch`)."""
    a, b = jumbo_wire
    frame = ["--packet-size", str(size), "--touch"]
    to = ["--port", port(io, a), "--dst-mac", b.mac, *frame]
    tried = run_engine("sender", *to, "--frames", "1", "--rate", "1k", namespace=a.namespace)
    if tried.code != 0:
        assert str(size) in tried.refusal or "MTU" in tried.refusal
        return
    pace = ["--rate", "2k", "--burst", "4", "--frames", "40", "--catch-up-us", "1000000000"]
    with (
        engine("receiver", "--port", port(io, b), "--idle", "sleep", *frame, node=b) as receiver,
        engine("sender", "--port", port(io, a), *pace, "--idle", "sleep", *frame, node=a) as sender,
    ):
        receiver.tell("start patience=1s")
        receiver.wait("started")
        sender.tell("start")
        sent, _ = sender.finish("wait")
        got, _ = receiver.finish(f"stop sent={sent['totals']['tx_offered']}")
    totals = got["totals"]
    assert sent["totals"]["tx_offered"] == 40
    assert (totals["rx_frames"], totals["rx_corrupt"]) == (40, 0)
    assert totals["rx_bytes"] == 40 * size


def test_9019_bytes_are_refused() -> None:
    """One byte more than the largest frame."""
    ended = run_engine("sender", "--port", "null:", "--packet-size", "9019", "--frames", "1")
    assert "9018" in ended.refusal
