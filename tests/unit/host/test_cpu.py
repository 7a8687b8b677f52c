"""The CPU's name and its hypervisor, from the files of kernels of x86-64 and 64-bit ARM."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from switchmark.host.cpu import CpuInfo, emulated, hypervisor, parse_cpu_info

XEON = """\
processor	: 0
vendor_id	: GenuineIntel
model name	: Intel(R) Xeon(R) Platinum
microcode	: 0x1
flags		: fpu tsc constant_tsc{more}

processor	: 1
vendor_id	: GenuineIntel
model name	: Intel(R) Xeon(R) Platinum
flags		: fpu tsc constant_tsc{more}
"""


def arm(*kinds: tuple[str, str]) -> CpuInfo:
    """Return the kernel's text for these implementers and parts, a CPU each."""
    return parse_cpu_info(
        "\n\n".join(
            f"processor\t: {number}\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd crc32 atomics\n"
            f"CPU implementer\t: {maker}\nCPU architecture: 8\nCPU variant\t: 0x3\n"
            f"CPU part\t: {part}\nCPU revision\t: 1"
            for number, (maker, part) in enumerate(kinds)
        )
    )


NEOVERSE = arm(("0x41", "0xd0c"), ("0x41", "0xd0c"))


def files(texts: dict[str, str]) -> Callable[[str], str | None]:
    """Return a reader of files that are identified by the end of their paths."""
    return lambda path: next((text for end, text in texts.items() if path.endswith(end)), None)


def test_x86_kernels_give_a_name() -> None:
    info = parse_cpu_info(XEON.format(more=""))
    assert info.model == "Intel(R) Xeon(R) Platinum" and info.fields["microcode"] == "0x1"
    assert info.flags == ("fpu", "tsc", "constant_tsc")


@pytest.mark.parametrize(
    ("info", "name"),
    [
        (NEOVERSE, "Arm Neoverse N1 r3p1"),
        (arm(("0x41", "0xd05"), ("0x41", "0xd0b")), "Arm Cortex-A55 r3p1 + Arm Cortex-A76 r3p1"),
        (arm(("0x99", "0x123")), "ARM CPU 0x99/0x123 r3p1"),
        (parse_cpu_info(""), None),
        (parse_cpu_info("CPU part: nonsense\nCPU implementer: 0x41"), None),
    ],
)
def test_arm_kernels_give_numbers(info: CpuInfo, name: str | None) -> None:
    assert info.model == name


def test_flags_of_an_arm_cpu_are_its_features() -> None:
    assert "crc32" in NEOVERSE.flags


@pytest.mark.parametrize(
    ("machine", "info", "texts", "found"),
    [
        ("x86_64", parse_cpu_info(XEON.format(more="")), {"sys_vendor": "Dell Inc."}, None),
        (
            "x86_64", parse_cpu_info(XEON.format(more=" hypervisor")),
            {"sys_vendor": "QEMU"}, "QEMU",
        ),
        ("aarch64", NEOVERSE, {"sys_vendor": "Ampere(R)"}, None),
        ("aarch64", NEOVERSE, {"sys_vendor": "QEMU"}, "QEMU"),
        (
            "aarch64", NEOVERSE,
            {"sys_vendor": "Amazon EC2", "product_name": "c7g.large"}, "Amazon EC2",
        ),
        (
            "aarch64", NEOVERSE,
            {"sys_vendor": "Amazon EC2", "product_name": "c7g.metal"}, None,
        ),
        ("aarch64", NEOVERSE, {"hypervisor/type": "xen"}, "xen"),
        ("aarch64", NEOVERSE, {"device-tree/compatible": "linux,dummy-virt\0"}, "QEMU"),
        ("aarch64", NEOVERSE, {"hypervisor/compatible": "xen,xen\0"}, "xen,xen"),
        ("aarch64", NEOVERSE, {}, None),
    ],
)  # fmt: skip
def test_hypervisors(machine: str, info: CpuInfo, texts: dict[str, str], found: str | None) -> None:
    assert hypervisor(machine, info, files(texts)) == found


@pytest.mark.parametrize(
    ("machine", "info", "texts", "is_emulated"),
    [
        ("x86_64", parse_cpu_info("model name : QEMU TCG CPU version 2.5+"), {}, True),
        (
            "x86_64", parse_cpu_info(XEON.format(more=" hypervisor")),
            {"sys_vendor": "QEMU", "available_clocksource": "tsc acpi_pm"}, True,
        ),
        (
            "x86_64", parse_cpu_info(XEON.format(more=" hypervisor")),
            {"sys_vendor": "QEMU", "available_clocksource": "kvm-clock tsc"}, False,
        ),
        ("x86_64", parse_cpu_info(XEON.format(more="")), {}, False),
        ("aarch64", NEOVERSE, {}, False),
        ("aarch64", NEOVERSE, {"product_name": "KVM Virtual Machine"}, False),
        ("aarch64", NEOVERSE, {"product_name": "QEMU Virtual Machine"}, True),
        ("aarch64", arm(("0x00", "0x051")), {}, True),
        ("aarch64", parse_cpu_info(XEON.format(more="")), {}, True),
    ],
)  # fmt: skip
def test_emulated_cpus(
    machine: str, info: CpuInfo, texts: dict[str, str], is_emulated: bool
) -> None:
    assert emulated(machine, info, files(texts)) is is_emulated
