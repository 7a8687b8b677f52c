"""Probes on machines that lack something: each gives its reason and its remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.errors import UnavailableError
from switchmark.model.ports import ConnectMode, PortKind, SwitchPort
from switchmark.switch import basicfwd, linux_bridge, ovs_dpdk, tc_redirect
from switchmark.switch import ovs as ovs_kernel
from switchmark.switch.direct import Direct
from switchmark.switch.support import ovs_switch, tools
from switchmark.switch.support.base import Switch
from switchmark.testbed import hugepages, programs
from switchmark.testbed.host import Session


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)


def program(folder: Path, says: str, name: str = "ovs-vswitchd") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return str(path)


def told(switch: Switch) -> str:
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
    assert setting in told(switch)
    kind = switch.capabilities.port_kinds[0]
    ports = [SwitchPort(k, kind, "02:00:00:00:00:01", device="x", socket="/x") for k in (0, 1)]
    session: Session = None  # type: ignore[assignment]  # not reached
    with pytest.raises(UnavailableError, match=f"{switch.name}: .*{setting}"):
        switch.start(session, ports, switch.capabilities.connect_modes[0], [0])


def test_program_that_does_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", program(tmp_path, "", "engine"))
    assert "does not run" in told(basicfwd.BasicForwarder())


def test_ovs_kernel_half_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SWITCHMARK_OVS_VSWITCHD", program(tmp_path, "ovs-vswitchd 3.9"))
    monkeypatch.setattr(ovs_switch, "missing_helper", lambda: None)
    monkeypatch.setattr(ovs_kernel, "kernel_has", lambda *_: False)
    assert "no openvswitch.ko; use a kernel with CONFIG_OPENVSWITCH" in told(ovs_kernel.OvsKernel())
    monkeypatch.setattr(ovs_kernel, "kernel_has", lambda *_: True)
    version = ovs_kernel.OvsKernel().availability().version
    assert version is not None
    assert version.startswith("ovs-vswitchd 3.9, Linux ")


def test_ovs_without_its_helpers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SWITCHMARK_OVS_VSWITCHD", program(tmp_path, "ovs-vswitchd 3.9"))
    monkeypatch.setattr(ovs_switch, "missing_helper", lambda: "program `ovsdb-tool`")
    assert told(ovs_kernel.OvsKernel()).startswith("program `ovsdb-tool` not found; apt install")


def test_ovs_dpdk_built_without_dpdk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SWITCHMARK_OVS_DPDK_VSWITCHD", program(tmp_path, "ovs-vswitchd 3.9"))
    monkeypatch.setattr(ovs_switch, "missing_helper", lambda: None)
    assert "built without DPDK" in told(ovs_dpdk.OvsDpdk())


def test_no_hugepages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    says = "ovs-vswitchd 3.9, DPDK 24.11"
    monkeypatch.setenv("SWITCHMARK_OVS_DPDK_VSWITCHD", program(tmp_path, says))
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", program(tmp_path, "switchmark-traffic 1", "engine"))
    monkeypatch.setattr(ovs_switch, "missing_helper", lambda: None)
    monkeypatch.setattr(hugepages, "are_reserved", lambda: False)
    for switch in (ovs_dpdk.OvsDpdk(), basicfwd.BasicForwarder()):
        assert "no hugepages are reserved; echo 1024 >" in told(switch)


def test_kernel_without_bridge_or_tc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "kernel_has", lambda *_: False)
    assert "has no bridge; use a kernel with CONFIG_BRIDGE" in told(linux_bridge.LinuxBridge())
    monkeypatch.setattr(tools, "kernel_has", lambda *_: True)
    monkeypatch.setattr(programs, "which", lambda _: None)
    assert "`bridge` not found; apt install iproute2" in told(linux_bridge.LinuxBridge())
    assert "`tc` not found" in told(tc_redirect.TcRedirect())
    monkeypatch.undo()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(programs, "which", Path)
    monkeypatch.setattr(tools, "kernel_has", lambda module, _: module != "act_mirred")
    assert "has no act_mirred" in told(tc_redirect.TcRedirect())


def test_only_root_makes_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    for switch in (linux_bridge.LinuxBridge(), ovs_kernel.OvsKernel(), tc_redirect.TcRedirect()):
        assert "not root; run switchmark as root" in told(switch)


def test_direct_is_only_a_wire() -> None:
    wire = Direct()
    assert wire.availability().available
    assert wire.capabilities.connect_modes == (ConnectMode.CROSS_CONNECT,)
    assert wire.capabilities.port_kinds == (PortKind.VHOST_USER, PortKind.VETH, PortKind.MEMIF)
    assert wire.alive() is None
    assert not wire.process_ids()
    assert wire.counters().ports == {}
