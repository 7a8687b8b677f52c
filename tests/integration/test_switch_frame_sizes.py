"""Frames of every size and tag pass each switch whole, through each port kind and each I/O, or
`plan` refuses the cell. The cells come from the tables of switches, port kinds and I/Os."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from switchmark.api import Campaign
from switchmark.campaign.installed import installed
from switchmark.errors import UnavailableError, UsageError
from switchmark.experiment.prepare import prepare
from switchmark.model.io import IO_ROWS, Io
from switchmark.model.ports import PortKind
from switchmark.record import Record
from tests.integration.machine import needs_root
from tests.integration.main_job import STARVED
from tests.integration.switch_rig import available

pytestmark = [pytest.mark.integration, needs_root]

SWITCHES = (
    "direct", "linux-bridge", "macvlan", "tc-redirect", "xdp-redirect", "af-packet", "ovs-netdev",
    "ovs-afxdp", "basicfwd", "testpmd", "ovs-dpdk",
)  # fmt: skip
SIZES = (64, 1518, 1519, 1522, 1523, 1986, 2020, 2052, 2053, 4000, 9000, 9018)
TAGS = ("none", "100", "200.100")
KINDS = (PortKind.VETH, PortKind.MACVLAN, PortKind.VHOST_USER, PortKind.MEMIF)  # guests test taps
ATTEMPTS = 3
MOST_LOST = 0.1  # if the size is the cause, all frames are lost


def combinations() -> list[tuple[str, PortKind, Io]]:
    """Return each switch with each of its port kinds and each I/O that writes whole frames."""
    switches = installed().switches
    ios = [io for io, row in IO_ROWS.items() if not row.datagrams and io is not Io.NETMAP]
    return [
        (name, kind, io)
        for name in SWITCHES
        for kind in switches[name].port_kinds
        if kind in KINDS
        for io in (ios if kind in (PortKind.VETH, PortKind.MACVLAN) else (Io.DPDK,))
    ]


CELLS = [(*one, *rest) for one in combinations() for rest in itertools.product(SIZES, TAGS)]


def is_sampled(number: int) -> bool:
    """Each combination has one cell in the sample; sizes and tags rotate at different speeds."""
    combination, within = divmod(number, len(SIZES) * len(TAGS))
    size, tag = divmod(within, len(TAGS))
    return size == 5 * combination % len(SIZES) and tag == combination % 5 % len(TAGS)


@pytest.mark.parametrize(
    ("switch", "kind", "io", "size", "tag"),
    [
        pytest.param(*cell, marks=() if is_sampled(number) else pytest.mark.slow)
        for number, cell in enumerate(CELLS)
    ],
)
def test_cell_delivers_whole_frames_or_plan_refuses_it(
    switch: str, kind: PortKind, io: Io, size: int, tag: str, tmp_path: Path
) -> None:
    available(switch)
    try:
        campaign = Campaign.of(
            switch=switch, port_kind=kind.value, io=io.value, packet_size=size, vlan=tag,
            touch=True, rate="2k", burst=8, duration="300ms", idle="sleep",
        )  # fmt: skip
        refused = prepare(campaign.definition, installed(), baselines=False).refused
    except (UsageError, UnavailableError) as error:
        refused = str(error).splitlines()
    if refused:
        assert all(str(size) in line or tag in line or "vlan" in line for line in refused), refused
        return
    record = whole_trial(campaign, tmp_path)
    assert record.status == "finished", record.message
    assert record.throughput is not None
    (pair,) = record.throughput.pairs
    assert pair.corrupt == 0
    assert record.throughput.loss_ratio <= MOST_LOST, record.throughput
    assert not {"corrupt-frames", "nothing-arrived"} & set(record.verdict.marks)


def whole_trial(campaign: Campaign, results: Path) -> Record:
    """Run the trial, and repeat it if a program had no core, which also loses frames."""
    for attempt in range(ATTEMPTS):
        (record,) = campaign.run(results=results / str(attempt), baseline=False).records
        throughput = record.throughput
        if throughput is not None and throughput.loss_ratio <= MOST_LOST:
            break
        if throughput is None and not record.message.startswith(STARVED):
            break
    return record
