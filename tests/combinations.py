"""What the integration tests run, test by test; `python -m tests.combinations` writes the page.

Those tests take their parameters from here, or check their records against it.
"""

from __future__ import annotations

from pathlib import Path

from switchmark.campaign.combinations import Combination, page
from switchmark.campaign.installed import installed
from switchmark.switch.base import PortKind

PAGE = Path(__file__).parents[1] / "docs" / "combinations.md"
VETH, VHOST = PortKind.VETH, PortKind.VHOST_USER


def _each(switch: str, scenarios: str, environments: str, kind: PortKind) -> list[Combination]:
    return [
        Combination(switch, scenario, environment, kind)
        for scenario in scenarios.split()
        for environment in environments.split()
    ]


# By tools/vm-tests, under software emulation where there is no KVM.
IN_MACHINES = [
    *_each("linux-bridge", "p2v v2v loopback-1 loopback-2", "qemu", PortKind.TAP),
    *_each("ovs-dpdk", "p2v v2v loopback-1 loopback-2", "qemu", VHOST),
]
# The bench itself in a guest, whose kernel or NIC has what the host may lack.
INSIDE = {
    "../vm/test_vm_ovs_kernel.py::test_ovs_kernel_datapath": _each("ovs", "v2v", "netns", VETH),
    "../vm/test_vm_sriov.py::test_virtual_functions_as_devices": _each(
        "sriov", "v2v", "netns", PortKind.VF
    ),
    "../vm/test_vm_vale.py::test_vale_in_records": [
        *_each("vale", "v2v", "netns", PortKind.VALE),
        *_each("vale", "v2v", "netns", VETH),
    ],
}
OTHERS_IN_MACHINES = [
    *_each("tc-redirect", "v2v", "qemu", PortKind.TAP),
    *_each("ovs-netdev", "v2v", "qemu", PortKind.TAP),
    *_each("af-packet", "v2v", "qemu", PortKind.TAP),
    *_each("basicfwd", "v2v", "qemu", VHOST),
    *_each("testpmd", "v2v", "qemu", VHOST),
]

RUN: dict[str, list[Combination]] = {
    "test_main_job_campaign.py::done": [
        *_each("linux-bridge", "v2v", "netns lxc", VETH),
        *_each("basicfwd", "v2v", "netns lxc", VHOST),
        *_each("ovs-dpdk", "v2v", "netns lxc", VHOST),
    ],
    "test_scenarios.py::test_chains_of_containers_one_way_and_both": [
        *_each("linux-bridge", "loopback-1 loopback-3", "lxc", VETH),
        *_each("ovs-dpdk", "loopback-1 loopback-3", "lxc", VHOST),
    ],
    "test_scenarios.py::test_wires_and_the_environment": _each(
        "linux-bridge", "p2p p2v v2p v2v", "lxc", VETH
    ),
    "test_scenarios.py::test_a_program_of_the_user_s_in_a_chain": _each(
        "ovs-netdev", "loopback-1", "bare", VETH
    ),
    "test_environments.py::test_one_pair_through_switches": [
        *_each("linux-bridge", "v2v", "bare docker", VETH),
        *_each("ovs-dpdk", "v2v", "docker", VHOST),
    ],
    "../vm/test_vm_environment.py::test_pairs_and_chains_one_way_and_both": IN_MACHINES,
    "../vm/test_vm_environment.py::test_one_pair_through_other_switches": OTHERS_IN_MACHINES,
    **INSIDE,
}


def text() -> str:
    """The page as it must be."""
    there = installed()
    run = {one for listed in RUN.values() for one in listed}
    return page(there.switches, there.environments, run)


if __name__ == "__main__":
    PAGE.write_text(text())
