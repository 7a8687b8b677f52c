"""The combinations that each integration test runs; `python -m tests.combinations` writes the page.

These tests take their parameters from here, or compare their records with it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from switchmark.campaign.combinations import page
from switchmark.campaign.installed import installed
from switchmark.campaign.rules.combination import Combination
from switchmark.model.ports import PortKind

PAGE = Path(__file__).parents[1] / "docs" / "combinations.md"
VETH, VHOST = PortKind.VETH, PortKind.VHOST_USER


def _each(switch: str, scenarios: str, environments: str, kind: PortKind) -> list[Combination]:
    return [
        Combination(switch, scenario, environment, kind)
        for scenario in scenarios.split()
        for environment in environments.split()
    ]


def _between(switch: str, scenarios: str, environments: str, kind: PortKind) -> list[Combination]:
    listed = _each(switch, scenarios, environments, kind)
    return [replace(one, between=True) for one in listed]


# Run by tools/vm-tests; if there is no KVM, in software emulation.
IN_MACHINES = [
    *_each("linux-bridge", "p2v v2v loopback-1 loopback-2", "qemu", PortKind.TAP),
    *_each("ovs-dpdk", "p2v v2v loopback-1 loopback-2", "qemu", VHOST),
]
# Here the bench runs in a guest, whose kernel or NIC has a function that the host may lack.
INSIDE = {
    "../vm/test_vm_ovs_kernel.py::test_ovs_kernel_datapath": _each("ovs", "v2v", "netns", VETH),
    "../vm/test_vm_sriov.py::test_virtual_functions_as_devices": _each(
        "sriov", "v2v", "netns", PortKind.VF
    ),
    "../vm/test_vm_sriov.py::test_containers_have_virtual_functions": _each(
        "sriov", "v2v", "lxc docker", PortKind.VF
    ),
    "../vm/test_vm_sriov.py::test_virtual_machines_have_virtual_functions": _each(
        "sriov", "v2v", "qemu", PortKind.VF
    ),
    "../vm/test_vm_two_hosts.py::test_trials_between_two_nics_with_their_own_switch": _between(
        "sriov", "v2v", "netns lxc", PortKind.VF
    ),
    "../vm/test_vm_vale.py::test_vale_in_records": [
        *_each("vale", "v2v", "netns", PortKind.VALE),
        *_each("vale", "v2v", "netns", VETH),
    ],
    "../vm/test_vm_vale.py::test_containers_have_vale_ports": [
        *_each("vale", "v2v", "bare lxc docker", PortKind.VALE),
        *_each("vale", "loopback-1", "lxc", PortKind.VALE),
    ],
    "../vm/test_vm_vale.py::test_two_machines_have_vale_ports_each": [
        *_between("vale", "v2v", "netns lxc", PortKind.VALE),
        *_between("vale", "v2v", "netns", VETH),
    ],
}
OTHERS_IN_MACHINES = [
    *_each("tc-redirect", "v2v", "qemu", PortKind.TAP),
    *_each("ovs-netdev", "v2v", "qemu", PortKind.TAP),
    *_each("af-packet", "v2v", "qemu", PortKind.TAP),
    *_each("basicfwd", "v2v", "qemu", VHOST),
    *_each("testpmd", "v2v", "qemu", VHOST),
]

LEARNING, CROSS = "connect_mode: learning", "connect_mode: cross-connect"
XDP = "switch_options: {cable_driver: af-xdp}"
# Between hosts: for each switch, its settings and the port type of its nodes.
WAYS_BETWEEN_HOSTS = {
    "linux-bridge": ([LEARNING, CROSS], VETH),
    "tc-redirect": ([CROSS], VETH),
    "xdp-redirect": ([CROSS], VETH),
    "ovs-netdev": ([LEARNING, CROSS], VETH),
    "ovs-afxdp": ([LEARNING], VETH),
    "af-packet": ([CROSS], VETH),
    "ovs-dpdk": (
        [f"{LEARNING}, switch_options: {{pmd_maxsleep_us: 500}}", f"{CROSS}, {XDP}"], VHOST
    ),
    "basicfwd": ([CROSS, f"{CROSS}, {XDP}"], VHOST),
    "testpmd": ([CROSS, f"{CROSS}, {XDP}"], VHOST),
    "vpp": ([LEARNING, f"{CROSS}, {XDP}"], VHOST),
    "fastclick": ([LEARNING, f"{CROSS}, {XDP}"], VHOST),
    "bess": ([CROSS, f"{CROSS}, {XDP}"], VHOST),
    "snabb": ([LEARNING, CROSS], VHOST),
    "t4p4s": ([CROSS], VHOST),
}  # fmt: skip

RUN: dict[str, list[Combination]] = {
    "test_main_job_campaign.py::done": [
        *_each("linux-bridge", "v2v", "netns lxc", VETH),
        *_each("basicfwd", "v2v", "netns lxc", VHOST),
        *_each("ovs-dpdk", "v2v", "netns lxc", VHOST),
    ],
    "test_scenarios.py::test_chains_of_containers_in_one_and_both_directions": [
        *_each("linux-bridge", "loopback-1 loopback-3", "lxc", VETH),
        *_each("ovs-dpdk", "loopback-1 loopback-3", "lxc", VHOST),
    ],
    "test_scenarios.py::test_wires_and_the_environment": _each(
        "linux-bridge", "p2p p2v v2p v2v", "lxc", VETH
    ),
    "test_scenarios.py::test_program_of_the_user_in_a_chain": _each(
        "ovs-netdev", "loopback-1", "bare", VETH
    ),
    "test_environments.py::test_one_pair_through_switches": [
        *_each("linux-bridge", "v2v", "bare docker", VETH),
        *_each("ovs-dpdk", "v2v", "docker", VHOST),
    ],
    "test_switch_trials.py::test_macvlan": _each(
        "macvlan", "v2v", "netns lxc docker", PortKind.MACVLAN
    ),
    "../vm/test_vm_environment.py::test_pairs_and_chains_one_way_and_both": IN_MACHINES,
    "../vm/test_vm_environment.py::test_one_pair_through_other_switches": OTHERS_IN_MACHINES,
    **INSIDE,
    "../vm/test_vm_far_machines.py::test_end_or_vnf_in_a_guest_on_each_host": [
        *_between("linux-bridge", "v2v loopback-2", "qemu", PortKind.TAP),
        *_between("ovs-dpdk", "v2v", "qemu", VHOST),
    ],
    "test_between_hosts.py::test_trials_between_hosts": [
        *_between("linux-bridge", "v2v pairs-2 loopback-2", "netns", VETH),
        *_between("linux-bridge", "v2v", "bare", VETH),
    ],
    "test_between_hosts_switches.py::test_frames_cross_the_cable": [
        one
        for switch, (_, kind) in WAYS_BETWEEN_HOSTS.items()
        for one in _between(switch, "v2v", "netns", kind)
    ],
    "test_between_hosts_calibration.py::test_the_cable_itself_is_measured_and_kept": _between(
        "direct", "v2v", "netns", VETH
    ),
}


def text() -> str:
    """Return the text of the page."""
    registry = installed()
    run = {combination for listed in RUN.values() for combination in listed}
    return page(registry.switches, registry.environments, run)


if __name__ == "__main__":
    PAGE.write_text(text())
