"""Chains, wires and bidirectional traffic through real switches, by the commands of a user."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from switchmark.record import Record
from tests.integration.machine import needs_root
from tests.integration.main_job import (
    SHORT,
    Bench,
    campaign_file,
    describe,
    measured,
    need,
    settings,
)

pytestmark = [pytest.mark.integration, needs_root]


def check_clean(record: Record) -> None:
    """Check a trial through a chain, however slow the machine is."""
    text = describe(record)
    assert record.verification is not None and record.verification.passed, text
    assert record.throughput is not None and record.throughput.forwarded_pps > 0, text
    assert record.reconciliation is not None, text
    middle = {stage.place for path in record.reconciliation.paths for stage in path.stages}
    assert "in the chain" in middle, text
    # Every arrived frame went through every VNF.
    arrived = sum(path.arrived for path in record.reconciliation.paths)
    for vnf in record.vnfs:
        if vnf.forwarded_frames is not None:
            assert vnf.forwarded_frames >= arrived, f"{text}: {vnf.node} was passed by"


@pytest.mark.slow
@pytest.mark.parametrize("switch", ["linux-bridge", "ovs-dpdk"])
def test_chains_of_containers_in_one_and_both_directions(
    bench: Bench, tmp_path: Path, switch: str
) -> None:
    need([switch], ["lxc"])
    records = measured(
        bench, tmp_path,
        f"switch: {switch}\nenvironment: lxc\nscenario: [loopback-1, loopback-2, loopback-3]\n"
        "bidirectional: [false, true]\npacket_size: 64\nduration: 1s\nrate: 2k\nburst: 4\n",
    )  # fmt: skip
    found = {(record.trial.scenario, record.trial.bidirectional) for record in records}
    assert len(found) == 6
    for record in records:
        check_clean(record)
        assert record.wire_ends == ["tx0", "rx0"]
        assert len(record.vnfs) == int(record.trial.scenario[-1])
        assert (
            record.topology[0].startswith("[wire: ")
            and "[lxc: forwarder 0.1]" in (record.topology[0])
        )
        throughput = record.throughput
        assert throughput is not None
        if record.trial.bidirectional:
            assert [way.direction for way in throughput.directions] == ["forward", "reverse"]
            assert throughput.intended_pps == 4000.0
            total = sum(way.forwarded_pps for way in throughput.directions)
            assert total == pytest.approx(throughput.forwarded_pps)
            assert all(way.forwarded_pps > 0 for way in throughput.directions)
        else:
            assert throughput.directions == []


def test_one_stream_is_split_over_chains(bench: Bench, tmp_path: Path) -> None:
    """By source MAC address in exactly equal parts; by flow in any parts."""
    need(["ovs-netdev"], ["netns"])
    records = measured(
        bench, tmp_path,
        "switch: ovs-netdev\nscenario: chains-2x1\nconnect_mode: cross-connect\nduration: 1s\n"
        "rate: 2k\nburst: 4\nsweeps:\n  - {split: src-mac}\n"
        "  - {split: flow, flows: 100:src-ip+src-port}\n",
    )  # fmt: skip
    for record in records:
        check_clean_split(record)
        chains = record.reconciliation.chains  # type: ignore[union-attr]
        sent = sum(path.sent for path in record.reconciliation.paths)  # type: ignore[union-attr]
        lost = sent - sum(
            chain.entered for chain in chains
        )  # lost before the chains on a busy machine
        if record.trial.split == "src-mac" and not lost:
            assert abs(chains[0].entered - chains[1].entered) <= 1, describe(record)
        else:
            assert all(chain.entered > 0 for chain in chains), describe(record)


def check_clean_split(record: Record) -> None:
    """Check that sent frames entered the chains and passed both VNFs of both."""
    text = describe(record)
    assert record.verification is not None and record.verification.passed, text
    assert record.reconciliation is not None and len(record.reconciliation.chains) == 2, text
    sent = sum(path.sent for path in record.reconciliation.paths)
    assert 0 < sum(chain.entered for chain in record.reconciliation.chains) <= sent, text
    for vnf in record.vnfs:
        chain = record.reconciliation.chains[vnf.pair]
        assert (vnf.forwarded_frames or 0) >= chain.left, text
    assert record.wire_ends == ["tx0", "rx0"] and len(record.topology) == 2


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["p2p", "p2v", "v2p", "v2v"])
def test_wires_and_the_environment(bench: Bench, tmp_path: Path, scenario: str) -> None:
    need(["linux-bridge"], ["netns", "lxc"])
    (record,) = measured(
        bench, tmp_path,
        f"switch: linux-bridge\nenvironment: lxc\nscenario: {scenario}\n"
        "latency: {duration: 1s, rate: 500}\n",
    )  # fmt: skip
    ends = {"p2p": ["cl0", "sv0"], "p2v": ["cl0"], "v2p": ["sv0"], "v2v": []}
    assert record.wire_ends == ends[scenario]
    assert record.latency is not None and record.latency.count > 0


@pytest.mark.parametrize(
    ("switch", "vnf", "mode"),
    [
        ("ovs-netdev", "bridge", "cross-connect"),
        ("linux-bridge", "pcap", "learning"),
        ("ovs-dpdk", "l2fwd", "learning"),
    ],
)
def test_kinds_of_vnf(bench: Bench, tmp_path: Path, switch: str, vnf: str, mode: str) -> None:
    need([switch], ["netns"])
    (record,) = measured(
        bench, tmp_path,
        f"switch: {switch}\nscenario: loopback-2\nvnf: {vnf}\nconnect_mode: {mode}\n"
        "duration: 1s\nrate: 1k\nburst: 1\n",
    )  # fmt: skip
    check_clean(record)
    assert [one.kind for one in record.vnfs] == [vnf, vnf]


@pytest.mark.parametrize(
    "environment", ["bare", "lxc", pytest.param("docker", marks=pytest.mark.slow)]
)
def test_program_of_the_user_in_a_chain(
    bench: Bench, tmp_path: Path, environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets two devices, and their addresses in its environment; in a container only its folder
    is visible. Here the program is the engine itself."""
    monkeypatch.setenv("SWITCHMARK_DOCKER", "private")
    need(["ovs-netdev"], [environment])
    from switchmark.engine.binary import find_engine

    shutil.copy2(find_engine(), tmp_path / "engine")
    program = tmp_path / "my-vnf"
    program.write_text(
        '#!/bin/sh\ntest -n "$SWITCHMARK_NEXT_B" || exit 3\n'
        'exec "${0%/*}/engine" forwarder --port "raw:dev=$1" --port "raw:dev=$2" --idle sleep'
        " --start now\n"
    )
    program.chmod(0o755)
    (record,) = measured(
        bench, tmp_path,
        f"switch: ovs-netdev\nenvironment: {environment}\nscenario: loopback-1\n"
        f"vnf: {program}\nconnect_mode: cross-connect\nduration: 1s\nrate: 500\nburst: 1\n",
    )  # fmt: skip
    check_clean(record)
    assert record.vnfs[0].kind == "program" and record.vnfs[0].command[0] == str(program)


@pytest.mark.parametrize("environment", ["netns", "lxc"])
def test_vnf_that_dies_fails_the_trial(bench: Bench, tmp_path: Path, environment: str) -> None:
    need(["ovs-netdev"], [environment])
    program = tmp_path / "dies"
    program.write_text("#!/bin/sh\necho no such port >&2\nexit 4\n")
    program.chmod(0o755)
    file = campaign_file(
        tmp_path,
        f"switch: ovs-netdev\nenvironment: {environment}\nscenario: loopback-1\nvnf: {program}\n"
        "connect_mode: cross-connect\nduration: 1s\nverify: {timeout: 1s}\n",
    )
    code, _, err = bench.run("run", file, "--no-baseline", "--quiet", *settings(*SHORT))
    assert code == 1, err
    (record,) = bench.records()
    assert record.status == "failed" and "ended with exit code 4: no such port" in (record.message)
