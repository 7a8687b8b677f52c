"""What every switch says where something it needs is missing, taken or used up; and that it
leaves nothing behind then. The second half of the contract (test_switch_contract.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from switchmark.errors import SwitchmarkError, TrialFailed, UnavailableError
from switchmark.switch import tools
from switchmark.switch.base import PortKind, Switch, SwitchPort
from switchmark.switch.registry import SWITCHES, make_switch
from switchmark.testbed.host import Session
from switchmark.testbed.session import open_session
from tests.integration.machine import needs_root
from tests.integration.switch_rig import (
    EXCLUSIVE,
    REAL,
    VethEnd,
    available,
    mac_of,
    port_ends,
    rig_kind,
    traces,
)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
]

HUNGRY = [name for name in REAL if SWITCHES[name]().capabilities.needs_hugepages]
OUR_ENGINE = dict.fromkeys(("basicfwd", "af-packet", "reference"), "SWITCHMARK_TRAFFIC")
SETTINGS = {
    name: setting
    for name in REAL
    if (setting := OUR_ENGINE.get(name) or getattr(SWITCHES[name](), "setting", None))
}


def refuses(switch: Switch, session: Session, ports: list[SwitchPort], words: str) -> None:
    """It says so in one line, and nothing is there that was not there before."""
    before = traces(session.id)
    with pytest.raises(UnavailableError, match=words) as refusal:
        switch.start(session, ports, switch.capabilities.connect_modes[0], [0])
    assert "\n" not in str(refusal.value)
    assert switch.name in str(refusal.value)
    assert switch.alive() is not None
    assert traces(session.id) == before


def some_ports(switch: Switch) -> list[SwitchPort]:
    kind = rig_kind(switch)
    return [SwitchPort(k, kind, mac_of(k), device=f"x{k}", socket=f"/tmp/x{k}") for k in (0, 1)]


@pytest.mark.parametrize("name", REAL)
def test_missing_program(
    name: str, session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    switch = make_switch(name)
    if name in SETTINGS:
        monkeypatch.setenv(SETTINGS[name], str(tmp_path / "missing"))
        words = SETTINGS[name]
    else:
        if not switch.probe().available:
            pytest.skip(f"{name}: {switch.probe().reason}")
        monkeypatch.setattr(sys.modules[type(switch).__module__], "which", lambda _name: None)
        words = "not found"
    probe = switch.probe()
    assert not probe.available
    assert words in f"{probe.reason}; {probe.remedy}"
    refuses(switch, session, some_ports(switch), words)


@pytest.mark.parametrize("name", HUNGRY)
def test_hugepages_exhausted(
    name: str, session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As the kernel tells it, so that nobody else's programs suffer."""
    switch = available(name)
    pages = tmp_path / "hugepages-2048kB"
    pages.mkdir()
    (pages / "nr_hugepages").write_text("64\n")
    (pages / "free_hugepages").write_text("3\n")
    monkeypatch.setattr(tools, "HUGEPAGES", tmp_path)
    refuses(switch, session, some_ports(switch), r"needs \d+ MiB of hugepages, 6 MiB are free")


@pytest.mark.parametrize("name", REAL)
def test_port_in_use(name: str, session: Session) -> None:
    """A second instance that is given the ports of the first is told so; the first goes on."""
    one, other = available(name), make_switch(name)
    if name in EXCLUSIVE:
        pytest.skip(f"{name}: one NIC has one embedded switch")
    mode = one.capabilities.connect_modes[0]
    with open_session(measuring=False) as second, port_ends(session, one, 2) as ends:
        ports = [end.port for end in ends]
        before = traces(second.id)
        try:
            one.start(session, ports, mode, [0])
            one.wait_ports_up(30)
            with pytest.raises((UnavailableError, TrialFailed)) as refusal:
                other.start(second, ports, mode, [0])
                other.wait_ports_up(1)
            assert "\n" not in str(refusal.value)
            assert names_a_port(str(refusal.value), ports)
            other.stop()
            assert traces(second.id) == before
            assert one.alive() is None
            if isinstance(ends[0], VethEnd):
                ends[0].send(mac_of(1), 20, 0.001)
                assert len(ends[1].received(20)) == 20  # type: ignore[union-attr]
        except SwitchmarkError as error:
            pytest.fail(f"the first instance: {error}")
        finally:
            other.stop()
            one.stop()


def names_a_port(text: str, ports: list[SwitchPort]) -> bool:
    if ports[0].kind is PortKind.VHOST_USER:
        return any(str(port.socket) in text or f"p{port.index}" in text for port in ports)
    return any(str(port.device or "port") in text for port in ports)
