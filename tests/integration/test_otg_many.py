"""As many OTG flows as a configuration may have."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import snappi

from switchmark.engine.binary import build_problem, find_engine
from tests.integration.otg_server import (
    add_flow,
    config_of,
    inside,
    metrics,
    serve,
    transmit,
    until_stopped,
)
from tests.integration.waiting import until

pytestmark = pytest.mark.integration

FLOWS = 256
ROLES = ("sender", "receiver")
ENGINES_MEMORY_KIB = 2 << 20


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Any]:
    yield from serve(tmp_path)


def own_memory_kib(pid: int) -> int:
    """Return the size of the pages that a process shares with no file."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    match = re.search(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
    assert match is not None
    return int(match[1])


def frames_sent(api: Any) -> int:
    time.sleep(1.0)  # as clients do: the response for so many flows takes CPU time
    return sum(metric.frames_tx for metric in metrics(api).values())


def test_256_flows_are_counted_and_fit_into_2_gib(server: Any) -> None:
    with inside(server):
        api = snappi.api(location=server.location)
        config = config_of(api, server)
        for number in range(FLOWS):
            flow = add_flow(config, f"f{number}")
            flow.size.fixed = 64
            flow.rate.pps = 1
        api.set_config(config)
        transmit(api)
        until(lambda: frames_sent(api) >= FLOWS, "frames", 120)
        printed = json.load(urllib.request.urlopen(server.location + "/switchmark/results"))
        pids = [flow[role]["ready"]["pid"] for flow in printed.values() for role in ROLES]
        assert len(set(pids)) == 2 * FLOWS
        memory_kib = sum(own_memory_kib(pid) for pid in pids)
        transmit(api, "stop")
        found = until_stopped(api)
    assert len(found) == FLOWS
    for metric in found.values():
        assert metric.frames_rx == metric.frames_tx
        assert not metric.loss
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    if build_problem(find_engine()) is None:  # a sanitizer also needs memory
        assert memory_kib < ENGINES_MEMORY_KIB
