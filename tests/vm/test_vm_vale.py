"""VALE and the engine's netmap backend, with a netmap.ko that the user has built.

`SWITCHMARK_NETMAP` names its folder; the guest boots the kernel of that module."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from switchmark.record import Record
from tests.vm.conftest import (
    CONTAINERS,
    check_contract,
    check_forwarded,
    contract,
    inside,
    records,
    trial,
)
from tests.vm.guest import Machine, Outcome, guest_engine
from tests.vm.test_vm_two_hosts import folder, jobs_of, joined

__all__ = ["folder"]  # fixture of the tests below

SETTING, PKT_GEN = "SWITCHMARK_NETMAP", "SWITCHMARK_PKT_GEN"
COMPARE = ("--runs=3", "--seconds=0.4", "--case=sender", "--case=receiver", "--disturbed=0.3")
LINE = re.compile(r"^(vale|pipe) +(\w+) +([\d.]+) +[\d.]+ % +pkt-gen +([\d.]+)", re.MULTILINE)


@pytest.fixture
def module() -> Path:
    folder = os.environ.get(SETTING)
    if not folder:
        pytest.skip(f"no netmap.ko is named; set {SETTING} to its folder")
    path = Path(folder, "netmap.ko").resolve()
    if not path.is_file():
        pytest.skip(f"{SETTING}={folder}: no netmap.ko in it")
    engine = guest_engine()
    help_run = subprocess.run([engine, "--help"], capture_output=True, text=True, check=False)
    if not re.search(r"^\s*netmap\b", help_run.stdout, re.MULTILINE):
        pytest.skip(f"{engine} is built without netmap; build with -Dnetmap_headers=FOLDER")
    return path


def release_of(module: Path) -> str:
    """Return the kernel release that a module was built for."""
    found = re.search(rb"vermagic=(\S+)", module.read_bytes())
    assert found is not None, f"{module} does not say which kernel it is for"
    return found[1].decode()


@pytest.fixture
def guest(module: Path, new_machine: Callable[..., Machine]) -> Machine:
    return new_machine(release=release_of(module))


@pytest.mark.parametrize(
    ("settings", "port_kind", "io"),
    [("--rate 5k", "vale", "netmap"), ("--rate 1k --set port_kind=veth", "veth", "raw-mmsg")],
    ids=["own-ports", "attached-devices"],
)
def test_vale_in_records(
    settings: str,
    port_kind: str,
    io: str,
    module: Path,
    guest: Machine,
    keep: Callable[[Outcome], Outcome],
) -> None:
    """Ports that applications open themselves, and kernel devices attached in generic mode."""
    job = f"insmod {shlex.quote(str(module))}\n{trial(f'vale {settings}')} || true\n"
    outcome = keep(guest.run(job + "cp -r /tmp/results /exchange/\n"))
    outcome.check()
    (record,) = records(outcome)
    check_forwarded(record, "vale", "learning")
    assert (record.port_kind, record.io) == (port_kind, io)
    assert record.verification is not None
    assert record.verification.witness_frames == 0
    assert record.reconciliation is not None
    assert record.reconciliation.agrees, record.reconciliation.findings
    counted = record.reconciliation.paths[0].switch_received
    assert (counted is not None) == (port_kind == "veth"), "VALE has no counters"


def test_taps_of_virtual_machines_are_attached(
    module: Path, guest: Machine, keep: Callable[[Outcome], Outcome]
) -> None:
    """Frames pass between two taps, which a test holds like two virtual machines."""
    job = f"insmod {shlex.quote(str(module))}\nmodprobe tun\n"
    check_contract(
        keep(guest.run(job + inside("tests/integration/test_switch_taps.py", "vale"))), 1
    )


@pytest.mark.parametrize(
    ("environment", "scenario"),
    [("bare", "v2v"), ("lxc", "v2v"), ("docker", "v2v"), ("lxc", "loopback-1")],
)
def test_containers_have_vale_ports(
    environment: str,
    scenario: str,
    module: Path,
    guest: Machine,
    keep: Callable[[Outcome], Outcome],
) -> None:
    """A container has no /dev/netmap and no capability outside its namespace: its ports are passed
    in. Nothing remains."""
    parameters = f"vale --rate 2k --set environment={environment} --set scenario={scenario}"
    job = f"insmod {shlex.quote(str(module))}\n{CONTAINERS}{trial(parameters)} || true\n"
    left = "ls /run/netns /run/switchmark /sys/class/net >/exchange/left\n"
    outcome = keep(guest.run(f"{job}{left}cp -r /tmp/results /exchange/\n"))
    outcome.check()
    (record,) = records(outcome)
    check_forwarded(record, "vale", "learning")
    assert record.trial.environment == environment
    assert (record.port_kind, record.io) == ("vale", "netmap")
    assert "stand_in" not in record.switch_details
    assert record.reconciliation is not None
    assert record.reconciliation.agrees, record.reconciliation.findings
    assert not re.search(r"^sm[0-9a-f]{6}", (outcome.folder / "left").read_text(), re.MULTILINE)


def test_two_machines_have_vale_ports_each(
    module: Path,
    folder: Path,
    new_machine: Callable[..., Machine],
    keep: Callable[[Outcome], Outcome],
) -> None:
    """A VALE switch on each with the cable's NIC: a trial of bare namespaces, a trial of
    containers, whose ports the remote agent passes in, and a trial with veth instead."""
    points = ("", " --set environment=lxc", " --set port_kind=veth")
    load = f"insmod {shlex.quote(str(module))}\n{CONTAINERS}"
    trials = "".join(
        f"{trial(f'vale --rate 200 --set location=remote{outcome}')} || true\n"
        for outcome in points
    )
    jobs = {name: load + job for name, job in jobs_of(folder, trials).items()}
    release = release_of(module)
    left, right = (
        keep(outcome)
        for outcome in joined(folder, jobs, lambda **more: new_machine(release=release, **more))
    )
    left.check()
    right.check()
    bare, contained, stood_in = records(left, len(points))
    for record, kind in ((bare, "vale"), (contained, "vale"), (stood_in, "veth")):
        check_forwarded(record, "vale", "learning")
        assert record.port_kind == kind
        assert record.reconciliation is not None
        assert record.reconciliation.agrees, record.reconciliation.findings
        details = record.switch_details
        assert details["attached eth1"] == details["far:attached eth1"] == "generic (virtio_net)"
        assert ("stand_in" in details) == (kind == "veth")
        ports = record.switch_counters_after["ports"]
        cable = {"2", "3"}  # both ends come after the ports of nodes
        assert set(ports) == (cable if kind == "vale" else {"0", "1"} | cable)
        assert all(ports[end]["rx_frames"] or ports[end]["tx_frames"] for end in cable)
    for outcome in (left, right):
        assert (outcome.folder / "left").read_text() == "", "a session has left something"


def test_vale_is_changed_while_it_forwards(
    module: Path, guest: Machine, keep: Callable[[Outcome], Outcome]
) -> None:
    settings = "--rate 1k --set port_kind=veth --method reconfiguration"
    job = f"insmod {shlex.quote(str(module))}\n{trial(f'vale {settings}')} || true\n"
    outcome = keep(guest.run(job + "cp -r /tmp/results /exchange/\n"))
    outcome.check()
    (record,) = records(outcome)
    assert record.status == "finished", record.message
    assert record.method is not None
    names = {one.name for one in record.method.figures}
    assert {"4 ports added: outage", "4 ports removed: silence"} <= names
    figures = [f"{one.name}: {one.value:.3g}" for one in record.method.figures]
    assert not any("did not flow again" in note for note in record.method.notes), (
        record.method.notes,
        figures,
    )


@pytest.mark.parametrize(
    ("tests", "count"),
    [(inside("tests/integration/test_engine_netmap.py", "netmap"), 12), (contract("vale"), 8)],
    ids=["backend", "contract"],
)
def test_inside(
    tests: str, count: int, module: Path, guest: Machine, keep: Callable[[Outcome], Outcome]
) -> None:
    check_contract(keep(guest.run(f"insmod {shlex.quote(str(module))}\n{tests}")), count)


@pytest.fixture
def pkt_gen() -> str:
    named = os.environ.get(PKT_GEN)
    if not named:
        pytest.skip(f"no pkt-gen is named; set {PKT_GEN} to netmap's program")
    return named


def by_pkt_gen(
    points: Sequence[str], module: Path, pkt_gen: str, guest: Machine
) -> tuple[Outcome, list[Record]]:
    """Return the records of a guest that measures these points with `generator: pkt-gen`."""
    lines = [trial(f"{point} --set generator=pkt-gen") + " || true" for point in points]
    begin = f"insmod {shlex.quote(str(module))}\nexport {PKT_GEN}={shlex.quote(pkt_gen)}"
    outcome = guest.run("\n".join([begin, *lines, "cp -r /tmp/results /exchange/\n"]))
    outcome.check()
    found = records(outcome, len(points))
    for record in found:
        assert record.status == "finished", record.message
        note, loads = record.instrument, record.throughput
        assert note is not None and loads is not None
        assert note.agrees and note.sent_frames >= note.received_frames > 0
        assert loads.forwarded_pps > 0
        assert note.version.startswith("sha256 ")
        assert note.cannot_know
        assert record.verification is not None and record.verification.passed
        before = record.switch_counters_before["witness_rx_frames"]
        assert record.switch_counters_after["witness_rx_frames"] == before, "nothing was flooded"
    return outcome, found


def test_pkt_gen_as_generator_on_vale(
    module: Path, pkt_gen: str, guest: Machine, keep: Callable[[Outcome], Outcome]
) -> None:
    """On ports of VALE, which has no counters: at a rate, and at the highest rate."""
    points = ("vale --rate 5k --set burst=1", "vale --rate max")
    outcome, (paced, fast) = by_pkt_gen(points, module, pkt_gen, guest)
    keep(outcome)
    assert paced.instrument is not None and paced.throughput is not None
    assert paced.instrument.sent_frames == paced.throughput.intended_pps * paced.trial.duration_s
    assert fast.throughput is not None and fast.throughput.intended_pps is None


def test_pkt_gen_as_generator_on_devices(
    module: Path, pkt_gen: str, guest: Machine, keep: Callable[[Outcome], Outcome]
) -> None:
    """On veth its counts agree with those of the kernel's devices and of the bridge."""
    points = ["linux-bridge --rate 2k --set burst=1"]
    outcome, (record,) = by_pkt_gen(points, module, pkt_gen, guest)
    keep(outcome)
    note = record.instrument
    assert note is not None and record.reconciliation is not None
    path = record.reconciliation.paths[0]
    assert note.sent_frames == note.device_sent_frames == path.switch_received
    assert note.device_received_frames == path.switch_sent
    assert note.device_received_frames == note.received_frames + note.socket_drops


def test_beside_pkt_gen(
    module: Path,
    pkt_gen: str,
    guest: Machine,
    keep: Callable[[Outcome], Outcome],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The table of bench/engine/netmap.py is printed; it compares times of an emulated CPU only."""
    options = ["--pkt-gen", pkt_gen, "--engine", str(guest_engine()), *COMPARE]
    job = (
        f"insmod {shlex.quote(str(module))}\npython bench/engine/netmap.py {shlex.join(options)}\n"
    )
    outcome = keep(guest.run(job))
    with capsys.disabled():
        print(f"\n{outcome.output}")
    outcome.check()
    lines = LINE.findall(outcome.output)
    assert [line[:2] for line in lines] == [
        (port, case) for port in ("vale", "pipe") for case in ("sender", "receiver")
    ]
    assert all(float(rate) > 0 for line in lines for rate in line[2:]), lines
