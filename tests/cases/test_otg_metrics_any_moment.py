"""Requests of metrics at any moment.

From https://github.com/open-traffic-generator/ixia-c/issues/67 (bytes right after the start),
https://github.com/open-traffic-generator/snappi-ixnetwork/issues/476 (still "started" long after
the end) and /445 (rates of flows that are requested one by one). Every answer is consistent: none
is an error, no flow has received more than it sent, and a stopped flow has exactly its packets and
bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import snappi

from tests.integration.otg_server import (
    add_flow,
    config_of,
    inside,
    metrics,
    serve,
    transmit,
    until_stopped,
)

pytestmark = pytest.mark.integration
FLOWS, PACKETS, SIZE = 5, 200, 128


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from serve(tmp_path_factory.mktemp("otgm"))


@pytest.fixture
def api(server: Any) -> Iterator[Any]:
    with inside(server):
        yield snappi.api(location=server.location)


def test_every_answer_is_consistent_and_the_last_is_exact(api: Any, server: Any) -> None:
    config = config_of(api, server)
    for number in range(FLOWS):
        flow = add_flow(config, f"f{number}")
        flow.duration.fixed_packets.packets = PACKETS
        flow.rate.pps = 400
    api.set_config(config)
    transmit(api)
    answers = 0
    while True:
        found = metrics(api) if answers % 2 else metrics(api, [f"f{answers % FLOWS}"])
        for result in found.values():
            assert result.transmit in ("started", "stopped")
            assert 0 <= result.frames_rx <= result.frames_tx <= PACKETS
            assert result.bytes_rx <= result.bytes_tx
        answers += 1
        if len(found) == FLOWS and all(result.transmit == "stopped" for result in found.values()):
            break
        assert answers < 20_000
    for result in until_stopped(api).values():
        assert (result.frames_tx, result.frames_rx, result.loss) == (PACKETS, PACKETS, 0)
        assert result.bytes_tx == result.bytes_rx == PACKETS * SIZE


def test_second_start_counts_from_zero(api: Any, server: Any) -> None:
    config = config_of(api, server)
    flow = add_flow(config)
    flow.duration.fixed_packets.packets = 50
    flow.rate.pps = 1000
    api.set_config(config)
    for _ in range(2):
        transmit(api)
        found = until_stopped(api)["f1"]
        assert (found.frames_tx, found.frames_rx) == (50, 50)


def test_permitted_columns_and_unknown_names(api: Any, server: Any) -> None:
    """Every filter of columns is applied; an unknown flow is refused or omitted, and does not
    change the answer for others."""
    config = config_of(api, server)
    flow = add_flow(config)
    flow.duration.fixed_packets.packets = 10
    api.set_config(config)
    transmit(api)
    until_stopped(api)
    request = api.metrics_request()
    request.flow.flow_names = ["f1"]
    request.flow.metric_names = ["frames_rx", "transmit"]
    (found,) = api.get_metrics(request).flow_metrics
    assert (found.name, found.frames_rx, found.transmit) == ("f1", 10, "stopped")
