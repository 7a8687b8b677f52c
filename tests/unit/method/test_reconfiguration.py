"""Changes of tables at a set rate: their schedule, and the check that they are in force."""

from __future__ import annotations

import itertools

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_text
from switchmark.errors import TrialFailed, UsageError
from switchmark.method.support import table_churn
from switchmark.method.support.disturbance import Disturbance
from switchmark.method.support.outage import Span
from switchmark.method.support.table_churn import MOST_ENTRIES, Churn, entries_to_change
from switchmark.model.changes import TableChange
from switchmark.model.functions import FunctionList
from switchmark.simulation.switch import Behaviour, SimulatedSwitch
from tests.unit.method_fakes import run_simulated

DISTURBANCE = Disturbance(
    point=SimulatedSwitch(Behaviour(capacity_pps=1e6)).measure(2.0, 1000.0),
    missing_frames=20, silence=Span(0.1, 0.1, 0.1), action_s=1.0, resumed=True,
)  # fmt: skip


class Table:
    """A table of a switch, which can lose or keep entries."""

    def __init__(self, lost: int = 0, stays: int = 0) -> None:
        self.entries = set(range(-50, 0))
        self.calls: list[tuple[str, int, int]] = []
        self._lost, self._stays = lost, stays

    def add(self, first: int, end: int) -> None:
        self.calls.append(("add", first, end))
        self.entries |= set(range(first, end)) - set(range(self._lost))

    def remove(self, first: int, end: int) -> None:
        self.calls.append(("remove", first, end))
        self.entries -= set(range(first, end)) - set(range(self._stays))

    @property
    def change(self) -> TableChange:
        return TableChange("routes", self.add, self.remove, lambda: len(self.entries))


def test_changes_follow_the_rate_and_are_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock advances by 10 ms with each reading. Calls are at least `STEP_S` apart, each with
    the changes that are due."""
    clock = itertools.count()
    monkeypatch.setattr(table_churn.time, "monotonic", lambda: next(clock) / 100)
    table = Table()
    churn = Churn(table.change, 500, 1000)
    for _ in churn.steps():
        pass
    assert len(table.entries) == 50
    for verb in ("add", "remove"):
        parts = [(first, end) for word, first, end in table.calls if word == verb]
        assert parts[0][0] == 0 and parts[-1][1] == 500
        assert all(a[1] == b[0] for a, b in itertools.pairwise(parts))
        assert 3 < len(parts) <= 11
    figures = {figure.name: figure.value for figure in churn.figures(DISTURBANCE)}
    assert figures["routes: changes in force"] == 1000
    assert figures["routes: rate set"] == 1000
    assert figures["routes: loss"] == pytest.approx(0.01)
    assert 700 < figures["routes: rate reached"] <= 1000
    assert figures["routes: time per change"] > 0


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (Table(lost=1), "after 20 routes were added, the switch has 69 entries instead of 70"),
        (Table(stays=2), "after 20 routes were removed, the switch has 52 entries instead of 50"),
    ],
    ids=["lost", "stays"],
)
def test_change_that_is_not_in_force_fails(table: Table, message: str) -> None:
    with pytest.raises(TrialFailed, match=message):
        list(Churn(table.change, 20, 1_000_000).steps())


def test_number_of_entries_follows_from_rate_and_duration() -> None:
    assert entries_to_change(1000, 4.0) == 2000
    assert entries_to_change(1, 1.0) == 1
    assert entries_to_change(1_000_000, 4.0) == MOST_ENTRIES


def test_method_changes_tables_of_functions_only() -> None:
    """Ports are not touched while a function is performed."""
    table = Table()
    result = run_simulated(
        "reconfiguration", Behaviour(capacity_pps=1e6), table_changes=(table.change,),
        function=FunctionList.of("route"), change_rate=100_000,
    )  # fmt: skip
    names = {figure.name for figure in result.figures}
    assert {"routes: rate set", "routes: rate reached", "longest outage"} <= names
    assert table.calls and len(table.entries) == 50


def test_switch_without_changes_of_tables_is_refused() -> None:
    here = installed()
    text = "name: x\nswitch: snabb\nmethod: reconfiguration\nfunction: route\n"
    with pytest.raises(UsageError, match="function route: its program loads the table while"):
        expand(load_text(text, "x.yaml", here.known), here.switches, here.environments)
