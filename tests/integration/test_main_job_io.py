"""The main job over the kernel's rings, AF_XDP and io_uring: every frame of a paced trial passes
a bridge and Open vSwitch, from namespaces and from containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.model.choices import Dimension
from tests.integration.machine import needs_root
from tests.integration.main_job import (
    SHORT,
    Bench,
    campaign_file,
    describe,
    need,
    settings,
    totals,
)
from tests.integration.test_engine_kernel_io import missing

pytestmark = [pytest.mark.integration, needs_root]

JOB = """\
switch: {switch}
environment: {environment}
io: [{ios}]
dimension: [{dimensions}]
connect_mode: learning
packet_size: 128
rate: 2k
duration: 800ms
throughput:
  burst: 4
"""


@pytest.mark.parametrize(
    ("switch", "environment", "dimensions"),
    [
        ("linux-bridge", "netns", ("throughput", "latency")),
        ("linux-bridge", "lxc", ("throughput",)),
        pytest.param("ovs-netdev", "lxc", ("throughput",), marks=pytest.mark.slow),
    ],
)
def test_frames_pass_by_every_io(
    bench: Bench, tmp_path: Path, switch: str, environment: str, dimensions: tuple[str, ...]
) -> None:
    need((switch,), (environment,))
    ios = [io for io in ("packet-mmap", "af-xdp", "io-uring") if not missing(io.replace("-", "_"))]
    names = {"ios": ", ".join(ios), "dimensions": ", ".join(dimensions)}
    text = JOB.format(switch=switch, environment=environment, **names)
    command = ("run", campaign_file(tmp_path, text), "--no-baseline", *settings(*SHORT))
    code, _, err = bench.run_to_the_end(*command)
    assert code == 0, err
    records = bench.records()
    assert sorted(record.io for record in records) == sorted(ios * len(dimensions))
    for record in records:
        if record.trial.dimension is Dimension.LATENCY:
            assert record.latency is not None and record.latency.count > 0, describe(record)
            continue
        assert record.throughput is not None, describe(record)
        assert totals(record, "receiver")["rx_frames"] > 0, describe(record)
        (pair,) = record.throughput.pairs
        assert pair.corrupt == pair.duplicates == 0, describe(record)
        if switch == "linux-bridge":  # one in user space loses frames where it gets no core
            assert pair.lost_frames == 0, describe(record)


def test_a_port_without_a_device_is_refused_before_anything_runs(
    bench: Bench, tmp_path: Path
) -> None:
    text = "switch: linux-bridge\nport_kind: vhost-user\nio: af-xdp\n"
    code, _, err = bench.run("run", campaign_file(tmp_path, text))
    assert code == 2, err
    assert "vhost-user" in err
