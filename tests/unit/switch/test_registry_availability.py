"""Probes on machines that lack something: each gives its reason and its remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.engine import binary
from switchmark.errors import UnavailableError
from switchmark.host import hugepages, place, programs
from switchmark.host.host import Session
from switchmark.host.place import Facility
from switchmark.model.capabilities import unavailable
from switchmark.model.ports import ConnectMode, PortKind, SwitchPort
from switchmark.switch import (
    af_packet,
    basicfwd,
    linux_bridge,
    ovs_afxdp,
    ovs_dpdk,
    snabb,
    tc_redirect,
    xdp_redirect,
)
from switchmark.switch import ovs as ovs_kernel
from switchmark.switch.direct import Direct
from switchmark.switch.support import ovs_switch, tools
from switchmark.switch.support.applications import without_dpdk
from switchmark.switch.support.base import Switch


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "missing", lambda *_: None)


def program(folder: Path, says: str, name: str = "ovs-vswitchd") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return str(path)


def reason_of(switch: Switch) -> str:
    availability = switch.availability()
    assert not availability.available
    return f"{availability.reason}; {availability.remedy}"


@pytest.mark.parametrize(
    ("switch", "setting"),
    [
        (ovs_kernel.OvsKernel(), "SWITCHMARK_OVS_VSWITCHD"),
        (ovs_dpdk.OvsDpdk(), "SWITCHMARK_OVS_DPDK_VSWITCHD"),
        (basicfwd.BasicForwarder(), "SWITCHMARK_TRAFFIC"),
    ],
)
def test_missing_program(
    switch: Switch, setting: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(setting, str(tmp_path / "missing"))
    assert setting in reason_of(switch)
    kind = switch.capabilities.port_kinds[0]
    ports = [SwitchPort(k, kind, "02:00:00:00:00:01", device="x", socket="/x") for k in (0, 1)]
    session: Session = None  # type: ignore[assignment]  # not reached
    with pytest.raises(UnavailableError, match=f"{switch.name}: .*{setting}"):
        switch.start(session, ports, switch.capabilities.connect_modes[0], [0])


def test_program_that_does_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", program(tmp_path, "", "engine"))
    assert "does not run" in reason_of(basicfwd.BasicForwarder())


def test_ovs_kernel_half_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SWITCHMARK_OVS_VSWITCHD", program(tmp_path, "ovs-vswitchd 3.9"))
    monkeypatch.setattr(ovs_switch, "missing_helper", lambda: None)
    monkeypatch.setattr(ovs_kernel, "kernel_has", lambda *_: False)
    assert "no openvswitch.ko; use a kernel with CONFIG_OPENVSWITCH" in reason_of(
        ovs_kernel.OvsKernel()
    )
    monkeypatch.setattr(ovs_kernel, "kernel_has", lambda *_: True)
    version = ovs_kernel.OvsKernel().availability().version
    assert version is not None
    assert version.startswith("ovs-vswitchd 3.9, Linux ")


def test_ovs_without_its_helpers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SWITCHMARK_OVS_VSWITCHD", program(tmp_path, "ovs-vswitchd 3.9"))
    monkeypatch.setattr(ovs_switch, "missing_helper", lambda: "program `ovsdb-tool`")
    assert reason_of(ovs_kernel.OvsKernel()).startswith(
        "program `ovsdb-tool` not found; apt install"
    )


def test_ovs_dpdk_built_without_dpdk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SWITCHMARK_OVS_DPDK_VSWITCHD", program(tmp_path, "ovs-vswitchd 3.9"))
    monkeypatch.setattr(ovs_switch, "missing_helper", lambda: None)
    assert "built without DPDK" in reason_of(ovs_dpdk.OvsDpdk())


def test_no_hugepages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    says = "ovs-vswitchd 3.9, DPDK 24.11"
    monkeypatch.setenv("SWITCHMARK_OVS_DPDK_VSWITCHD", program(tmp_path, says))
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", program(tmp_path, "switchmark-traffic 1", "engine"))
    monkeypatch.setattr(ovs_switch, "missing_helper", lambda: None)
    monkeypatch.setattr(hugepages, "are_reserved", lambda: False)
    for switch in (ovs_dpdk.OvsDpdk(), basicfwd.BasicForwarder()):
        assert switch.availability().available  # on pages of 4 KiB


def test_engine_without_dpdk_is_not_a_forwarder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    says = "built with gcc 12 -O3, DPDK: none, build ID: none"
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", program(tmp_path, says, "engine"))
    assert "engine is built without DPDK; install libdpdk-dev" in reason_of(
        basicfwd.BasicForwarder()
    )
    found = without_dpdk(ovs_dpdk.OvsDpdk.capabilities)
    assert found is not None
    assert str(found.refusal).endswith("engine is built without DPDK; " + binary.WITHOUT_DPDK)
    assert without_dpdk(linux_bridge.LinuxBridge.capabilities) is None
    says = "built with gcc 12 -O3, DPDK: 22.11.11, build ID: none"
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", program(tmp_path, says, "other"))
    assert without_dpdk(ovs_dpdk.OvsDpdk.capabilities) is None


def test_kernel_without_bridge_or_tc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "kernel_has", lambda *_: False)
    assert "has no bridge; use a kernel with CONFIG_BRIDGE" in reason_of(linux_bridge.LinuxBridge())
    monkeypatch.setattr(tools, "kernel_has", lambda *_: True)
    monkeypatch.setattr(programs, "which", lambda _: None)
    assert "`bridge` not found; apt install iproute2" in reason_of(linux_bridge.LinuxBridge())
    assert "`tc` not found" in reason_of(tc_redirect.TcRedirect())
    monkeypatch.undo()
    monkeypatch.setattr(place, "missing", lambda *_: None)
    monkeypatch.setattr(programs, "which", Path)
    monkeypatch.setattr(tools, "kernel_has", lambda module, _: module != "act_mirred")
    assert "has no act_mirred" in reason_of(tc_redirect.TcRedirect())


def test_devices_need_network_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = unavailable("cannot make network namespaces", remedy="sudo")
    monkeypatch.setattr(
        place, "missing", lambda *needs: refused if Facility.NETWORK_NAMESPACE in needs else None
    )
    for switch in (linux_bridge.LinuxBridge(), ovs_kernel.OvsKernel(), tc_redirect.TcRedirect()):
        assert reason_of(switch) == "cannot make network namespaces; sudo"


@pytest.mark.parametrize(
    ("switch", "facility"),
    [
        (xdp_redirect.XdpRedirect(), Facility.BPF),
        (ovs_afxdp.OvsAfxdp(), Facility.XDP_SOCKET),
        (af_packet.AfPacket(), Facility.PACKET_SOCKET),
        (snabb.Snabb(), Facility.PHYSICAL_ADDRESSES),
    ],
)
def test_switch_names_the_facility_that_it_lacks(
    switch: Switch, facility: Facility, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ovs_afxdp, "kernel_has", lambda *_: True)
    monkeypatch.setattr(ovs_afxdp, "has_bytes", lambda *_: True)
    monkeypatch.setattr(ovs_switch, "missing_helper", lambda: None)
    monkeypatch.setenv("SWITCHMARK_OVS_VSWITCHD", program(tmp_path, "ovs-vswitchd 3.9"))
    refused = unavailable(f"no {facility}", remedy="sudo")
    monkeypatch.setattr(place, "missing", lambda *needs: refused if facility in needs else None)
    assert reason_of(switch) == f"no {facility}; sudo"


def test_direct_is_only_a_wire() -> None:
    wire = Direct()
    assert wire.availability().available
    assert wire.capabilities.connect_modes == (ConnectMode.CROSS_CONNECT,)
    assert wire.capabilities.port_kinds == (PortKind.VHOST_USER, PortKind.VETH, PortKind.MEMIF)
    assert wire.alive() is None
    assert not wire.process_ids()
    assert wire.counters().ports == {}
