"""Virtual functions on a NIC that is a folder: the order of the writes, and their undoing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from switchmark.errors import TrialFailed, UnavailableError, UsageError
from switchmark.host import place
from switchmark.host.host import Session
from switchmark.host.undo.ledger import Ledger
from switchmark.model.ports import ConnectMode, MadePort, PortKind, SwitchPort
from switchmark.switch import sriov
from switchmark.switch.support.across import cable_port
from switchmark.switch.support.base import plug_in
from switchmark.switch.support.private import Resources

MACS = ("02:53:4d:00:00:01", "02:53:4d:00:00:02")
WANTED = [SwitchPort(k, PortKind.VF, mac) for k, mac in enumerate(MACS)]


class FakeHost:
    """Stores the commands."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run(self, args: list[str], **more: object) -> SimpleNamespace:
        self.ran += str(more.get("input_text", "")).splitlines() or [" ".join(args)]
        return SimpleNamespace(exit_code=0, stdout="", stderr="")


@pytest.fixture
def nic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A NIC called `nic0`, down, with up to 7 VFs, whose drivers make a device at once."""
    function = tmp_path / "pci/devices/0000:01:00.0"
    device = tmp_path / "net/nic0"
    for folder in (function, device, tmp_path / "drivers/igb"):
        folder.mkdir(parents=True)
    (device / "device").symlink_to(function)
    (function / "driver").symlink_to(tmp_path / "drivers/igb")
    for name, text in {
        "sriov_totalvfs": "7", "sriov_numvfs": "0", "sriov_drivers_autoprobe": "1",
        "vendor": "0x8086", "device": "0x10c9",
    }.items():  # fmt: skip
        (function / name).write_text(f"{text}\n")
    (device / "flags").write_text("0x1002\n")
    for number in range(7):
        vf = tmp_path / f"pci/devices/0000:01:10.{number}"
        (vf / f"net/eth{number + 1}").mkdir(parents=True)
        (vf / "modalias").write_text("pci:v8086d10CA\n")
        (function / f"virtfn{number}").symlink_to(vf)
    monkeypatch.setattr(sriov, "NET", tmp_path / "net")
    monkeypatch.setattr(sriov, "PCI", tmp_path / "pci")
    monkeypatch.setattr(place, "missing", lambda *_: None)
    monkeypatch.setenv("SWITCHMARK_SRIOV_PF", "nic0")
    return device


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    ledger = Ledger.create(tmp_path / "state", "abc123")
    monkeypatch.setattr(
        Resources,
        "namespace",
        lambda _self: SimpleNamespace(adopt=lambda _devices: None, link_counters=dict),
    )
    yield Session("abc123", FakeHost(), ledger, tmp_path / "run")  # type: ignore[arg-type]
    ledger.close()


def reason_of(switch: sriov.Sriov) -> str:
    availability = switch.availability()
    assert not availability.available
    return f"{availability.reason}; {availability.remedy}"


def test_functions_are_made_addressed_and_taken_back(nic: Path, session: Session) -> None:
    switch = sriov.Sriov()
    assert switch.make_ports(session, WANTED) == [MadePort(device="eth1"), MadePort(device="eth2")]
    assert (nic / "device/sriov_numvfs").read_text() == "3"
    assert (nic / "device/sriov_drivers_autoprobe").read_text() == "1"
    assert (nic / "flags").read_text() == "0x1003"
    ran = session.host.ran  # type: ignore[attr-defined]
    assert ran[:3] == [
        f"link set dev nic0 vf 0 mac {MACS[0]}",
        f"link set dev nic0 vf 1 mac {MACS[1]}",
        "link set dev nic0 vf 2 mac 02:53:4d:ff:ff:01",
    ]
    assert "modprobe -q pci:v8086d10CA" in ran
    assert not any("vlan" in line for line in ran)
    assert switch.witness == "eth3"
    switch.stop()
    assert (nic / "device/sriov_numvfs").read_text().strip() == "0"
    assert (nic / "device/sriov_drivers_autoprobe").read_text().strip() == "1"
    assert (nic / "flags").read_text().strip() == "0x1002"
    assert session.ledger.outstanding() == []


def test_between_hosts_the_nic_is_the_one_with_the_cable(
    nic: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SWITCHMARK_SRIOV_PF")
    switch = sriov.Sriov()
    assert "names no NIC" in reason_of(switch)
    plug_in(switch, "nic0")
    assert switch.availability().available
    far = sriov.Sriov()  # the remote switch gets it with its ports
    cable = replace(cable_port("nic0", 1500), index=1)
    assert far.make_ports(session, [WANTED[0], cable]) == [MadePort(device="eth1")]
    assert (nic / "device/sriov_numvfs").read_text() == "2", "a port, and the witness"
    far.start(session, [WANTED[0], cable], ConnectMode.VEB, [])
    assert far.details()["nic"] == "nic0"
    far.stop()
    assert (nic / "device/sriov_numvfs").read_text().strip() == "0"


def test_each_pair_may_have_its_vlan(nic: Path, session: Session) -> None:
    switch = sriov.Sriov()
    switch.configure({"vlan": "pair"})
    switch.make_ports(
        session, [SwitchPort(k, PortKind.VF, f"02:00:00:00:00:0{k}") for k in range(4)]
    )
    vlans = [line for line in session.host.ran if "vlan" in line]  # type: ignore[attr-defined]
    assert [line.split()[-1] for line in vlans] == ["100", "100", "101", "101", "102"]
    assert switch.witness is None, "its VF is in no pair's VLAN, and would see nothing"
    switch.stop()


def test_too_few_functions_are_reported_before_any_setting(nic: Path, session: Session) -> None:
    requested = [SwitchPort(k, PortKind.VF, f"02:00:00:00:00:0{k}") for k in range(8)]
    with pytest.raises(
        UsageError, match="8 ports and the monitor port need 9 VFs, nic0 has 7 at most"
    ):
        sriov.Sriov().make_ports(session, requested)
    assert (nic / "device/sriov_numvfs").read_text() == "0\n"
    assert session.ledger.outstanding() == []


def test_vfio_without_iommu_is_reported_before_any_setting(
    nic: Path, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vfio-pci would refuse the VF, with a message only in the kernel's log."""
    switch, setting = sriov.Sriov(), tmp_path / "noiommu"
    switch.configure({"vf_driver": "vfio"})
    monkeypatch.setattr(sriov, "kernel_has", lambda _module: False)
    with pytest.raises(UnavailableError, match="has no vfio-pci; use vf_driver: kernel"):
        switch.make_ports(session, WANTED)
    monkeypatch.setattr(sriov, "kernel_has", lambda _module: True)
    monkeypatch.setattr(sriov, "WITHOUT_IOMMU", setting)
    monkeypatch.setattr(sriov, "DEADLINE_S", 0.0)  # no driver here takes anything
    for text in ("", "N\n"):
        setting.write_text(text)
        with pytest.raises(UnavailableError, match=r"behind no IOMMU.*intel_iommu=on.*echo Y"):
            switch.make_ports(session, WANTED)
    assert (nic / "device/sriov_numvfs").read_text() == "0\n"
    assert session.ledger.outstanding() == []
    setting.write_text("Y\n")
    with pytest.raises(TrialFailed, match="vfio-pci at VF 0"):
        switch.make_ports(session, WANTED)
    (nic / "device/iommu_group").mkdir()
    setting.unlink()
    with pytest.raises(TrialFailed, match="vfio-pci at VF 0"):
        switch.make_ports(session, WANTED)
    assert (nic / "device/sriov_numvfs").read_text().strip() == "0"


