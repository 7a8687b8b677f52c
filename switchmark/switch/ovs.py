"""`ovs`: Open vSwitch with the kernel datapath (openvswitch.ko).

Each network namespace has its own kernel datapath, so the private namespace keeps ours apart from a
user's. The daemon only decides on the first frame of a flow; the kernel forwards the rest in the
senders' softirq.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from switchmark.host.place import Facility
from switchmark.model.capabilities import Availability, available, unavailable
from switchmark.switch.support import ovs_functions
from switchmark.switch.support.ovs_switch import COMMON, OvsSwitch
from switchmark.switch.support.tools import allowed_cores, kernel_has, kernel_release


class OvsKernel(OvsSwitch):
    """Open vSwitch, kernel datapath."""

    name = "ovs"
    datapath = "system"
    needs = (Facility.NETWORK_NAMESPACE,)
    capabilities = replace(
        COMMON,
        in_kernel=True,
        functions={},
        functions_not_built=dict.fromkeys(
            ovs_functions.SUPPORT, "proven with the datapaths in user space only"
        ),
        keeps_offloads=True,
        description="Open vSwitch, kernel datapath (openvswitch.ko)",
    )

    def check_datapath(self, version: str) -> Availability:
        """Check that the kernel's module is there or can be loaded."""
        if kernel_has("openvswitch", "ovs_dp_process_packet"):
            return available(f"{version}, Linux {kernel_release()}")
        return unavailable(
            f"Linux {kernel_release()} has no openvswitch.ko",
            remedy="use a kernel with CONFIG_OPENVSWITCH, or the switch ovs-netdev",
        )

    def daemon_cores(self, cores: Sequence[int]) -> Sequence[int]:
        """Return the switch's cores or, if it has none, all allowed ones: the daemon does not
        forward."""
        return cores or allowed_cores()

    def details(self) -> dict[str, str]:
        """See `OvsSwitch`; and the kernel, whose module forwards."""
        return super().details() | {"version": f"{self.instance.version}, Linux {kernel_release()}"}

    def before_launch(self) -> None:
        """Load the module where it is not built in. It stays loaded, as `apt` would leave it."""
        self.instance.session.host.run(["modprobe", "-q", "openvswitch"], check=False)
        super().before_launch()
