"""Real ports at the wire ends (`nics`), in a guest with two pairs of cabled PCI NICs: by the
kernel's driver, and by DPDK with the NICs bound to uio_pci_generic."""

from __future__ import annotations

from collections.abc import Callable

from switchmark.record import Record
from tests.vm.conftest import check_forwarded, records, trial
from tests.vm.guest import Machine, Outcome

FIRST_SLOT = 0x10
ADDRESSES = [f"0000:00:{FIRST_SLOT + number:02x}.0" for number in range(4)]
DEVICES = [f"eth{number}" for number in range(4)]  # in the order of their slots
BIND = """\
modprobe uio_pci_generic
echo 256 >/proc/sys/vm/nr_hugepages
mkdir -p /dev/hugepages
mount -t hugetlbfs hugetlbfs /dev/hugepages
for nic in {addresses}; do
  echo $nic >/sys/bus/pci/devices/$nic/driver/unbind
  echo uio_pci_generic >/sys/bus/pci/devices/$nic/driver_override
  echo $nic >/sys/bus/pci/drivers_probe
done
"""


def nics() -> tuple[str, ...]:
    """Four, the first two on one cable and the others on another."""
    return tuple(
        word
        for number in range(4)
        for word in (
            *("-netdev", f"hubport,id=n{number},hubid={number // 2}"),
            "-device",
            f"virtio-net-pci,netdev=n{number},addr={FIRST_SLOT + number:#x},vectors=0,romfile=",
        )
    )


def between(ports: list[str]) -> str:
    """The settings of a trial from one cable to the other."""
    return f"--set scenario=p2p --set nics={ports[0]}/{ports[1]}+{ports[2]}/{ports[3]}"


def test_by_the_kernel_s_driver_and_by_dpdk(
    new_machine: Callable[..., Machine], keep: Callable[[Outcome], Outcome]
) -> None:
    job = (
        "modprobe virtio_net\nls /sys/class/net >/exchange/before\n"
        f"{trial('linux-bridge --rate 500 ' + between(DEVICES))} || true\n"
        "ls /sys/class/net >/exchange/after\n"
        f"{BIND.format(addresses=' '.join(ADDRESSES))}"
        f"{trial('basicfwd --rate 500 ' + between(ADDRESSES))} || true\n"
        "cp -r /tmp/results /exchange/\n"
    )
    outcome = keep(new_machine(devices=nics()).run(job))
    outcome.check()
    kernel, dpdk = records(outcome, 2)
    check(kernel, "linux-bridge", "learning", "raw-mmsg", DEVICES)
    check(dpdk, "basicfwd", "cross-connect", "dpdk", ADDRESSES)
    before, after = ((outcome.folder / name).read_text() for name in ("before", "after"))
    assert set(DEVICES) <= set(before.split()) and after == before


def check(record: Record, switch: str, mode: str, io: str, ports: list[str]) -> None:
    """Frames went from cable to cable by these ports, and by no stand-in."""
    check_forwarded(record, switch, mode)
    assert (record.io, record.wire_ends) == (io, [])
    assert record.topology[0].startswith(f"[port {ports[0]}: sender 0] --port {ports[1]}--> ")
    assert record.reconciliation is not None
    assert record.reconciliation.paths[0].arrived > 0
