"""`sriov`: the embedded switch of a NIC, between its virtual functions (VFs).

`SWITCHMARK_SRIOV_PF` names the NIC. Between two hosts it is the NIC at the cable, and frames to
unknown addresses leave through the cable. There is a VF for each port and one for the monitor port.
Each gets its address (and the VLAN of its pair, if requested) before its driver starts. All
settings are in the ledger, and are restored in reverse order.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from switchmark.errors import TrialFailed, UnavailableError, UsageError
from switchmark.host import place
from switchmark.host.facts import read
from switchmark.host.host import Session
from switchmark.host.kernel.pci import sharer
from switchmark.host.place import Facility
from switchmark.host.programs import not_installed
from switchmark.host.undo.entries import KernelSetting
from switchmark.model.capabilities import (
    Availability,
    Capabilities,
    SwitchOption,
    available,
    unavailable,
)
from switchmark.model.io import Io
from switchmark.model.ports import ConnectMode, MadePort, PortKind, SwitchPort
from switchmark.model.taxonomy import MATCH_ACTION, SELF, Taxonomy
from switchmark.switch.support.made import PortMakingSwitch
from switchmark.switch.support.options import WithOptions
from switchmark.switch.support.ports import WITNESS_MAC
from switchmark.switch.support.tools import kernel_has, kernel_release

SETTING = "SWITCHMARK_SRIOV_PF"
NET = Path("/sys/class/net")
WITHOUT_IOMMU = Path("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode")
PCI = Path("/sys/bus/pci")
IPV6 = Path("/proc/sys/net/ipv6/conf")
DEADLINE_S = 30.0  # for the start of drivers at new functions
POLL_S = 0.02
FIRST_VLAN = 100
UP = 1  # flag of a device
INSTEAD = {False: "vf_driver: kernel", True: "environment: netns, lxc or docker"}  # True: to guests


class Sriov(WithOptions, PortMakingSwitch):
    """Virtual functions of one NIC, connected by its embedded switch."""

    name = "sriov"
    nic: str | None = None
    capabilities = Capabilities(
        port_kinds=(PortKind.VF,),
        connect_modes=(ConnectMode.VEB,),
        polling=False,
        in_kernel=True,
        is_nic=True,
        taxonomy=Taxonomy(
            SELF, MATCH_ACTION, "in hardware", "low", "-", "virtual functions of a NIC"
        ),
        description="the embedded switch of an SR-IOV NIC, between its virtual functions",
        options=(
            SwitchOption(
                "vf_driver",
                "`kernel`: a VF is a network device of its node; `vfio`: the application drives "
                "the VF with DPDK (`io: dpdk`). A virtual machine gets the VF itself with both",
                "kernel",
                ("kernel", "vfio"),
                only_io={"vfio": Io.DPDK},
            ),
            SwitchOption(
                "vlan",
                "`pair`: a VLAN for each pair, on one host. The monitor port is in no VLAN, so "
                "flooding is not detected",
                "none",
                ("none", "pair"),
                one_host={"pair": "each host assigns VLANs to its own ports, in their order"},
            ),
        ),
    )

    @property
    def _apart(self) -> bool:
        """Return True if pairs have VLANs. A VF has at most one VLAN, so the monitor port is in no
        VLAN of a pair and cannot receive flooded frames."""
        return self.option("vlan") == "pair"

    def availability(self) -> Availability:
        """Available if the setting names a NIC that supports VFs, and no VF is in use."""
        if (
            problem := place.missing(Facility.NETWORK_NAMESPACE) or not_installed("ip", "iproute2")
        ) is not None:
            return problem
        remedy = f"set {SETTING} to the network device of a NIC with SR-IOV that no program uses"
        device = self.nic or os.environ.get(SETTING)
        if not device:
            return unavailable(f"{SETTING} names no NIC", remedy=remedy)
        total = read(NET / device / "device/sriov_totalvfs")
        if total is None:
            return unavailable(f"{device} is not a NIC with SR-IOV", remedy=remedy)
        if self._resources is None and read(NET / device / "device/sriov_numvfs") != "0":
            return unavailable(f"{device} already has VFs", remedy=remedy)
        driver = (NET / device / "device/driver").resolve().name
        vendor = (read(NET / device / "device/vendor") or "").removeprefix("0x")
        model = (read(NET / device / "device/device") or "").removeprefix("0x")
        nic = f"{driver} {vendor}:{model}, {total} VFs at most"
        return available(f"{nic}, Linux {kernel_release()}")

    def make_ports(self, session: Session, requested: Sequence[SwitchPort]) -> list[MadePort]:
        """See `MakesPorts`; the end of a cable is the NIC itself."""
        self.nic = next((port.device for port in requested if port.cable), self.nic)
        return super().make_ports(session, requested)

    def make(self, requested: Sequence[SwitchPort]) -> list[MadePort]:
        """Make a VF for each port and for the monitor port, with addresses and drivers."""
        requested = [port for port in requested if not port.cable]
        self._device = self.nic or os.environ[SETTING]
        self._function = NET / self._device / "device"
        self._count = len(requested) + 1
        total = int(read(self._function / "sriov_totalvfs") or 0)
        if self._count > total:
            raise UsageError(
                f"{self.name}: {len(requested)} ports and the monitor port need {self._count} VFs, "
                f"{self._device} has {total} at most"
            )
        all_by_vfio = self.option("vf_driver") == "vfio"
        by_vfio = [n for n, port in enumerate(requested) if port.to_guest or all_by_vfio]
        to_guests = any(port.to_guest for port in requested)
        if by_vfio:
            self._check_vfio(to_guests=to_guests)
        self.namespace = self.resources.namespace()
        self._create_functions()
        self._address([port.mac for port in requested])
        for number in by_vfio:
            self._bind_to_vfio(number)
        self._let_drivers_look()
        witness = self._device_of_vf(len(requested))
        self.namespace.adopt([witness])
        self.witness = None if self._apart else witness
        for number in by_vfio:
            self._check_apart(number, to_guests=to_guests)
        return [
            MadePort(pci=self._pci_address(number))
            if number in by_vfio
            else MadePort(device=self._device_of_vf(number))
            for number in range(len(requested))
        ]

    def _check_vfio(self, *, to_guests: bool) -> None:
        """Raise UnavailableError without vfio-pci, or without an IOMMU. Without IOMMU, vfio-pci
        takes a function only if its parameter permits it, and QEMU never does."""
        if not kernel_has("vfio_pci"):
            raise UnavailableError(
                f"{self.name}: Linux {kernel_release()} has no vfio-pci",
                remedy=f"use {INSTEAD[to_guests]}",
            )
        without = read(WITHOUT_IOMMU) == "Y" and not to_guests
        if (self._function / "iommu_group").exists() or without:
            return
        problem = "gives no VF to a virtual machine" if to_guests else "takes no VF"
        allowed = "" if to_guests else f"or echo Y > {WITHOUT_IOMMU}, "
        raise UnavailableError(
            f"{self.name}: {self._device} is behind no IOMMU, without which vfio-pci {problem}",
            remedy=f"boot with intel_iommu=on (amd_iommu=on), {allowed}or use {INSTEAD[to_guests]}",
        )

    def _check_apart(self, number: int, *, to_guests: bool) -> None:
        """Raise UnavailableError if the IOMMU cannot separate the VF from a device of another
        driver, because vfio-pci then refuses it."""
        if (found := sharer(self._function / f"virtfn{number}")) is None:
            return
        other, driver = found
        raise UnavailableError(
            f"{self.name}: VF {number} of {self._device} shares its IOMMU group with {other}, "
            f"which {driver} drives, so vfio-pci refuses the VF",
            remedy=f"put the NIC behind PCI bridges with ACS, or use {INSTEAD[to_guests]}",
        )

    def _create_functions(self) -> None:
        """Set the NIC up, and make its VFs, with no driver yet."""
        flags = int(read(NET / self._device / "flags") or "0", 16)
        if not flags & UP:
            self._set(NET / self._device / "flags", hex(flags | UP))
        # Every VF would receive the frames that the host's IP stack sends there.
        if (quiet := IPV6 / self._device / "disable_ipv6").exists():
            self._set(quiet, "1")
        self._set(self._function / "sriov_drivers_autoprobe", "0")
        self._set(self._function / "sriov_numvfs", str(self._count))

    def _set(self, path: Path, value: str) -> None:
        old = read(path)
        if old is None:
            raise UnavailableError(f"{self.name}: {path} does not exist")
        if old == value:
            return
        self.resources.note(KernelSetting(str(path), old, value))
        try:
            path.write_text(value)
        except OSError as error:
            raise UnavailableError(f"{self.name}: {path}: {error.strerror}") from None

    def _address(self, macs: Sequence[str]) -> None:
        """Set addresses and VLANs through the physical function, because a VF cannot change
        them."""
        lines = []
        for number, mac in enumerate([*macs, WITNESS_MAC]):
            lines.append(f"link set dev {self._device} vf {number} mac {mac}")
            if self._apart:
                vlan = FIRST_VLAN + number // 2
                lines.append(f"link set dev {self._device} vf {number} vlan {vlan}")
        self.session.host.run(["ip", "-batch", "-"], input_text="\n".join(lines) + "\n")

    def _bind_to_vfio(self, number: int) -> None:
        """Bind the VFs to vfio-pci. The setting ends with the VF, so it needs no restore."""
        self.session.host.run(["modprobe", "-q", "vfio-pci"], check=False)
        address = self._pci_address(number)
        (PCI / "devices" / address / "driver_override").write_text("vfio-pci")
        (PCI / "drivers_probe").write_text(address)
        self._until(lambda: self._driver_of(number) == "vfio-pci", f"vfio-pci at VF {number}")

    def _let_drivers_look(self) -> None:
        """Let the kernel's driver take the VFs without a driver, which now have addresses."""
        self._set(self._function / "sriov_drivers_autoprobe", "1")
        modalias = read(self._function / "virtfn0/modalias") or ""
        self.session.host.run(["modprobe", "-q", modalias], check=False)
        for number in range(self._count):
            if self._driver_of(number) is None:
                (PCI / "drivers_probe").write_text(self._pci_address(number))

    def _device_of_vf(self, number: int) -> str:
        """Wait until the driver of a VF has made its network device, and return the device."""
        devices = self._function / f"virtfn{number}/net"
        self._until(lambda: devices.is_dir() and any(devices.iterdir()), f"VF {number}'s device")
        return next(devices.iterdir()).name

    def _driver_of(self, number: int) -> str | None:
        driver = self._function / f"virtfn{number}/driver"
        return driver.resolve().name if driver.exists() else None

    def _until(self, condition: Callable[[], bool], subject: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            if time.monotonic() > deadline:
                raise TrialFailed(f"{self.name}: {subject} is not ready within {DEADLINE_S:g} s")
            time.sleep(POLL_S)

    def _pci_address(self, number: int) -> str:
        return (self._function / f"virtfn{number}").resolve().name

    def fault(self) -> str | None:
        """Return why it no longer forwards, if a VF is gone; None otherwise."""
        if (number := read(self._function / "sriov_numvfs")) != str(self._count):
            return f"{self._device} has {number} VFs of {self._count}"
        return super().fault()

    def details(self) -> dict[str, str]:
        """Return the details for the record."""
        return {
            "version": str(self.availability().version),
            "datapath": "the NIC's embedded switch",
            "connect_mode": self.mode.value,
            "nic": self._device,
            "vfs": str(self._count),
            **self.option_details(),
        }
