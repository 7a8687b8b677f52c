"""A mean below the minimum, and a mean that disagrees with the histogram.

From https://github.com/cisco-system-traffic-generator/trex-core/issues/1150 (24 us reported, 40 us
by its histogram), /issues/525 (average below minimum) and
https://github.com/emmericp/MoonGen/issues/101. Minimum, percentiles, mean and maximum describe one
set of frames: they are ordered, they count the same frames, and the mean is that of the histogram,
decoded here by HdrHistogram's own library.
"""

from __future__ import annotations

import pytest
from hdrh.histogram import HdrHistogram

from tests.integration.engine_tools import Node, engine, port
from tests.integration.machine import needs_root

pytestmark = [pytest.mark.integration, needs_root]


@pytest.mark.parametrize("io", ["raw-mmsg", "af_xdp", "packet_mmap"])
def test_mean_and_extremes_are_those_of_the_histogram(wire: tuple[Node, Node], io: str) -> None:
    a, b = wire
    receiving = ["--port", port(io, b), "--latency", "1", "--idle", "yield"]
    sending = ["--port", port(io, a), "--rate", "2k", "--burst", "4", "--frames", "1000"]
    patient = ["--catch-up-us", "1000000000", "--idle", "sleep"]
    with (
        engine("receiver", *receiving, node=b) as receiver,
        engine("sender", *sending, *patient, node=a) as sender,
    ):
        receiver.tell("start patience=1s")
        receiver.wait("started")
        sender.tell("start")
        sent, _ = sender.finish("wait")
        got, _ = receiver.finish(f"stop sent={sent['totals']['tx_offered']}")
    found = got["latency"]
    decoded = HdrHistogram.decode(found["from_actual"])
    order = [float(found["percentiles"][p]) for p in ("50", "90", "99", "99.9")]
    assert found["count"] == decoded.get_total_count() == got["totals"]["rx_frames"]
    assert order == sorted(order)
    assert 0 <= found["min_ns"] <= order[0] <= order[-1] <= found["max_ns"]
    assert found["min_ns"] <= found["mean_ns"] <= found["max_ns"]
    assert found["mean_ns"] == pytest.approx(decoded.get_mean_value(), rel=0.01)
    assert found["max_ns"] == pytest.approx(decoded.get_max_value(), rel=0.01)
