"""PCI addresses of NICs, and whether DPDK can drive the NIC at an address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from switchmark.errors import Refusal
from switchmark.model.nics import is_pci

SYSFS = Path("/sys")
NETWORK_CLASS = "0x02"  # of a network controller, the first digits of a PCI class
FOR_DPDK = ("vfio-pci", "igb_uio", "uio_pci_generic")  # drivers that hand a NIC to a program
SHARED = ("mlx4_core", "mlx5_core", "mana")  # with which DPDK works beside the kernel


def pci_address(text: str) -> str | None:
    """A PCI address as the kernel writes it, `0000:03:00.0`; None where the text is none."""
    written = text.lower()
    return next((one for one in (written, f"0000:{written}") if is_pci(one)), None)


def pci_problem(address: str, sysfs: Path = SYSFS) -> Refusal | None:
    """Why DPDK cannot drive the NIC of this address, and the remedy; None when it can."""
    device = sysfs / "bus/pci/devices" / address
    if not device.is_dir():
        there = ", ".join(sorted(_nics(sysfs))) or "no NIC on the PCI bus"
        return Refusal(f"is not there (this host has: {there})", "correct the address")
    if not _read(device / "class").startswith(NETWORK_CLASS):
        return Refusal(f"is no network controller (class {_read(device / 'class')})", "name a NIC")
    driver = (device / "driver").resolve().name if (device / "driver").exists() else ""
    if driver in SHARED:
        return None
    if driver not in FOR_DPDK:
        return _not_dpdks(device, address, driver)
    return _group_problem(device, sysfs) if driver == "vfio-pci" else None


def _not_dpdks(device: Path, address: str, driver: str) -> Refusal:
    bind = f"dpdk-devbind.py -b vfio-pci {address}"
    if not driver:
        return Refusal("is bound to no driver", f"bind it to one for DPDK: {bind}")
    names = sorted(path.name for path in device.glob("net/*"))
    instead = f"name the interface {names[0]} instead" if names else ""
    return Refusal(f"is bound to the kernel's driver {driver}, not to vfio-pci", bind, instead)


def _group_problem(device: Path, sysfs: Path) -> Refusal | None:
    """Why vfio-pci cannot hand the device over: it hands over whole groups, which an IOMMU keeps
    apart from memory."""
    without = sysfs / "module/vfio/parameters/enable_unsafe_noiommu_mode"
    if not (device / "iommu_group").exists():
        if _read(without) in ("Y", "1"):
            return None
        return Refusal(
            "is bound to vfio-pci, but behind no IOMMU, without which it cannot be opened",
            f"boot with intel_iommu=on (amd_iommu=on), or echo Y > {without}",
        )
    if (found := sharer(device)) is not None:
        other, driver = found
        return Refusal(
            f"shares its IOMMU group with {other}, which is bound to {driver}",
            f"bind that to vfio-pci, too: dpdk-devbind.py -b vfio-pci {other}",
        )
    return None


def sharer(device: Path) -> tuple[str, str] | None:
    """A device that keeps vfio-pci from handing this one over, and its driver: it is in the same
    IOMMU group. None: there is none."""
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
