"""Functions under load: every counted frame is compared with the neutral table, and frames that
must be dropped are sent beside the load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from switchmark.certify.support.rig import plan_for
from switchmark.function.support import flows
from switchmark.function.support.table import FunctionTable
from switchmark.host.session import open_session
from switchmark.record import Record
from switchmark.switch.linux_router import LinuxRouter
from switchmark.trial import deployment, function_proof, function_traffic
from switchmark.trial.evidence import Baseline
from switchmark.trial.run import run_trial
from tests.integration.machine import needs_root

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
]
# Low enough for any machine: wrong frames are counted, rates are not judged.
SETTINGS = {"rate": "2k", "burst": "1", "duration": "1.2s", "interval": "100ms"}


def measured(monkeypatch: pytest.MonkeyPatch, **settings: str) -> Record:
    """Return the record of a trial of `linux-router` whose proof is left out."""
    monkeypatch.setattr(function_proof, "probes_of", lambda _table: [])
    plan = plan_for(LinuxRouter(), **{**SETTINGS, **settings})
    with open_session(measuring=False) as session:
        record = run_trial(
            session, plan, campaign="functions", run_id="functions", provenance={},
            observe=lambda _: None, baseline=Baseline(),
        )  # fmt: skip
    assert record.status == "finished", record.message
    assert record.function is not None and record.verdict is not None
    return record


ROUTES = {"function": "route", "routes": "500", "flows": "200"}
RULES = {"function": "route+acl", "routes": "20", "rules": "50", "flows": "20"}


def test_right_frames_violate_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    record = measured(monkeypatch, **RULES)
    note = record.function
    assert note is not None and record.verdict is not None
    assert (note.wrong_next_hop, note.wrong_header, note.denied_arrived) == (0, 0, 0)
    assert note.denied_sent > 0
    assert "function-violated" not in record.verdict.marks
    assert record.throughput is not None and record.throughput.forwarded_pps > 0
    assert record.reconciliation is not None


def changed_table(change: Callable[[FunctionTable], FunctionTable]) -> Callable[..., Any]:
    """Return a replacement for the options of receivers that expects another table."""
    right = function_traffic.receiver_args
    return lambda table, port: right(change(table), port)


def with_other_hop(table: FunctionTable) -> FunctionTable:
    hops = list(table.next_hops)
    hops[2] = replace(hops[2], mac="02:6e:00:00:ff:01")
    return replace(table, next_hops=tuple(hops))


def test_a_wrong_next_hop_under_load_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "receiver_args", changed_table(with_other_hop))
    record = measured(monkeypatch, **ROUTES)
    assert record.function is not None and record.verdict is not None
    assert record.function.wrong_next_hop > 0
    assert record.function.wrong_header == 0
    assert "function-violated" in record.verdict.marks
    assert not record.verdict.valid


def test_an_unchanged_ttl_under_load_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = function_traffic.receiver_args

    def expects_64(table: FunctionTable, port: int) -> list[str]:
        return [word if word != "63" else "64" for word in right(table, port)]

    monkeypatch.setattr(deployment, "receiver_args", expects_64)
    record = measured(monkeypatch, **ROUTES)
    assert record.function is not None and record.verdict is not None
    assert record.function.wrong_header > 0
    assert "function-violated" in record.verdict.marks


def test_frames_that_should_be_dropped_and_arrive_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The denied stream carries flows of the load, which the switch passes."""

    def permitted(table: FunctionTable, count: int) -> flows.FlowRows:
        return flows.load_flows(table, min(count, 20), [1], 1)

    monkeypatch.setattr(function_traffic, "denied_flows", permitted)
    record = measured(monkeypatch, **RULES)
    assert record.function is not None and record.verdict is not None
    assert record.function.denied_arrived > 0
    assert record.function.denied_sent >= record.function.denied_arrived
    assert "function-violated" in record.verdict.marks


def test_tables_that_change_during_the_traffic_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = LinuxRouter.function_entries
    readings: list[int] = []

    def fewer_later(self: LinuxRouter) -> Any:
        entries = counted(self)
        readings.append(1)
        if len(readings) == 1:
            return entries
        return replace(entries, read_back={name: n - 1 for name, n in entries.read_back.items()})

    monkeypatch.setattr(LinuxRouter, "function_entries", fewer_later)
    record = measured(monkeypatch, **ROUTES)
    assert record.verdict is not None
    assert "function-violated" in record.verdict.marks
