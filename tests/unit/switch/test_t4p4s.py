"""t4p4s: the table that is compiled in, its arguments, and a program for each connect mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.errors import UnavailableError, UsageError
from switchmark.host.host import Session
from switchmark.model.ports import ConnectMode, PortKind, SwitchPort
from switchmark.switch import t4p4s
from tests.unit.switch_programs import CROSS, PORTS, STATIC, script

pytestmark = pytest.mark.usefixtures("root_with_hugepages")


def test_table_of_the_program() -> None:
    table = t4p4s.table()
    assert sorted(table) == list(range(16))
    assert table[0] == "02:53:4d:00:00:01"
    assert table[3] == "02:53:4d:00:01:02"
    assert len(set(table.values())) == 16


def test_arguments() -> None:
    arguments = t4p4s.arguments(Path("/p"), PORTS[:2], STATIC, 1, "smx")
    assert "net_vhost1,iface=/run/p1.sock,client=1" in arguments
    assert arguments[arguments.index("--lcores") + 1] == "0@1"
    end = arguments.index("--")
    assert arguments[end:] == ["--", "-p", "0x7", "--config", "(0,0,0),(1,0,0)"]
    assert "net_null0,no-rx=1" in arguments
    arguments = t4p4s.arguments(Path("/p"), PORTS[:2], CROSS, 1, "smx")
    assert arguments[-4:] == ["-p", "0x3", "--config", "(0,0,0),(1,0,0)"]
    assert "net_null0,no-rx=1" not in arguments


@pytest.mark.parametrize(("mode", "mask"), [(STATIC, "0x1ffff"), (CROSS, "0xffff")])
def test_a_core_polls_no_more_queues_than_its_program_can(mode: ConnectMode, mask: str) -> None:
    """16: with a queue of the witness's its program would refuse eight pairs."""
    table, most = t4p4s.table(), t4p4s.T4p4s.capabilities.max_ports
    assert most == len(table)
    ports = [
        SwitchPort(k, PortKind.VHOST_USER, mac, socket=f"/run/p{k}.sock")
        for k, mac in sorted(table.items())
    ]
    arguments = t4p4s.arguments(Path("/p"), ports, mode, 1, "smx")
    assert arguments[arguments.index("-p") + 1] == mask
    assert arguments[-1].count("(") == most


def test_marks_are_in_the_sources_they_tell_apart() -> None:
    names = {mode: mark.removeprefix(b"ingress.") for mode, mark in t4p4s.MARKS.items()}
    for mode, source in t4p4s.SOURCES.items():
        markers = {other for other, name in names.items() if name in source.read_bytes()}
        assert markers == {mode}


def test_address_that_is_not_compiled_in(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHMARK_T4P4S", compiled(tmp_path / "p", STATIC))
    other = SwitchPort(1, PortKind.VHOST_USER, "02:00:00:00:00:07", socket="/run/p1.sock")
    with pytest.raises(UsageError, match=r"port 1 has address 02:00.*in its program has 02:53"):
        t4p4s.T4p4s().start(session, [PORTS[0], other], STATIC, [0])
    assert str(t4p4s.T4p4s().availability().version).endswith("DPDK 22.11.1")
    assert session.ledger.outstanding() == []


def test_each_mode_has_its_own_program(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch, beside = t4p4s.T4p4s(), tmp_path / "p-cross-connect"
    monkeypatch.setenv("SWITCHMARK_T4P4S", compiled(tmp_path / "p", STATIC))
    assert switch.mode_availability(STATIC).available
    lacking = switch.mode_availability(CROSS)
    assert f"no program {beside}" in str(lacking.reason)
    assert "compile" in str(lacking.remedy)
    assert "t4p4s_cross_connect.p4" in str(lacking.remedy)
    with pytest.raises(UnavailableError, match=r"no program .*p-cross-connect"):
        switch.start(session, PORTS[:2], CROSS, [0])
    compiled(beside, STATIC)  # the wrong one would look at addresses, and nobody notice
    assert "was not compiled from t4p4s_cross_connect.p4" in str(
        switch.mode_availability(CROSS).reason
    )
    compiled(beside, CROSS)
    assert switch.mode_availability(CROSS).available
    compiled(tmp_path / "p", CROSS)
    assert "was not compiled from t4p4s.p4" in str(switch.mode_availability(STATIC).reason)


def compiled(path: Path, mode: ConnectMode) -> str:
    says = "echo \"EAL: RTE Version: 'DPDK 22.11.1'\""
    return script(path, f"{says} # {t4p4s.MARKS[mode].decode()}")
