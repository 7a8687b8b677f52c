"""The embedded switch of a NIC: QEMU's emulated igb with virtual functions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.vm.conftest import (
    CONTAINERS,
    HUGEPAGES,
    check_contract,
    check_forwarded,
    contract,
    records,
    trial,
)
from tests.vm.guest import LIMIT_S, Machine, Outcome

NIC = (
    *("-device", "pcie-root-port,id=rp0,slot=1,chassis=1"),
    *("-netdev", "hubport,id=n0,hubid=0", "-device", "igb,bus=rp0,netdev=n0,romfile="),
)
IGB = ("-device", "intel-iommu,intremap=off", *NIC)
# vfio passes on interrupts only if the IOMMU remaps them (with KVM: not in the kernel's irqchip).
REMAPPED = ("-machine", "kernel-irqchip=split", "-device", "intel-iommu,intremap=on", *NIC)
TWO_MACHINES_MB = 2560  # below 4 GiB, as with more memory the functions of this igb fail
NESTED_S = 6 * LIMIT_S  # for a machine in an emulated machine
DEAF = "PF still resetting"  # message of a VF's driver if the physical function does not answer
SLOWLY = 10  # permitted factor over the time on a host
PREPARE = """\
modprobe igb
export SWITCHMARK_SRIOV_PF=eth0
settings() { cat /sys/class/net/eth0/device/sriov_* /sys/class/net/eth0/flags; }
settings >/exchange/before
"""
FINISH = """
settings >/exchange/after
ls /sys/class/net >/exchange/devices
cp -r /tmp/results /exchange/
"""


@pytest.fixture
def igb(new_machine: Callable[..., Machine]) -> Machine:
    return new_machine(with_igb=True, devices=IGB, append="intel_iommu=on")


def check_restored(outcome: Outcome) -> None:
    before, after = ((outcome.folder / name).read_text() for name in ("before", "after"))
    assert before.split() == after.split()
    assert "0" in before.split()
    assert sorted((outcome.folder / "devices").read_text().split()) == ["eth0", "lo"]


@pytest.mark.parametrize("vlan", ["none", "pair"])
def test_virtual_functions_as_devices(
    vlan: str, igb: Machine, keep: Callable[[Outcome], Outcome]
) -> None:
    line = trial(f"sriov --rate 500 --set switch_options=vlan:{vlan}")
    outcome = keep(igb.run(f"{PREPARE}{line} || true\n{FINISH}"))
    outcome.check()
    (record,) = records(outcome)
    check_forwarded(record, "sriov", "veb")
    assert record.switch_details["version"].startswith("igb 8086:10c9, ")
    assert record.switch_details["vfs"] == "3"
    assert record.switch_details["option:vlan"] == vlan
    assert record.verification is not None
    assert record.verification.witness_frames == (0 if vlan == "none" else None)
    assert record.reconciliation is not None
    assert record.reconciliation.agrees, record.reconciliation.findings
    check_restored(outcome)


@pytest.mark.parametrize("environment", ["lxc", "docker"])
def test_containers_have_virtual_functions(
    environment: str, igb: Machine, keep: Callable[[Outcome], Outcome]
) -> None:
    line = trial(f"sriov --rate 200 --set environment={environment}")
    outcome = keep(igb.run(f"{CONTAINERS}{PREPARE}{line} || true\n{FINISH}"))
    outcome.check()
    (record,) = records(outcome)
    check_forwarded(record, "sriov", "veb")
    assert (record.port_kind, record.trial.environment) == ("vf", environment)
    check_restored(outcome)


def test_virtual_functions_of_the_applications(
    new_machine: Callable[..., Machine], keep: Callable[[Outcome], Outcome]
) -> None:
    """The engine drives the VFs of vfio-pci by DPDK, behind an IOMMU."""
    machine = new_machine(with_igb=True, devices=REMAPPED, append="intel_iommu=on")
    line = trial("sriov --rate 500 --set io=dpdk --set switch_options=vf_driver:vfio")
    outcome = keep(machine.run(f"{HUGEPAGES}{PREPARE}{line} || true\n{FINISH}"))
    outcome.check()
    (record,) = records(outcome)
    check_forwarded(record, "sriov", "veb")
    assert (record.port_kind, record.io) == ("vf", "dpdk")
    assert record.switch_details["option:vf_driver"] == "vfio"
    assert record.verification is not None
    assert record.verification.witness_frames == 0
    check_restored(outcome)


@pytest.fixture
def host_of_machines(new_machine: Callable[..., Machine]) -> Machine:
    """A guest with room for virtual machines, and an IOMMU for them."""
    return new_machine(
        with_igb=True, devices=REMAPPED, append="intel_iommu=on", memory_mb=TWO_MACHINES_MB
    )


def nested(machine: Machine, job: str) -> str:
    """Return a job whose bench starts machines with the same QEMU and kernel. The emulated CPU has
    AMD's virtualization, so that KVM runs them, which is faster than emulating them again."""
    return (
        "modprobe kvm_amd || true\n"
        f"export SWITCHMARK_VM_PATIENCE={SLOWLY}\n"
        f"export SWITCHMARK_QEMU={machine.qemu.program}\n"
        f"export SWITCHMARK_VM_KERNEL={machine.kernel.root}\n"
        f"{PREPARE}{job}{FINISH}"
    )


