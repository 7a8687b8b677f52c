"""The proof of a function, over a simulated switch that has its own table."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from switchmark.errors import TrialFailed
from switchmark.function.registry import forwarded
from switchmark.function.support.flows import verdict
from switchmark.function.support.frames import parse
from switchmark.function.support.functions import Passing
from switchmark.function.support.table import FunctionTable
from switchmark.model.functions import FunctionEntries
from switchmark.record.function import FunctionNote
from switchmark.trial import function_proof
from tests.unit.function.test_route import table

ENTRIES = FunctionEntries({"routes": 3}, {"routes": 3}, 0.5)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_proof, "SILENCE_S", 0.0)
    monkeypatch.setattr(function_proof, "GAP_S", 0.0)
    monkeypatch.setattr(function_proof, "ARRIVAL_TIMEOUT_S", 0.0)


class Simulated:
    """Testers around a switch that works by `table`."""

    def __init__(self, table: FunctionTable, lose: Callable[[int], bool] = lambda _n: False):
        self.table = table
        self.lose = lose
        self.count = 0
        self.arrived: dict[int, list[bytes]] = {port.index: [] for port in table.ports}
        self.testers: Any = {index: _Tester(self, index) for index in self.arrived}

    def enter(self, ingress: int, raw: bytes) -> None:
        self.count += 1
        if self.lose(self.count):
            return
        leaving = forwarded(self.table, Passing(ingress, parse(raw)))
        if leaving is not None and leaving.egress is not None:
            self.arrived[leaving.egress].append(leaving.frame.to_bytes())


class _Tester:
    def __init__(self, around: Simulated, index: int) -> None:
        self.around, self.index = around, index

    def capture(self, _count: int) -> None:
        self.around.arrived[self.index].clear()

    def inject(self, frames: Sequence[bytes]) -> tuple[bool, ...]:
        for raw in frames:
            self.around.enter(self.index, raw)
        return tuple(True for _ in frames)

    def captured(self, _timeout_s: float, _enough: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(data=raw + bytes(6)) for raw in self.around.arrived[self.index]]


def prove(checked: FunctionTable, switch: Simulated) -> FunctionNote:
    return function_proof.prove("the switch", checked, switch.testers, lambda: ENTRIES)


TABLES = {
    "route": table("route", routes=200),
    "route6": table("route", routes=50, ip_version=6),
    "route+acl": table("route+acl", routes=50, rules=40),
    "forward+acl": table("forward+acl", rules=40, rule_hit="uniform"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_right_switch_passes(name: str) -> None:
    note = prove(TABLES[name], Simulated(TABLES[name]))
    assert note.must_arrive >= 4
    assert note.must_arrive + note.must_not_arrive == note.cases
    assert note.repeated == 0
    if name != "forward+acl":
        assert note.must_not_arrive >= 2


def test_a_frame_that_is_lost_once_is_sent_again() -> None:
    note = prove(TABLES["route"], Simulated(TABLES["route"], lambda number: number == 3))
    assert note.repeated == 1


def wrong_tables() -> Iterator[tuple[str, FunctionTable, FunctionTable, str]]:
    routed = TABLES["route"]
    assert routed.routes is not None
    yield "missing route", routed, replace(routed, routes=routed.routes.without(0)), "not arrive"
    hops = list(routed.next_hops)
    hops[2] = replace(hops[2], mac="02:6e:00:00:ff:01")
    yield "wrong MAC", routed, replace(routed, next_hops=tuple(hops)), "destination mac"
    yield "same TTL", routed, replace(routed, decrements_ttl=False), "ttl is"
    filtered = TABLES["route+acl"]
    swapped = replace(filtered, rules=filtered.rules[::-1])
    yield "order of rules", filtered, swapped, "must be dropped"
    yield "no rules", filtered, replace(filtered, rules=(), default_permit=True), "must be dropped"
    yield "all denied", filtered, replace(filtered, rules=()), "not arrive"


@pytest.mark.parametrize(
    ("checked", "used", "message"),
    [pytest.param(*rest, id=name) for name, *rest in wrong_tables()],
)
def test_a_planted_error_is_found(
    checked: FunctionTable, used: FunctionTable, message: str
) -> None:
    with pytest.raises(TrialFailed, match="does not perform function") as caught:
        prove(checked, Simulated(used))
    assert message in str(caught.value)


def test_entries_that_differ_are_found_before_any_frame() -> None:
    switch = Simulated(TABLES["route"])
    lacking = FunctionEntries({"routes": 3}, {"routes": 2})
    with pytest.raises(TrialFailed, match="routes: 3 entries were written, 2 were read back"):
        function_proof.prove("the switch", TABLES["route"], switch.testers, lambda: lacking)
    assert switch.count == 0


def test_a_copy_too_many_is_found() -> None:
    switch = Simulated(TABLES["forward+acl"])
    enter = switch.enter

    def twice(ingress: int, raw: bytes) -> None:
        enter(ingress, raw)
        enter(ingress, raw)

    switch.enter = twice  # type: ignore[method-assign]
    with pytest.raises(TrialFailed, match="2 times"):
        prove(TABLES["forward+acl"], switch)


def test_a_frame_of_the_load_has_a_verdict() -> None:
    neutral = TABLES["forward+acl"]
    assert not verdict(neutral, "192.0.2.1", "192.0.2.2", 1, 2)