GUESTS = [replace(port, to_guest=True) for port in WANTED]


def with_vfio(nic: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The VFs of the two ports, which vfio-pci has taken, behind an IOMMU; and of the witness."""
    monkeypatch.setattr(sriov, "kernel_has", lambda _module: True)
    (nic / "device/iommu_group").mkdir()
    functions = [(nic / f"device/virtfn{number}").resolve() for number in range(3)]
    for vf, driver in zip(functions, ("vfio-pci", "vfio-pci", "igbvf"), strict=True):
        (vf / "driver").symlink_to(nic.parents[1] / "drivers" / driver)
        (nic.parents[1] / "drivers" / driver).mkdir(exist_ok=True)
        (vf / "iommu_group/devices").mkdir(parents=True)
        (vf / "iommu_group/devices" / vf.name).symlink_to(vf)
    return functions


def test_a_virtual_machine_gets_the_function_itself(
    nic: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = with_vfio(nic, monkeypatch)
    switch = sriov.Sriov()
    assert switch.make_ports(session, GUESTS) == [
        MadePort(pci=vf.name) for vf in functions[:2]
    ]  # fmt: skip
    for vf in functions[:2]:
        assert (vf / "driver_override").read_text() == "vfio-pci"
    assert not (functions[2] / "driver_override").exists(), "the witness is the host's"
    addresses = session.host.ran[:2]  # type: ignore[attr-defined]
    assert addresses == [f"link set dev nic0 vf {k} mac {MACS[k]}" for k in range(2)]
    assert (nic / "device/sriov_numvfs").read_text() == "3"
    switch.stop()
    assert (nic / "device/sriov_numvfs").read_text().strip() == "0", "and the bindings with them"
    assert session.ledger.outstanding() == []


def test_no_virtual_machine_without_an_iommu(
    nic: Path, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QEMU does not do what vfio allows an application of the host's."""
    setting = tmp_path / "noiommu"
    setting.write_text("Y\n")
    monkeypatch.setattr(sriov, "WITHOUT_IOMMU", setting)
    monkeypatch.setattr(sriov, "kernel_has", lambda _module: False)
    with pytest.raises(UnavailableError, match="no vfio-pci; use environment: netns, lxc or"):
        sriov.Sriov().make_ports(session, GUESTS)
    monkeypatch.setattr(sriov, "kernel_has", lambda _module: True)
    with pytest.raises(UnavailableError) as refused:
        sriov.Sriov().make_ports(session, GUESTS)
    assert str(refused.value) == (
        "sriov: nic0 is behind no IOMMU, without which vfio-pci gives no VF to a virtual machine; "
        "boot with intel_iommu=on (amd_iommu=on), or use environment: netns, lxc or docker"
    )
    assert (nic / "device/sriov_numvfs").read_text() == "0\n"


def test_function_in_shared_iommu_group_is_refused(
    nic: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = with_vfio(nic, monkeypatch)
    group = functions[1] / "iommu_group/devices"
    (group / functions[2].name).symlink_to(functions[2])
    with pytest.raises(UnavailableError, match=r"VF 1 of nic0 shares.*0000:01:10.2, which igbvf"):
        sriov.Sriov().make_ports(session, GUESTS)
    assert (nic / "device/sriov_numvfs").read_text().strip() == "0"
    assert session.ledger.outstanding() == []


def test_why_it_is_not_available(nic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sriov.Sriov().availability().version == (
        f"igb 8086:10c9, 7 VFs at most, Linux {sriov.kernel_release()}"
    )
    (nic / "device/sriov_numvfs").write_text("2\n")
    assert "nic0 already has VFs; set SWITCHMARK_SRIOV_PF" in reason_of(sriov.Sriov())
    monkeypatch.setenv("SWITCHMARK_SRIOV_PF", "eth9")
    assert "eth9 is not a NIC with SR-IOV" in reason_of(sriov.Sriov())
    monkeypatch.delenv("SWITCHMARK_SRIOV_PF")
    assert "names no NIC" in reason_of(sriov.Sriov())


def test_it_starts_only_with_its_own_ports(nic: Path, session: Session) -> None:
    with pytest.raises(UnavailableError, match="sriov: ports 0, 1: it makes its ports itself"):
        sriov.Sriov().start(session, WANTED, ConnectMode.VEB, [])
