"""Two machines as hosts (`location: remote`): each has a kernel, a clock, an sshd and a switch of
its own. Two wires join them, one for control and the cable, each a socket between two QEMUs."""

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
WIRES = ("control", "cable")  # in the guest eth0 and eth1
STREAM_SINCE = (7, 2)  # the first QEMU whose network goes over a Unix socket
SOCKET_S = 30.0
TRIALS_S = 1.5 * LIMIT_S  # two of them
DIMENSIONS = ("throughput", "latency")
HEAD_START_S = 2.0  # of the first machine's clock, which counts from its start
KNOWN_TO_NS = 50_000_000  # an emulated machine answers sooner, once in twenty times
GRACE_S = 30.0  # to switch itself off
ADDRESS = {"left": "192.0.2.1", "right": "192.0.2.2"}
KNOWS_S = 600  # how long one host waits for the other, if nobody ends it sooner

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
    """Keys, the sshd's settings and the testbed file; guests see the host's files."""
    if not Path(SSHD).exists() or shutil.which("ssh-keygen") is None:
        pytest.skip("no sshd here (apt install openssh-server)")
    for name in ("key", "host_key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(words, check=True)
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
    """The two NICs of a machine, that of the cable of this model; the first machine's QEMU
    listens."""
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
    """What each machine does: the first measures, the second serves it."""
    words = {
        "remains": REMAINS,
        "folder": folder,
        "sshd": SSHD,
        "right": ADDRESS["right"],
        "knows": KNOWS_S,
        "trials": trials,
    }
    return {"left": LEFT.format(**words), "right": RIGHT.format(**words)}


def joined(
    folder: Path,
    jobs: dict[str, str],
    new_machine: Callable[..., Machine],
    cable: str = "virtio",
) -> list[Outcome]:
    """Both machines, joined, to the end of their jobs."""
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
    finally:  # with the first the others are over, however it ended
        for number, one in enumerate(running):
            ends.append(one.end(one.passed_s() + GRACE_S if number else TRIALS_S))
    return ends


def listens(folder: Path, one: Running) -> None:
    deadline = time.monotonic() + SOCKET_S
    while not all((folder / wire).exists() for wire in WIRES):
        assert one.process.poll() is None, (one.exchange / "qemu").read_text()
        assert time.monotonic() < deadline, "QEMU does not listen"
        time.sleep(0.05)


def test_trials_between_two_machines(
    folder: Path,
    new_machine: Callable[..., Machine],
    keep: Callable[[Outcome], Outcome],
) -> None:
    """One of throughput, and one of round trips, whose way there is timed by both clocks."""
    what = "linux-bridge --rate 200 --set location=remote --dimension"
    jobs = jobs_of(folder, "".join(f"{trial(f'{what} {one}')} || true\n" for one in DIMENSIONS))
    left, right = (keep(one) for one in joined(folder, jobs, new_machine))
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
    for one in (left, right):
        assert (one.folder / "left").read_text() == "", "a session has left something"


@pytest.mark.parametrize("environment", ["netns", "lxc"])
def test_trials_between_two_nics_with_their_own_switch(
    environment: str,
    folder: Path,
    new_machine: Callable[..., Machine],
    keep: Callable[[Outcome], Outcome],
) -> None:
    """A virtual function of the cable's NIC on each machine, joined by both embedded switches."""
    what = f"sriov --rate 200 --set location=remote --set environment={environment}"
    both = CONTAINERS if environment == "lxc" else ""
    jobs = jobs_of(folder, f"{trial(what)} || true\n")
    jobs = {name: both + job for name, job in jobs.items()}
    left, right = (keep(one) for one in joined(folder, jobs, new_machine, "igb"))
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
    for one in (left, right):
        assert (one.folder / "left").read_text() == "", "a session has left something"


def check_times(record: Record) -> None:
    """The two clocks began with their machines, so what they are apart dwarfs what was timed; and
    a way there takes no longer than there and back, as surely as the offset is known."""
    assert record.status == "finished", record.message
    assert record.verification is not None and record.verification.passed
    there, back = record.one_way, record.latency
    assert there is not None and back is not None
    assert there.count > 0 and back.count > 0
    unsure_ns, far = there.clock_uncertainty_ns, record.far_host
    assert far is not None and far.clock_before is not None and far.clock_after is not None
    assert unsure_ns is not None and 0 < unsure_ns < KNOWN_TO_NS
    assert abs(far.clock_before.ahead_ns) > HEAD_START_S * 1e9 / 4
    assert there.percentiles_ns["50"] - unsure_ns <= back.percentiles_ns["50"]
    assert record.verdict is not None
    median = there.percentiles_ns["50"]
    assert ("clocks-uncertain" in record.verdict.marks) == (unsure_ns >= median)
