"""PCI addresses of NICs, and the reasons why DPDK cannot use the NIC at an address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from switchmark.errors import Refusal
from switchmark.model.nics import is_pci

SYSFS = Path("/sys")
NETWORK_CLASS = "0x02"  # first digits of the PCI class of network controllers
FOR_DPDK = ("vfio-pci", "igb_uio", "uio_pci_generic")  # drivers that give a NIC to a program
SHARED = ("mlx4_core", "mlx5_core", "mana")  # drivers of NICs that DPDK shares with the kernel


def pci_address(text: str) -> str | None:
    """Return a PCI address in the kernel's form, `0000:03:00.0`; None if it is not an address."""
    lower = text.lower()
    return next((address for address in (lower, f"0000:{lower}") if is_pci(address)), None)


def pci_problem(address: str, sysfs: Path = SYSFS) -> Refusal | None:
    """Return why DPDK cannot use the NIC of this address, with the remedy; None if it can."""
    device = sysfs / "bus/pci/devices" / address
    if not device.is_dir():
        nics = ", ".join(sorted(_nics(sysfs))) or "no NIC on the PCI bus"
        return Refusal(f"does not exist (this host has: {nics})", "correct the address")
    if not (pci_class := _read(device / "class")).startswith(NETWORK_CLASS):
        return Refusal(f"is not a network controller (class {pci_class})", "name a NIC")
    driver = (device / "driver").resolve().name if (device / "driver").exists() else ""
    if driver in SHARED:
        return None
    if driver not in FOR_DPDK:
        return _driver_problem(device, address, driver)
    return _group_problem(device, sysfs) if driver == "vfio-pci" else None


def _driver_problem(device: Path, address: str, driver: str) -> Refusal:
    bind = f"dpdk-devbind.py -b vfio-pci {address}"
    if not driver:
        return Refusal("is bound to no driver", f"bind it to one for DPDK: {bind}")
    names = sorted(path.name for path in device.glob("net/*"))
    instead = f"name the interface {names[0]} instead" if names else ""
    return Refusal(f"is bound to the kernel's driver {driver}, not to vfio-pci", bind, instead)


def _group_problem(device: Path, sysfs: Path) -> Refusal | None:
    """Return why vfio-pci cannot give the device to a program, or None.

    vfio-pci gives away whole IOMMU groups, since the IOMMU isolates groups from memory."""
    without = sysfs / "module/vfio/parameters/enable_unsafe_noiommu_mode"
    if not (device / "iommu_group").exists():
        if _read(without) in ("Y", "1"):
            return None
        return Refusal(
            "is bound to vfio-pci, but has no IOMMU, so it cannot be opened",
            f"boot with intel_iommu=on (amd_iommu=on), or echo Y > {without}",
        )
    if (sharing := sharer(device)) is not None:
        other, driver = sharing
        return Refusal(
            f"shares its IOMMU group with {other}, which is bound to {driver}",
            f"also bind that to vfio-pci: dpdk-devbind.py -b vfio-pci {other}",
        )
    return None


def sharer(device: Path) -> tuple[str, str] | None:
    """Return a device in the same IOMMU group that blocks vfio-pci, and its driver; or None."""
    for other in sorted((device / "iommu_group/devices").glob("*")):
        driver = (other / "driver").resolve().name if (other / "driver").exists() else ""
        if driver not in ("", "vfio-pci", "pci-stub", "pcieport"):
            return other.name, driver
    return None


def _nics(sysfs: Path) -> Iterator[str]:
    for device in (sysfs / "bus/pci/devices").glob("*"):
        if _read(device / "class").startswith(NETWORK_CLASS):
            yield device.name


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
