"""The common base of switches that are programs: a program that is missing, does not run or lacks
memory is reported before its start, and the end of its output after its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.errors import UnavailableError
from switchmark.host import hugepages, place
from switchmark.host.host import Session
from switchmark.model.capabilities import unavailable
from switchmark.switch import bess, fastclick, snabb, t4p4s, vpp
from switchmark.switch.support import program
from tests.unit.switch_programs import PORTS, script

pytestmark = pytest.mark.usefixtures("root_with_hugepages")


PROGRAMS = [
    (snabb.Snabb, "SWITCHMARK_SNABB", "snabb 1"),
    (vpp.Vpp, "SWITCHMARK_VPP", "vpp v1"),
    (fastclick.FastClick, "SWITCHMARK_FASTCLICK", "click (FastClick) 1 with DPDK 1.0"),
    (bess.Bess, "SWITCHMARK_BESS", "bessd version 1"),
    (t4p4s.T4p4s, "SWITCHMARK_T4P4S", "DPDK 1.0 ingress.destination"),
]


@pytest.mark.parametrize(("make", "setting", "says"), PROGRAMS)
def test_missing_broken_and_short_of_memory(
    make: type[program.ProgramSwitch],
    setting: str,
    says: str,
    session: Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    switch = make()
    mode = switch.capabilities.connect_modes[0]
    monkeypatch.setenv(setting, str(tmp_path / "missing"))
    wrong = f"{setting}={tmp_path}/missing does not exist; "
    with pytest.raises(UnavailableError, match=f"{switch.name}: .*{wrong}"):
        switch.start(session, PORTS[:2], mode, [0])
    monkeypatch.setenv(setting, script(tmp_path / "mute", "exit 1"))
    assert "does not run" in str(switch.availability().reason)
    monkeypatch.setenv(setting, script(tmp_path / "speaks", f"echo '{says}'"))
    for tool in ("vppctl", "vpp_get_stats"):
        script(tmp_path / tool, "exit 0")
    monkeypatch.setenv("SWITCHMARK_BESS_PYTHON", script(tmp_path / "python", "echo ok"))
    monkeypatch.setattr(hugepages, "pools", lambda: (hugepages.HugepagePool(2048, 5, 5),))
    with pytest.raises(UnavailableError, match=r"needs \d+ MiB of hugepages, 10 MiB are free"):
        switch.start(session, PORTS[:2], mode, [0])
    assert session.ledger.outstanding() == []
    monkeypatch.setattr(hugepages, "are_reserved", lambda: False)
    assert switch.availability().available != switch.capabilities.needs_hugepages
    monkeypatch.setattr(place, "missing", lambda *_: unavailable("cannot do it", remedy="sudo"))
    assert str(switch.availability().refusal) == "cannot do it; sudo"
