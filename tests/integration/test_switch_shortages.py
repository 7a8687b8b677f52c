"""The third part of the contract: the message of every switch if a resource is missing or
exhausted, and that it leaves nothing behind then."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from switchmark.errors import TrialFailed, UnavailableError
from switchmark.host import hugepages
from switchmark.host.host import Session
from switchmark.model.ports import PortKind, SwitchPort
from switchmark.switch.registry import SWITCHES, make_switch
from switchmark.switch.support.base import Switch
from tests.integration.machine import needs_root
from tests.integration.switch_rig import REAL, available, mac_of, rig_kind, traces
from tests.integration.switch_traffic import natural_mode

pytestmark = [
    pytest.mark.alone,
    pytest.mark.integration,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
]

HUNGRY = [name for name in REAL if SWITCHES[name]().capabilities.page_sizes]
OUR_ENGINE = dict.fromkeys(("basicfwd", "af-packet", "reference"), "SWITCHMARK_TRAFFIC")
SETTINGS = {
    name: setting
    for name in REAL
    if (setting := OUR_ENGINE.get(name) or getattr(SWITCHES[name](), "setting", None))
}


def refuses(switch: Switch, session: Session, ports: list[SwitchPort], message: str) -> None:
    """Check that the refusal is one line and leaves nothing behind."""
    before = traces(session.id)
    with pytest.raises(UnavailableError, match=message) as refusal:
        switch.start(session, ports, natural_mode(switch), [0])
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
        message = SETTINGS[name]
    else:
        if not switch.availability().available:
            pytest.skip(f"{name}: {switch.availability().reason}")
        monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
        message = "not found"
    availability = switch.availability()
    assert not availability.available
    assert message in f"{availability.reason}; {availability.remedy}"
    refuses(switch, session, some_ports(switch), message)


@pytest.mark.parametrize("name", HUNGRY)
def test_hugepages_exhausted(
    name: str, session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The kernel's report is replaced, so that other programs keep their hugepages."""
    switch = available(name)
    pages = tmp_path / "hugepages-2048kB"
    pages.mkdir()
    (pages / "nr_hugepages").write_text("64\n")
    (pages / "free_hugepages").write_text("3\n")
    monkeypatch.setattr(hugepages, "pools", partial(hugepages.pools, tmp_path))
    refuses(switch, session, some_ports(switch), r"needs \d+ MiB of hugepages, 6 MiB are free")


@pytest.mark.parametrize("name", REAL)
def test_missing_port_is_one_clear_line(name: str, session: Session) -> None:
    switch = available(name)
    kind = rig_kind(switch)
    before = traces(session.id)
    if kind is PortKind.VHOST_USER:
        nobody = session.run_dir / "nobody"
        ports = [SwitchPort(k, kind, mac_of(k), socket=f"{nobody}{k}.sock") for k in (0, 1)]
    else:
        ports = [SwitchPort(k, kind, mac_of(k), device=f"smnone{k}") for k in (0, 1)]
    try:
        if kind is not PortKind.VHOST_USER:
            with pytest.raises(UnavailableError, match="smnone0"):
                switch.start(session, ports, natural_mode(switch), [0])
        else:
            switch.start(session, ports, natural_mode(switch), [0])
            with pytest.raises(TrialFailed, match=r"no peer on .* after 0\.3 s"):
                switch.wait_ports_up(0.3)
    finally:
        switch.stop()
    assert traces(session.id) == before
