"""Cables between hosts as ports of switches: interfaces, NICs by PCI address, what they count."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from switchmark.campaign.rules.layout import cable_problem
from switchmark.errors import UnavailableError, UsageError
from switchmark.host.interface_check import check_facing
from switchmark.host.kernel.pci import pci_address, pci_problem
from switchmark.model.ports import ConnectMode, PortCounters, PortKind, SwitchCounters, SwitchPort
from switchmark.remote import bundle
from switchmark.switch import bess, fastclick, t4p4s, vpp
from switchmark.switch.basicfwd import BasicForwarder
from switchmark.switch.ovs_dpdk import OvsDpdk
from switchmark.switch.registry import SWITCHES, make_switch
from switchmark.switch.support import vpp_commands
from switchmark.switch.support.across import cable_port
from switchmark.switch.support.cable import AtInterface, devargs, eal_devices, ethdev_numbers
from switchmark.switch.support.ports import check_request
from switchmark.switch.testpmd import Testpmd

NIC = "0000:03:00.0"
CROSS = ConnectMode.CROSS_CONNECT
ON_DPDK = ("ovs-dpdk", "basicfwd", "testpmd", "vpp", "fastclick", "bess", "t4p4s")


def node(index: int) -> SwitchPort:
    return SwitchPort(index, PortKind.VHOST_USER, f"m{index}", socket=f"/s{index}")


def near(name: str) -> list[SwitchPort]:
    return [node(0), replace(cable_port(name, 1500), index=1)]


INTERFACE, BY_PCI = near("eth7"), near(NIC)


def test_kind_of_cable_end_follows_from_its_name() -> None:
    assert (INTERFACE[1].device, INTERFACE[1].pci) == ("eth7", None)
    assert (BY_PCI[1].device, BY_PCI[1].pci) == (None, NIC)
    assert pci_address("5E:00.1") == "0000:5e:00.1" and pci_address("eth0") is None
    assert pci_address("0000:03:00.8") is None, "a device has functions 0 to 7"


def test_every_switch_says_what_it_takes() -> None:
    for name in SWITCHES:
        capabilities = make_switch(name).capabilities
        assert bool(capabilities.cable_ends) != bool(capabilities.uncabled), name
        refused = cable_problem(name, capabilities, NIC)
        assert (refused is None) == (name in ON_DPDK), name
        if capabilities.cable_ends and name != "direct":
            kinds = [replace(node(0), kind=capabilities.port_kinds[0], device="d"), INTERFACE[1]]
            check_request(name, capabilities, kinds, capabilities.connect_modes[0])
        if refused and capabilities.cable_ends:
            assert "name its interface" in refused.remedy
            with pytest.raises(UsageError, match="port 1 is a cable by pci; it takes: interface"):
                first = replace(node(0), kind=capabilities.port_kinds[0])
                check_request(name, capabilities, [first, BY_PCI[1]], capabilities.connect_modes[0])


def test_dpdk_gets_the_cable_as_any_other_port() -> None:
    assert eal_devices("x", INTERFACE, "af-packet") == [
        "--no-pci", "--vdev", "net_vhost0,iface=/s0,client=1",
        "--vdev", "net_af_packet1,iface=eth7",
    ]  # fmt: skip
    assert devargs("x", INTERFACE[1], "af-xdp") == "net_af_xdp1,iface=eth7"
    assert eal_devices("x", BY_PCI, "af-packet")[-2:] == ["-a", NIC]
    assert "--no-pci" not in eal_devices("x", BY_PCI, "af-packet")
    with pytest.raises(
        UsageError, match="x: on a device of the kernel the MTU is at most 1500 bytes"
    ):
        devargs("x", replace(INTERFACE[1], mtu_bytes=9000), "af-packet")
    assert devargs("x", replace(BY_PCI[1], mtu_bytes=9000), "af-packet") == NIC


def test_a_nic_has_the_first_number() -> None:
    assert ethdev_numbers(INTERFACE) == {0: 0, 1: 1}
    assert ethdev_numbers(BY_PCI) == {1: 0, 0: 1}
    text = fastclick.click_config(BY_PCI, CROSS, "/c")
    assert "f0 :: FromDPDKDevice(1," in text and "t1 :: ToDPDKDevice(0," in text
    assert "f0 -> t1;" in text


def test_command_lines_with_a_nic() -> None:
    arguments = t4p4s.arguments(Path("/p"), BY_PCI, CROSS, 1, "x")
    assert arguments[arguments.index("-a") + 1] == NIC and arguments[-3] == "0x3"
    assert bess.build_request(tuple(BY_PCI), CROSS, 0)["ports"][1]["pci"] == NIC
    assert bess.build_request(tuple(INTERFACE), CROSS, 0)["ports"][1]["vdev"] == (
        "net_af_packet1,iface=eth7"
    )
    assert OvsDpdk().interface(BY_PCI[1]) == (
        "p1", ["type=dpdk", f'options:dpdk-devargs="{NIC}"']
    )  # fmt: skip
    assert BasicForwarder()._port_of(BY_PCI[1]) == f"dpdk:pci={NIC}"
    assert BasicForwarder()._port_of(INTERFACE[1]) == "dpdk:af-packet=eth7"
    text = vpp_commands.startup_config(Path("/d"), "smx", 0, [], ["dpdk_plugin.so"], {1: NIC})
    assert f"dpdk {{ dev {NIC} {{ name cable1 }} }}" in text
    assert "plugin dpdk_plugin.so { enable }" in text
    assert "set interface l2 xconnect VirtualEthernet0/0/0 cable1" in vpp_commands.commands(
        BY_PCI, CROSS
    )
    options = {**vpp_commands.DEFAULTS, "cable_driver": "af-xdp"}
    lines = vpp_commands.commands(INTERFACE, CROSS, options)
    assert "create interface af_xdp host-if eth7 num-rx-queues 1 name host-eth7" in lines
    assert "set interface l2 xconnect host-eth7 VirtualEthernet0/0/0" in lines


def test_testpmd_gets_pairs_if_dpdk_numbers_differ() -> None:
    chain = [node(0), node(1), node(2), replace(cable_port(NIC, 1500), index=3)]
    switch = Testpmd()
    switch.ports, switch.cores = tuple(chain), (1,)
    switch._numbers = ethdev_numbers(chain)
    assert [switch._numbers[port.index] for port in chain] == [1, 2, 3, 0]
    assert "--auto-start" not in switch._options()
    switch.ports = tuple(INTERFACE)
    switch._numbers = ethdev_numbers(INTERFACE)
    assert "--auto-start" in switch._options()
    assert "net_af_packet1,iface=eth7" in switch._eal_options("x")


def test_vpp_without_the_plugin_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "bin/vpp"
    program.parent.mkdir()
    program.touch()
    switch = vpp.Vpp()
    switch.ports = tuple(BY_PCI)
    with pytest.raises(UnavailableError, match=r"no dpdk_plugin\.so.*vpp-plugin-dpdk"):
        switch._plugins(program)
    plugins = tmp_path / "lib/x86_64-linux-gnu/vpp_plugins"
    plugins.mkdir(parents=True)
    (plugins / "dpdk_plugin.so").touch()
    assert switch._plugins(program) == ["dpdk_plugin.so"]


class Namespace:
    """Return counters of an interface with these frames."""

    def __init__(self, *counters: PortCounters) -> None:
        self.left = list(counters)

    def link_counters(self) -> dict[str, PortCounters]:
        return {"eth7": self.left.pop(0)}


def test_drops_at_a_full_socket_are_the_switchs_loss() -> None:
    """100 frames came, the switch saw 60 of them; it sent 50, the interface 45 of them."""
    namespace = Namespace(PortCounters(1000, 500, 0, 0), PortCounters(1100, 545, 0, 0))
    watch = AtInterface(namespace, INTERFACE)  # type: ignore[arg-type]
    counted = {0: PortCounters(50, 60), 1: PortCounters(60, 50, 1, 2)}
    observed = watch.added(SwitchCounters(counted, 3))
    assert observed == SwitchCounters({0: counted[0], 1: PortCounters(100, 45, 41, 7)}, 3)


def test_frames_past_the_kernel_are_counted_by_the_switch() -> None:
    still = PortCounters(7, 7, 0, 0)
    counted = SwitchCounters({0: PortCounters(1, 2), 1: PortCounters(60, 50)})
    watch = AtInterface(Namespace(still, still), INTERFACE)  # type: ignore[arg-type]
    assert watch.added(counted) == counted
    assert AtInterface(None, BY_PCI).added(counted) == counted


def bus(root: Path, address: str, **files: str) -> Path:
    """A PCI device in a tree as /sys is; `driver` is a link."""
    device = root / "bus/pci/devices" / address
    device.mkdir(parents=True)
    (device / "class").write_text(files.get("kind", "0x020000") + "\n")
    if driver := files.get("driver"):
        place = root / "bus/pci/drivers" / driver
        place.mkdir(parents=True, exist_ok=True)
        (device / "driver").symlink_to(place)
    if name := files.get("net"):
        (device / "net" / name).mkdir(parents=True)
    if group := files.get("group"):
        members = root / "kernel/iommu_groups" / group / "devices"
        members.mkdir(parents=True, exist_ok=True)
        (members / address).symlink_to(device)
        (device / "iommu_group").symlink_to(members.parent)
    return device


def test_nics_that_dpdk_cannot_drive_are_refused_with_a_remedy(tmp_path: Path) -> None:
    bus(tmp_path, NIC, driver="ixgbe", net="enp3s0f0")
    bus(tmp_path, "0000:00:02.0", kind="0x030000")
    bus(tmp_path, "0000:04:00.0")
    bus(tmp_path, "0000:05:00.0", driver="vfio-pci")
    bus(tmp_path, "0000:06:00.0", driver="vfio-pci", group="9")
    bus(tmp_path, "0000:06:00.1", driver="ixgbe", group="9")
    bus(tmp_path, "0000:07:00.0", driver="vfio-pci", group="10")
    bus(tmp_path, "0000:08:00.0", driver="mlx5_core", net="p0")

    def devargs_refusal(address: str) -> str:
        return str(pci_problem(address, tmp_path))

    assert "does not exist (this host has: 0000:03:00.0, 0000:04:00.0" in devargs_refusal(
        "0000:99:00.0"
    )
    assert devargs_refusal("0000:99:00.0").endswith("; correct the address"), (
        "also for nics of a campaign"
    )
    assert "bound to the kernel's driver ixgbe, not to vfio-pci" in devargs_refusal(NIC)
    assert "-b vfio-pci 0000:03:00.0, or name the interface enp3s0f0 instead" in devargs_refusal(
        NIC
    )
    assert "is not a network controller (class 0x030000)" in devargs_refusal("0000:00:02.0")
    assert "is bound to no driver" in devargs_refusal("0000:04:00.0")
    assert "has no IOMMU" in devargs_refusal("0000:05:00.0")
    unsafe = tmp_path / "module/vfio/parameters/enable_unsafe_noiommu_mode"
    unsafe.parent.mkdir(parents=True)
    unsafe.write_text("Y\n")
    assert pci_problem("0000:05:00.0", tmp_path) is None
    assert "shares its IOMMU group with 0000:06:00.1, which is bound to ixgbe" in devargs_refusal(
        "0000:06:00.0"
    )
    assert pci_problem("0000:07:00.0", tmp_path) is None
    assert pci_problem("0000:08:00.0", tmp_path) is None, "DPDK works beside that driver"
    with pytest.raises(UnavailableError, match=r"PCI device ffff:ff:1f\.7: does not exist"):
        check_facing(None, "ffff:ff:1f.7", 0)  # type: ignore[arg-type]


def test_files_of_switches_are_readable_from_an_archive(tmp_path: Path) -> None:
    """The agent has no folder with our programs for Snabb, BESS and t4p4s in it."""
    import subprocess
    import sys

    archive = tmp_path / "archive"
    archive.write_bytes(bundle.archive())
    text = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from switchmark.switch.support.tools import own_text\n"
        "from switchmark.switch import bess, t4p4s\n"
        "print(len(own_text('snabb.lua')), len(bess.DRIVER), len(t4p4s.table()))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", text, str(archive)],
        capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [int(one) > 10 for one in done.stdout.split()] == [True] * 3
