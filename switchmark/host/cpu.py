"""The name of the CPU, and the hypervisor or emulator that runs it, from the kernel's reports.

x86-64 kernels report the name as text, and a flag for hypervisors. 64-bit ARM kernels report
numbers (the fields of the register MIDR_EL1) and no such flag, so the name comes from a table, and
the hypervisor from the firmware's tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# By implementer and part in /proc/cpuinfo; from the reference manuals of Arm and other vendors.
_NAMES = {
    (0x00, 0x051): "QEMU max",
    (0x41, 0xD03): "Arm Cortex-A53",
    (0x41, 0xD04): "Arm Cortex-A35",
    (0x41, 0xD05): "Arm Cortex-A55",
    (0x41, 0xD07): "Arm Cortex-A57",
    (0x41, 0xD08): "Arm Cortex-A72",
    (0x41, 0xD09): "Arm Cortex-A73",
    (0x41, 0xD0A): "Arm Cortex-A75",
    (0x41, 0xD0B): "Arm Cortex-A76",
    (0x41, 0xD0C): "Arm Neoverse N1",
    (0x41, 0xD0D): "Arm Cortex-A77",
    (0x41, 0xD40): "Arm Neoverse V1",
    (0x41, 0xD41): "Arm Cortex-A78",
    (0x41, 0xD44): "Arm Cortex-X1",
    (0x41, 0xD46): "Arm Cortex-A510",
    (0x41, 0xD47): "Arm Cortex-A710",
    (0x41, 0xD48): "Arm Cortex-X2",
    (0x41, 0xD49): "Arm Neoverse N2",
    (0x41, 0xD4F): "Arm Neoverse V2",
    (0x43, 0x0A1): "Cavium ThunderX",
    (0x43, 0x0AF): "Cavium ThunderX2",
    (0x46, 0x001): "Fujitsu A64FX",
    (0x48, 0xD01): "HiSilicon Kunpeng 920",
    (0x61, 0x022): "Apple M1 (efficiency core)",
    (0x61, 0x023): "Apple M1 (performance core)",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1a",
}
_QEMU_IMPLEMENTER = 0x00  # the CPU `max` of QEMU has this number, and no hardware has it
# Names in the firmware's tables that no vendor of hardware uses.
_HYPERVISORS = (
    "QEMU", "KVM", "VMware", "Xen", "Parallels", "BHYVE", "innotek", "VirtualBox",
    "Microsoft Corporation", "Apple Virtualization", "Google", "OpenStack", "Amazon EC2",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CpuInfo:
    """/proc/cpuinfo: each field from the first CPU that has it, and the kinds of all CPUs."""

    fields: Mapping[str, str]
    kinds: tuple[tuple[int, int, str], ...] = ()  # ARM: implementer, part, revision (r3p1)

    @property
    def flags(self) -> tuple[str, ...]:
        """The features of the CPU, by the kernel's names."""
        return tuple((self.fields.get("flags") or self.fields.get("Features") or "").split())

    @property
    def model(self) -> str | None:
        """The name of the CPU; names of several kinds of core are joined by a plus."""
        if not self.kinds:
            return self.fields.get("model name")
        return " + ".join(
            f"{_NAMES.get((maker, part), f'ARM CPU {maker:#04x}/{part:#05x}')} {revision}"
            for maker, part, revision in self.kinds
        )


def parse_cpu_info(text: str) -> CpuInfo:
    """Read the text of /proc/cpuinfo."""
    pairs = [
        (name.strip(), value.strip())
        for name, _, value in (line.partition(":") for line in text.splitlines())
        if value.strip()
    ]
    kinds: list[tuple[int, int, str]] = []
    for block in re.split(r"\n\s*\n", text):
        fields = dict(re.findall(r"^CPU (\w+)\s*: *(\w+)", block, re.MULTILINE))
        try:
            kind = (
                int(fields["implementer"], 16),
                int(fields["part"], 16),
                f"r{int(fields['variant'], 16)}p{int(fields['revision'])}",
            )
        except (KeyError, ValueError):
            continue
        if kind not in kinds:
            kinds.append(kind)
    return CpuInfo(dict(reversed(pairs)), tuple(kinds))


Read = Callable[[str], str | None]


def hypervisor(machine: str, info: CpuInfo, read: Read) -> str | None:
    """Return the hypervisor's name; None on bare metal, as far as can be seen.

    `machine` is the kernel's name of the architecture, `read` returns the text of a file."""
    vendor = read("/sys/class/dmi/id/sys_vendor")
    if machine == "x86_64":
        if "hypervisor" not in info.flags:
            return None
        return vendor or read("/sys/hypervisor/type") or "a hypervisor without a name"
    if vendor and vendor.startswith(_HYPERVISORS):
        metal = ".metal" in (read("/sys/class/dmi/id/product_name") or "")
        return None if metal else vendor
    if kind := read("/sys/hypervisor/type") or read("/proc/device-tree/hypervisor/compatible"):
        return kind.strip("\0")
    return "QEMU" if "dummy-virt" in (read("/proc/device-tree/compatible") or "") else None


def emulated(machine: str, info: CpuInfo, read: Read) -> bool:
    """Return True if software emulates the CPU (QEMU without KVM).

    On x86-64, the CPU's name shows it, or the lack of the clock that every KVM guest of QEMU has.
    On ARM, the firmware's name of the machine shows it, or the CPU is QEMU's `max`. A program under
    user-mode emulation reads the CPU of the other architecture."""
    if machine == "x86_64":
        if "TCG" in info.fields.get("model name", ""):
            return True
        clocks = read("/sys/devices/system/clocksource/clocksource0/available_clocksource") or ""
        return hypervisor(machine, info, read) == "QEMU" and "kvm-clock" not in clocks.split()
    if machine != "aarch64":
        return False
    if any(maker == _QEMU_IMPLEMENTER for maker, _, _ in info.kinds):
        return True
    if "vendor_id" in info.fields:  # This field exists only on x86-64.
        return True
    return read("/sys/class/dmi/id/product_name") == "QEMU Virtual Machine"
