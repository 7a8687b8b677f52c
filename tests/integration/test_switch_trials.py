"""Whole trials for features beyond the contract tests: ports that a switch makes itself, memif, the
settings of VPP, and the ranking of all switches."""

from __future__ import annotations

from collections import Counter

import pytest

from switchmark.record import Record
from switchmark.switch.registry import SWITCHES
from tests.integration.machine import needs_root
from tests.integration.main_job import SHORT, Bench, need, settings, went_well

pytestmark = [pytest.mark.integration, needs_root]

GENTLE = (*SHORT, "duration=1.2s", "rate=2k")


def measured(bench: Bench, switch: str, environment: str, *more: str) -> Record:
    """Return a slow trial, finished and verified."""
    need((switch,), (environment,))
    options = settings(*GENTLE, f"environment={environment}", *more)
    code, _, err = bench.run_to_the_end("trial", switch, "--no-baseline", *options)
    assert went_well(code, err), err
    (record,) = bench.records()
    if record.status != "finished":
        pytest.skip(f"the machine is too busy: {record.message}")
    assert record.verification is not None and record.verification.passed, record.verification
    assert record.throughput is not None and record.throughput.forwarded_pps > 0
    return record


@pytest.mark.parametrize(
    ("environment", "io"),
    [(one, io) for one in ("netns", "lxc") for io in ("raw-mmsg", "udp")] + [("docker", "raw")],
)
def test_macvlan(bench: Bench, environment: str, io: str) -> None:
    record = measured(bench, "macvlan", environment, f"io={io}")
    assert (record.connect_mode, record.port_kind, record.io) == ("veb", "macvlan", io)
    assert record.verification is not None and record.verification.witness_frames == 0
    assert record.reconciliation is not None and record.reconciliation.agrees
    (path, *_) = record.reconciliation.paths
    assert path.sent == path.switch_received == path.switch_sent == path.arrived


@pytest.mark.parametrize("mode", ["cross-connect", "learning"])
@pytest.mark.parametrize("choice", ["xconnect", "l2patch"])
def test_vpp_with_memif(bench: Bench, mode: str, choice: str) -> None:
    record = measured(
        bench,
        "vpp",
        "lxc",
        "port_kind=memif",
        f"connect_mode={mode}",
        f"switch_options=cross_connect:{choice}",
    )
    assert (record.port_kind, record.io) == ("memif", "dpdk")
    assert record.reconciliation is not None and record.reconciliation.agrees
    assert record.switch_details["datapath"] == "memif client"
    patched = mode == "cross-connect" and choice == "l2patch"
    assert ("test l2patch rx memif1/0" in record.switch_details["commands"]) is patched


@pytest.mark.parametrize("rx_mode", ["interrupt", "adaptive"])
def test_vpp_receive_modes(bench: Bench, rx_mode: str) -> None:
    record = measured(bench, "vpp", "netns", f"switch_options=rx_mode:{rx_mode}")
    assert f"rx-mode VirtualEthernet0/0/0 {rx_mode}" in record.switch_details["commands"]
    placed = record.switch_details["rx_placement"]  # as VPP reports it
    for port in (0, 1):
        assert f"VirtualEthernet0/0/{port} queue 0 ({rx_mode})" in placed


def test_ranking_measures_installed_switches_and_names_others(bench: Bench) -> None:
    """Kernel paths only, to be fast; the unchanged campaign measures the others."""
    need(("linux-bridge", "xdp-redirect"), ("lxc",))
    chosen = ["linux-bridge", "xdp-redirect", "tc-redirect", "t4p4s"]
    code, _, err = bench.run(
        "run",
        "ranking",
        "--no-baseline",
        *settings(
            *SHORT,
            "duration=1s",
            "packet_size=64",
            "connect_mode=static-mac",
            f"switch=[{', '.join(chosen)}]",
        ),
    )
    assert went_well(code, err), err
    assert "ranking: left out: tc-redirect cannot do connect_mode static-mac" in err
    installed = {"linux-bridge", "xdp-redirect"}
    availability = SWITCHES["t4p4s"]().availability()
    if availability.available:
        installed.add("t4p4s")
    else:
        assert f"ranking: left out: t4p4s: {availability.reason}" in err
    found = Counter((r.trial.switch, r.trial.dimension.value) for r in bench.records())
    assert found == {(s, d): 1 for s in installed for d in ("throughput", "latency")}
