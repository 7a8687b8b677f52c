"""Two machines as hosts (`location: remote`) with separate kernels, clocks, sshd and switches. Two
wires join them, one for control and the cable, each a socket between two QEMUs."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from switchmark.record import Record
from tests.vm.conftest import CONTAINERS, check_forwarded, records, trial
from tests.vm.guest import LIMIT_S, Machine, Outcome, Running

SSHD = "/usr/sbin/sshd"
WIRES = ("control", "cable")  # eth0 and eth1 in the guest
STREAM_SINCE = (7, 2)  # the first QEMU with networks over Unix sockets
SOCKET_S = 30.0
TRIALS_S = 1.5 * LIMIT_S  # for two trials
DIMENSIONS = ("throughput", "latency")
HEAD_START_S = 2.0  # by which the first machine's clock is ahead
KNOWN_TO_NS = 50_000_000  # an emulated machine answers faster once in twenty times
GRACE_S = 30.0  # for the shutdown
ADDRESS = {"left": "192.0.2.1", "right": "192.0.2.2"}
KNOWS_S = 600  # longest wait of a host for the other

PREPARE = """\
modprobe virtio_net
modprobe igb
/bin/busybox hostname {name}
ip addr add {address}/24 dev eth0
ip link set eth0 up
ip link set eth1 up
"""
REMAINS = """\
ls -d /run/netns/* /run/switchmark/*.ledger /run/switchmark/sm* /sys/class/net/sm* /dev/shm/* \
  >/exchange/left 2>/dev/null || true"""
RIGHT = """\
mkdir -p /run/sshd
{sshd} -D -e -f {folder}/sshd_config 2>/exchange/sshd &
for _ in $(seq {knows}); do [ -e /tmp/over ] && break; sleep 1; done
uname -n
{remains}
grep -las -e switchmark -e memfd /proc/[0-9]*/cmdline >>/exchange/left || true
"""
LEFT = """\
export SWITCHMARK_TESTBED={folder}/testbed.yaml
ssh="ssh -i {folder}/key -o UserKnownHostsFile={folder}/known_hosts root@{right}"
for _ in $(seq {knows}); do $ssh true 2>/tmp/refused && break; sleep 1; done
{trials}$ssh touch /tmp/over
{remains}
cp -r /tmp/results /exchange/
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Keys, the settings of sshd and the testbed file; guests can read the host's files."""
    if not Path(SSHD).exists() or shutil.which("ssh-keygen") is None:
        pytest.skip("no sshd here (apt install openssh-server)")
    for name in ("key", "host_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(command, check=True)
    right = ADDRESS["right"]
    (tmp_path / "known_hosts").write_text(f"{right} {(tmp_path / 'host_key.pub').read_text()}")
    (tmp_path / "sshd_config").write_text(
        f"ListenAddress {right}\nPort 22\nHostKey {tmp_path}/host_key\nUsePAM no\n"
        "StrictModes no\nPermitRootLogin prohibit-password\nPidFile none\nUseDNS no\n"
        f"AuthorizedKeysFile {tmp_path}/key.pub\n"
    )
    (tmp_path / "testbed.yaml").write_text(
        "hosts:\n  left: {local: true}\n"
        f"  right: {{address: {right}, user: root, key: key, known_hosts: known_hosts}}\n"
        "cables:\n  - {left: eth1, right: eth1}\n"
    )
    return tmp_path


def wires(folder: Path, number: int, cable: str) -> tuple[str, ...]:
    """Return the two NICs of a machine, with the cable's NIC of this model; the first machine's
    QEMU listens."""
    behind = {"igb": "igb,bus=rp0", "virtio": "virtio-net-pci"}
    port = ("-device", "pcie-root-port,id=rp0,slot=1,chassis=1") if cable == "igb" else ()
    return port + tuple(
        word
        for k, (wire, model) in enumerate(zip(WIRES, ("virtio", cable), strict=True))
        for word in (
            "-netdev",
            f"stream,id={wire},server={'off' if number else 'on'},"
            f"addr.type=unix,addr.path={folder / wire}",
            "-device",
            f"{behind[model]},netdev={wire},mac=52:54:00:00:0{k}:0{number},romfile=",
        )
    )


def jobs_of(folder: Path, trials: str) -> dict[str, str]:
    """Return the job of each machine: the first measures, the second serves."""
    values = {
        "remains": REMAINS,
        "folder": folder,
        "sshd": SSHD,
        "right": ADDRESS["right"],
        "knows": KNOWS_S,
        "trials": trials,
    }
    return {"left": LEFT.format(**values), "right": RIGHT.format(**values)}


def joined(
    folder: Path,
    jobs: dict[str, str],
    new_machine: Callable[..., Machine],
    cable: str = "virtio",
) -> list[Outcome]:
    """Run both machines, joined, to the end of their jobs."""
    running: list[Running] = []
    ends: list[Outcome] = []
    try:
        for number, (name, job) in enumerate(jobs.items()):
            guest = new_machine(with_igb=cable == "igb", devices=wires(folder, number, cable))
            if guest.qemu.version < STREAM_SINCE:
                pytest.skip(f"QEMU {guest.qemu.version} has no `stream` network; 7.2 has")
            prepare = PREPARE.format(name=name, address=ADDRESS[name])
            running.append(guest.start(prepare + job))
            listens(folder, running[0])
            time.sleep(0 if number else HEAD_START_S)
    finally:  # the others end after the first, however it ended
        for number, machine in enumerate(running):
            ends.append(machine.end(machine.passed_s() + GRACE_S if number else TRIALS_S))
    return ends


def listens(folder: Path, machine: Running) -> None:
    deadline = time.monotonic() + SOCKET_S
    while not all((folder / wire).exists() for wire in WIRES):
        assert machine.process.poll() is None, (machine.exchange / "qemu").read_text()
        assert time.monotonic() < deadline, "QEMU does not listen"
        time.sleep(0.05)


def test_trials_between_two_machines(
    folder: Path,
    new_machine: Callable[..., Machine],
    keep: Callable[[Outcome], Outcome],
) -> None:
    """A trial of throughput, and a trial of round trips with one-way times by both clocks."""
    parameters = "linux-bridge --rate 200 --set location=remote --dimension"
    jobs = jobs_of(
        folder, "".join(f"{trial(f'{parameters} {outcome}')} || true\n" for outcome in DIMENSIONS)
    )
    left, right = (keep(outcome) for outcome in joined(folder, jobs, new_machine))
    left.check()
    right.check()
    assert right.output.split() == ["right"]
    loads, times = records(left, len(DIMENSIONS))
    check_forwarded(loads, "linux-bridge", "learning")
    check_times(times)
    for record in (loads, times):
        assert record.reconciliation is not None
        assert record.reconciliation.agrees, record.reconciliation.findings
        far = record.far_host
        assert far is not None and (far.name, far.hostname) == ("right", "right")
        assert far.near_interface == far.far_interface == "eth1"
    for outcome in (left, right):
        assert (outcome.folder / "left").read_text() == "", "a session has left something"


@pytest.mark.parametrize("environment", ["netns", "lxc"])
def test_trials_between_two_nics_with_their_own_switch(
    environment: str,
    folder: Path,
    new_machine: Callable[..., Machine],
    keep: Callable[[Outcome], Outcome],
) -> None:
    """A virtual function of the cable's NIC on each machine, joined by both embedded switches."""
    parameters = f"sriov --rate 200 --set location=remote --set environment={environment}"
    both = CONTAINERS if environment == "lxc" else ""
    jobs = jobs_of(folder, f"{trial(parameters)} || true\n")
    jobs = {name: both + job for name, job in jobs.items()}
    left, right = (keep(outcome) for outcome in joined(folder, jobs, new_machine, "igb"))
    left.check()
    right.check()
    (record,) = records(left)
    check_forwarded(record, "sriov", "veb")
    assert (record.port_kind, record.trial.environment) == ("vf", environment)
    assert record.verification is not None and record.verification.witness_frames == 0
    assert record.reconciliation is not None
    assert record.reconciliation.agrees, record.reconciliation.findings
    for side in ("", "far:"):
        assert record.switch_details[f"{side}nic"] == "eth1"
        assert record.switch_details[f"{side}vfs"] == "2"
    for outcome in (left, right):
        assert (outcome.folder / "left").read_text() == "", "a session has left something"


def check_times(record: Record) -> None:
    """Check the times: the offset of the two clocks is far larger than the times, and a one-way
    time is at most the round trip, within the uncertainty of the offset."""
    assert record.status == "finished", record.message
    assert record.verification is not None and record.verification.passed
    one_way, back = record.one_way, record.latency
    assert one_way is not None and back is not None
    assert one_way.count > 0 and back.count > 0
    unsure_ns, far = one_way.clock_uncertainty_ns, record.far_host
    assert far is not None and far.clock_before is not None and far.clock_after is not None
    assert unsure_ns is not None and 0 < unsure_ns < KNOWN_TO_NS
    assert abs(far.clock_before.ahead_ns) > HEAD_START_S * 1e9 / 4
    assert one_way.percentiles_ns["50"] - unsure_ns <= back.percentiles_ns["50"]
    assert record.verdict is not None
    median = one_way.percentiles_ns["50"]
    assert ("clocks-uncertain" in record.verdict.marks) == (unsure_ns >= median)