@pytest.mark.parametrize("io", ["auto", "dpdk"])
def test_virtual_machines_have_virtual_functions(
    io: str, host_of_machines: Machine, keep: Callable[[Outcome], Outcome]
) -> None:
    """Guests of the guest drive the VFs, by their kernel and by DPDK."""
    line = trial(f"sriov --rate 100 --set environment=qemu --set io={io}")
    job = nested(host_of_machines, f"{line} || true\ndmesg >/exchange/kernel\n")
    outcome = keep(host_of_machines.run(job, NESTED_S))
    outcome.check()
    check_restored(outcome)
    (record,) = records(outcome)
    assert (record.port_kind, record.trial.environment) == ("vf", "qemu")
    for name in ("tx0", "rx0"):
        assert record.machines[name]["functions"].endswith(", by vfio-pci")
        assert record.machines[name]["memory_kind"] == "memfd, shared, locked"
    assert record.machines["tx0"]["functions"] != record.machines["rx0"]["functions"]
    kernel = (outcome.folder / "kernel").read_text()
    if "reached its peer" in record.message and DEAF in kernel:
        pytest.skip(
            f"both machines ran with their VFs, but the emulated NIC does not answer: {DEAF}"
        )
    check_forwarded(record, "sriov", "veb")
    assert record.verification is not None and record.verification.witness_frames == 0


KILLED = """\
{trial} &
bench=$!
for _ in $(seq 600); do
  grep -qas vfio-pci,host /proc/[0-9]*/cmdline && break
  sleep 1
done
for function in /sys/bus/pci/drivers/vfio-pci/0000:*; do basename $function; done >/exchange/bound
kill -9 $bench
python -m switchmark.cli.main clean
grep -las vfio-pci,host /proc/[0-9]*/cmdline >/exchange/machines || true
mkdir -p /tmp/results
"""


def test_functions_of_machines_are_returned_after_kill_9(
    host_of_machines: Machine, keep: Callable[[Outcome], Outcome]
) -> None:
    line = trial("sriov --rate 100 --set environment=qemu")
    job = nested(host_of_machines, KILLED.format(trial=line))
    outcome = keep(host_of_machines.run(job, NESTED_S))
    outcome.check()
    assert len((outcome.folder / "bound").read_text().split()) == 2, "the bench was killed too soon"
    assert (outcome.folder / "machines").read_text() == ""
    check_restored(outcome)


def test_contract(igb: Machine, keep: Callable[[Outcome], Outcome]) -> None:
    """The tests of every switch, except those that need a second NIC."""
    check_contract(keep(igb.run(f"{PREPARE}{contract('sriov')}")), 7)
