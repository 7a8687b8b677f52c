"""VALE: the ports that it makes and attaches, and their details; the kernel is a fake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from switchmark.errors import UnavailableError
from switchmark.host.host import Session
from switchmark.host.kernel import netmap
from switchmark.host.undo.ledger import Ledger
from switchmark.model.capabilities import available
from switchmark.model.ports import ConnectMode, MadePort, PortCounters, PortKind, SwitchPort
from switchmark.switch import vale
from switchmark.switch.support.private import Resources

OWN = [SwitchPort(k, PortKind.VALE, f"02:53:4d:00:00:0{k}") for k in range(2)]
CABLE = SwitchPort(1, PortKind.VETH, "02:53:4d:ff:ff:02", "eth1", cable=True)


class Place:
    """The switch's namespace."""

    name = "smabc123sw"

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.counted: dict[str, PortCounters] = {}

    def batch(self, tool: str, lines: list[str], **_more: object) -> None:
        self.log.extend(f"{tool} {line}" for line in lines)

    def adopt(self, devices: list[str], lent: list[str]) -> None:
        self.log.append(f"adopt {devices}, lent {lent}")

    def link_counters(self) -> dict[str, PortCounters]:
        return self.counted

    def query(self, *_words: str) -> list[dict[str, Any]]:
        up = ["UP", "LOWER_UP"]
        return [{"ifname": name, "flags": up} for name in (*self.counted, "eth1", "smabc123w1")]

    def queue_drops(self, _device: str) -> int:
        return 0


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[str]) -> Iterator[Session]:
    def inside(_where: str, action: Callable[[], Any]) -> Any:
        return action()

    monkeypatch.setattr("switchmark.host.kernel.namespaces.inside", inside)
    monkeypatch.setattr("switchmark.host.undo.entries.network.inside", inside)
    for name in ("attach", "detach"):
        monkeypatch.setattr(netmap, name, lambda port, name=name: log.append(f"{name} {port}"))
    monkeypatch.setattr(netmap, "HOLDERS", tmp_path / "holders")
    monkeypatch.setattr(netmap, "PARAMETERS", tmp_path / "parameters")
    settings = "switchmark.host.kernel.device_settings"
    monkeypatch.setattr(f"{settings}.driver_of", lambda _device: "virtio-net")
    monkeypatch.setattr(f"{settings}.disable_offloads", lambda _device: None)
    place = Place(log)
    monkeypatch.setattr(Resources, "namespace", lambda _self: place)
    monkeypatch.setattr(vale.Vale, "availability", lambda _self: available("netmap"))
    ledger = Ledger.create(tmp_path / "state", "abc123")
    yield Session("abc123", SimpleNamespace(), ledger, tmp_path / "run")
    ledger.close()


def started(session: Session, ports: list[SwitchPort]) -> vale.Vale:
    switch = vale.Vale()
    switch.make_ports(session, ports)
    switch.start(session, ports, ConnectMode.LEARNING, ())
    return switch


def test_its_own_ports_are_names_to_open(session: Session, log: list[str]) -> None:
    ports_made = vale.Vale().make_ports(session, OWN)
    where = "netns=/run/netns/smabc123sw"
    assert ports_made == [MadePort(netmap=f"vale0:p{k},{where}") for k in range(2)]
    assert not log, "an application makes its port by opening it"


def test_between_hosts_the_cable_s_nic_is_a_port_beside_its_own(
    session: Session, log: list[str]
) -> None:
    switch = vale.Vale()
    ports_made = switch.make_ports(session, [OWN[0], CABLE])
    assert [one.netmap for one in ports_made] == ["vale0:p0,netns=/run/netns/smabc123sw"]
    switch.start(session, [OWN[0], CABLE], ConnectMode.LEARNING, ())
    assert "adopt ['eth1'], lent ['eth1']" in log, "it goes back to the host afterwards"
    assert [line for line in log if line.startswith("attach")] == [
        "attach vale0:smabc123w0",
        "attach vale0:eth1",
    ]
    assert switch.alive() is None
    switch.wait_ports_up(1.0)
    assert switch.details()["attached eth1"] == "generic (virtio-net)"
    switch.stop()
    assert [line for line in log if line.startswith("detach")] == [
        "detach vale0:eth1",
        "detach vale0:smabc123w0",
    ]


def test_native_driver_differs_from_emulation(session: Session, tmp_path: Path) -> None:
    (tmp_path / "holders" / "virtio_net").mkdir(parents=True)
    (tmp_path / "parameters").mkdir()
    admode = tmp_path / "parameters" / "admode"
    admode.write_text("0\n")
    switch = started(session, [OWN[0], CABLE])
    assert switch.details()["attached eth1"] == "native (virtio-net)"
    switch.stop()
    admode.write_text("2\n")  # netmap emulates, whatever the driver has
    switch = started(session, [OWN[0], CABLE])
    assert switch.details()["attached eth1"] == "generic (virtio-net)"
    switch.stop()


def test_it_counts_at_the_cable_and_nothing_at_its_own_ports(session: Session) -> None:
    switch = started(session, [OWN[0], CABLE])
    place: Any = switch.namespace
    place.counted = {"eth1": PortCounters(70, 90, 0, 0), "smabc123w1": PortCounters(1, 0, 0, 0)}
    counted = switch.counters()
    assert set(counted.ports) == {1}
    assert (counted.ports[1].rx_frames, counted.ports[1].tx_frames) == (70, 90)
    assert counted.witness_rx_frames == 1
    switch.stop()


def test_cable_that_went_down_is_reported(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = started(session, [OWN[0], CABLE])
    monkeypatch.setattr(Place, "query", lambda *_: [{"ifname": "smabc123w1", "flags": ["UP"]}])
    assert "eth1 went down" in str(switch.alive())
    switch.stop()


def test_ports_that_it_has_not_named_are_not_its_own(session: Session) -> None:
    with pytest.raises(UnavailableError, match="it names its ports itself"):
        vale.Vale().start(session, OWN, ConnectMode.LEARNING, ())
