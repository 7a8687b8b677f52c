"""Changes of running switches as the commands that they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from switchmark.errors import TrialFailed
from switchmark.model.ports import ConnectMode, PortKind, SwitchPort
from switchmark.switch.bess import Bess
from switchmark.switch.registry import SWITCHES
from switchmark.switch.support import vpp_changes
from switchmark.switch.support.changes import (
    PORTS,
    RULES,
    UNKNOWN_WAY,
    ChangesTables,
    Reconfigurable,
    changes_of,
)
from switchmark.switch.support.vpp_changes import spare_entries, spare_ports
from switchmark.switch.vale import Vale
from tests.unit.trial_fakes import SESSION


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_says_whether_it_can_be_changed(name: str) -> None:
    """Campaigns are refused by the capability, so it must be true."""
    switch = SWITCHES[name]()
    assert switch.capabilities.reconfigures == isinstance(switch, Reconfigurable)
    if switch.capabilities.reconfigures:
        assert not switch.capabilities.cannot_reconfigure
        return
    with pytest.raises(TrialFailed) as refused:
        changes_of(switch)
    assert str(refused.value) == f"{name}: {switch.capabilities.cannot_reconfigure or UNKNOWN_WAY}"


@pytest.mark.parametrize("name", SWITCHES)
def test_switch_says_which_tables_can_be_changed(name: str) -> None:
    """Each table that method reconfiguration changes can be changed, or there is a reason."""
    capabilities = SWITCHES[name]().capabilities
    assert bool(capabilities.changes_tables) == isinstance(SWITCHES[name](), ChangesTables)
    for function in {"route", "acl"} & capabilities.functions.keys():
        is_supported = function in capabilities.changes_tables
        why = function in capabilities.cannot_change_tables
        assert is_supported != why


class TestVpp:
    def test_added_objects_are_removed(self) -> None:
        add, remove = spare_ports(bridged=True)
        assert "set interface l2 bridge loop0 1" in add
        assert remove == [f"delete loopback interface intfc loop{n}" for n in range(PORTS)]
        learn, forget = spare_entries()
        assert len(learn) == len(forget) == len(set(learn)) == RULES
        assert learn[258] == "l2fib add 0e:5a:00:00:01:02 1 pipe0.0 static"
        assert forget[258] == "l2fib del 0e:5a:00:00:01:02 1"

    def test_cross_connect_has_neither_bridge_nor_table(self, tmp_path: Path) -> None:
        add, _ = spare_ports(bridged=False)
        assert not any("bridge" in line for line in add)
        names = [one.name for one in self.changes(ConnectMode.CROSS_CONNECT, tmp_path, "")]
        assert names == [f"{PORTS} ports added", f"{PORTS} ports removed"]

    def test_it_waits_until_vpp_has_what_was_added(self, tmp_path: Path) -> None:
        shown = "\n".join(f"loop{n}   {n + 3}   up   9000/0/0/0" for n in range(PORTS))
        added, removed, *_ = self.changes(ConnectMode.LEARNING, tmp_path, shown)
        added.apply()
        with pytest.raises(TimeoutError, match="4 ports removed"):
            removed.apply()

    def test_refusal_of_vpp_is_reported(self, tmp_path: Path) -> None:
        added, *_ = self.changes(ConnectMode.LEARNING, tmp_path, "unknown input `loop'")
        with pytest.raises(TrialFailed, match="vpp: 4 ports added: unknown input"):
            added.apply()

    def test_size_of_the_table(self) -> None:
        text = "L2FIB total/learned entries: 1003/2  Last scan time: 0"
        assert vpp_changes.table_size(text) == 1003
        assert vpp_changes.table_size("no l2fib entries") == 0

    @staticmethod
    def changes(mode: ConnectMode, folder: Path, answer: str) -> list[Any]:
        def until(done: Callable[[], bool], expected: str) -> None:
            if not done():
                raise TimeoutError(expected)

        return list(vpp_changes.changes(mode, folder, lambda *_: answer, until))


class TestVale:
    def test_devices_are_attached_and_detached_in_order(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log: list[str] = []

        class Place:
            name = "sw"

            def batch(self, tool: str, lines: list[str]) -> None:
                log.extend(f"{tool} {line}" for line in lines)

        def inside(where: str, action: Callable[[], object]) -> None:
            assert where == "sw"
            action()

        monkeypatch.setattr("switchmark.host.kernel.namespaces.inside", inside)
        for name in ("attach", "detach"):
            monkeypatch.setattr(
                f"switchmark.host.kernel.netmap.{name}",
                lambda port, name=name: log.append(name + port),
            )
        switch = Vale()
        switch.session, switch.namespace = SESSION, Place()  # type: ignore[assignment]
        added, removed = changes_of(switch)
        added.apply()
        first, others = "smabc123n0", len(log)
        assert log[0] == f"ip link add {first} type veth peer name smabc123m0"
        assert log[-PORTS:] == [f"attachvale0:smabc123n{k}" for k in range(PORTS)]
        removed.apply()
        assert log[others : others + PORTS] == [f"detachvale0:smabc123n{k}" for k in range(PORTS)]
        assert log[others + PORTS :] == [f"ip link del smabc123n{k}" for k in range(PORTS)]


class TestBess:
    @pytest.mark.parametrize("mode", [ConnectMode.CROSS_CONNECT, ConnectMode.STATIC_MAC])
    def test_ports_lie_behind_those_of_the_trial_and_the_witness(
        self, tmp_path: Path, mode: ConnectMode
    ) -> None:
        requested: list[dict[str, Any]] = []
        switch = Bess()
        switch._folder, switch.mode = tmp_path, mode
        switch.ports = tuple(SwitchPort(k, PortKind.VHOST_USER, f"02::{k}") for k in range(2))
        switch._request = lambda request: requested.append(request) or {}  # type: ignore[method-assign,func-returns-value]
        for item in changes_of(switch):
            item.apply()
        join, part, *tables = requested
        numbers = [port["vdev"].split(",")[0] for port in join["ports"]]
        assert numbers == [f"net_vhost{2 + k}" for k in range(PORTS)]
        assert part == {"do": "remove-ports", "count": PORTS}
        if mode is ConnectMode.CROSS_CONNECT:
            assert join["gate"] is None and not tables
            return
        assert join["gate"] == 3, "behind two ports and the witness"
        learn, forget = tables
        assert [item["addr"] for item in learn["entries"]] == forget["entries"]
        assert len(set(forget["entries"])) == RULES
