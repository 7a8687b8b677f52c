"""Changes of running switches as the commands that they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from switchmark.errors import TrialFailed
from switchmark.switch import vpp_changes
from switchmark.switch.base import ConnectMode
from switchmark.switch.changes import PORTS, RULES, Reconfigurable, changes_of
from switchmark.switch.registry import SWITCHES
from switchmark.switch.vpp_changes import Bridge, spare_entries, spare_ports

BRIDGE = Bridge(1, "pipe0.0")


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_says_whether_it_can_be_changed(name: str) -> None:
    """Campaigns are refused by the capability, so it must be true."""
    switch = SWITCHES[name]()
    assert switch.capabilities.reconfigures == isinstance(switch, Reconfigurable)
    if not switch.capabilities.reconfigures:
        with pytest.raises(TrialFailed, match=f"^{name}: no way is known"):
            changes_of(switch)


class TestVpp:
    def test_what_is_added_is_removed(self) -> None:
        add, remove = spare_ports(BRIDGE)
        assert "set interface l2 bridge loop0 1" in add
        assert remove == [f"delete loopback interface intfc loop{n}" for n in range(PORTS)]
        learn, forget = spare_entries(BRIDGE)
        assert len(learn) == len(forget) == len(set(learn)) == RULES
        assert learn[258] == "l2fib add 0e:5a:00:00:01:02 1 pipe0.0 static"
        assert forget[258] == "l2fib del 0e:5a:00:00:01:02 1"

    def test_cross_connect_has_neither_bridge_nor_table(self, tmp_path: Path) -> None:
        add, _ = spare_ports(None)
        assert not any("bridge" in line for line in add)
        names = [one.name for one in self.changes(ConnectMode.CROSS_CONNECT, tmp_path, "")]
        assert names == [f"{PORTS} ports added", f"{PORTS} ports removed"]

    def test_it_waits_until_vpp_has_what_was_added(self, tmp_path: Path) -> None:
        shown = "\n".join(f"loop{n}   {n + 3}   up   9000/0/0/0" for n in range(PORTS))
        added, removed, *_ = self.changes(ConnectMode.LEARNING, tmp_path, shown)
        added.apply()
        with pytest.raises(TimeoutError, match="4 ports removed"):
            removed.apply()

    def test_what_vpp_refuses_is_told(self, tmp_path: Path) -> None:
        added, *_ = self.changes(ConnectMode.LEARNING, tmp_path, "unknown input `loop'")
        with pytest.raises(TrialFailed, match="vpp: 4 ports added: unknown input"):
            added.apply()

    def test_size_of_the_table(self) -> None:
        text = "L2FIB total/learned entries: 1003/2  Last scan time: 0"
        assert vpp_changes.table_size(text) == 1003
        assert vpp_changes.table_size("no l2fib entries") == 0

    @staticmethod
    def changes(mode: ConnectMode, folder: Path, answer: str) -> list[vpp_changes.Change]:
        def until(done: Callable[[], bool], what: str) -> None:
            if not done():
                raise TimeoutError(what)

        return list(vpp_changes.changes(mode, folder, lambda *_: answer, until, BRIDGE))
