"""Plan and figures name the fallback port kind of a switch that cannot have its own ports."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.cli.plan import make_plan, stand_ins
from switchmark.model.ports import PortKind
from switchmark.results.summary import summary
from tests.unit.records import synthetic_record, synthetic_trial, write_run


@pytest.mark.parametrize(
    ("requested", "reason"),
    [
        ("port_kind=veth", "port_kind asks for it"),
        ("io=raw", "io raw has no way to vale ports"),
        ("generator=testpmd", "generator testpmd has no way to vale ports"),
    ],
)
def test_plan_gives_reason_for_fallback_ports_of_vale(requested: str, reason: str) -> None:
    (line,) = stand_ins(make_plan(f"(V=vale, D=throughput, environment=netns, {requested})", []))
    assert line.startswith("vale in netns: veth, attached in netmap's generic mode, replaces")
    assert line.endswith(f"; so because {reason}")


@pytest.mark.parametrize("location", ["local", "remote"])
@pytest.mark.parametrize("environment", ["netns", "bare", "lxc", "docker"])
def test_its_own_ports_stand_in_for_nothing(environment: str, location: str) -> None:
    planned = make_plan(
        f"(V=vale, D=throughput, environment={environment}, location={location})", []
    )
    assert {placed.port_kind for placed in planned.placed.values()} == {PortKind.VALE}
    assert stand_ins(planned) == []


def test_the_figures_have_it_beside_them(tmp_path: Path) -> None:
    record = synthetic_record(synthetic_trial())
    details = {**record.switch_details, "stand_in": "veth replaces VALE's own ports"}
    run = write_run(tmp_path / "results", [record.model_copy(update={"switch_details": details})])
    (row,) = summary(run)
    assert row.remarks == ("veth replaces VALE's own ports",)
