"""`ovs-afxdp`: Open vSwitch's userspace datapath over AF_XDP sockets on kernel devices.

Polling threads (PMD) as with DPDK, but no DPDK and no hugepages: frames come from the device's
driver by an XDP program that Open vSwitch loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from switchmark.host import place
from switchmark.host.place import Facility
from switchmark.host.programs import has_bytes
from switchmark.model.capabilities import (
    ONE_BUFFER_FRAME_BYTES,
    Availability,
    SwitchOption,
    available,
    unavailable,
)
from switchmark.model.ports import PortKind, SwitchPort
from switchmark.switch.support.ovs_caches import CACHE_OPTIONS, WithCaches
from switchmark.switch.support.ovs_instance import option
from switchmark.switch.support.ovs_switch import COMMON, OvsSwitch
from switchmark.switch.support.ports import device_of
from switchmark.switch.support.rights import XDP
from switchmark.switch.support.tools import kernel_has, kernel_release, other_cores

MARK = b"afxdp-nonpmd"  # in a program that has the port type


class OvsAfxdp(WithCaches, OvsSwitch):
    """Open vSwitch, userspace datapath, ports of type `afxdp`."""

    name = "ovs-afxdp"
    capabilities = replace(
        COMMON,
        longest_frame_bytes=ONE_BUFFER_FRAME_BYTES,
        port_kinds=(PortKind.VETH,),
        linux_capabilities={PortKind.VETH: XDP},
        polling=True,
        multi_core=True,
        runs_in=("host",),
        description="Open vSwitch, userspace datapath over AF_XDP",
        options=(
            *CACHE_OPTIONS,
            SwitchOption(
                "xdp_mode",
                "where frames leave the kernel: in the driver of the device, or later (`generic`)",
                "native",
                ("native", "native-with-zerocopy", "generic", "best-effort"),
            ),
        ),
    )

    def check_datapath(self, version: str) -> Availability:
        """Check that the daemon is built with AF_XDP, and that the kernel has its sockets."""
        program = self.program()
        assert program is not None
        if not has_bytes(program, MARK):
            return unavailable(
                f"{program} is built without AF_XDP ({version})",
                remedy=f"use a build with --enable-afxdp, and set {self.setting}",
            )
        if not kernel_has("xsk", "xsk_init"):
            return unavailable(
                f"Linux {kernel_release()} has no AF_XDP sockets",
                remedy="use a kernel with CONFIG_XDP_SOCKETS, or the switch ovs-netdev",
            )
        if (problem := place.missing(Facility.XDP_SOCKET)) is not None:
            return problem
        return available(f"{version}, Linux {kernel_release()}")

    def daemon_cores(self, cores: Sequence[int]) -> Sequence[int]:
        """Return every allowed core without a PMD thread, or all allowed cores if there is none."""
        return other_cores(cores)

    def settings(self) -> dict[str, str]:
        """PMD threads on exactly the cores of the switch."""
        return {
            "pmd-cpu-mask": hex(sum(1 << core for core in self._cores)),
            **self.cache_settings(),
            "pmd-auto-lb": "false",
        }

    def interface(self, port: SwitchPort) -> tuple[str, list[str]]:
        """The device itself, as a port of type `afxdp`."""
        mode = option("options:xdp-mode", self.option("xdp_mode"))
        return device_of(port), ["type=afxdp", mode]

    def details(self) -> dict[str, str]:
        """See `OvsSwitch`; and how it reaches its ports, and where its threads are."""
        return super().details() | {
            "pmd_cores": ",".join(map(str, self._cores)),
            "other_threads_cores": ",".join(map(str, self._daemon_cores)),
            "n_rxq": "1",
            **self.option_details(),
        }
