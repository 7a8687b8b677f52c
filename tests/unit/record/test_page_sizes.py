"""Figures of different page sizes of DPDK memory are never compared with each other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from switchmark.cli import main
from switchmark.model.parameter_table import point_of
from switchmark.record import Granted, Record
from switchmark.record.metric import RUN_METRICS
from switchmark.record.page_sizes import apart, are_compatible, point_at, setting_of
from switchmark.report.html import report_html
from switchmark.reproduction.claims import tries
from switchmark.reproduction.paper import Claim
from switchmark.results import query
from switchmark.results.answer import answer_run
from switchmark.results.export import flat_rows
from switchmark.results.over_machines import compare_over_machines
from switchmark.results.query import read_table
from switchmark.results.ranking import baseline_of
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summary
from tests.unit.block_fakes import Machine, at_rate, campaign, run_all
from tests.unit.histories import HOST, dated, scaled
from tests.unit.records import synthetic_record, synthetic_trial, write_run

HUGE, SMALL = 2048, 4
FORWARDED = [one for one in RUN_METRICS if one.name == "forwarded"]


def records(
    sizes: Sequence[int | None],
    switch: str = "basicfwd",
    rate_pps: float = 1e6,
    host: dict[str, Any] | None = None,
    **changes: Any,
) -> list[Record]:
    """Return a repetition for each page size, with rates a per mille apart."""
    provenance = {"synthetic": True, **(host or {})}
    return [
        scaled(
            synthetic_record(
                synthetic_trial(switch=switch, repetition=number, **changes),
                marks=[], number=number, page_size_kib=size, provenance=provenance,
            ),
            rate_pps * (1 + number % 3 / 1000),
        )
        for number, size in enumerate(sizes)
    ]  # fmt: skip


def run(*arguments: object, capsys: Any) -> tuple[int, str, str]:
    code = main.run([str(one) for one in arguments])
    output = capsys.readouterr()
    return code, output.out, output.err


def names(folder: Path) -> dict[str, str]:
    return {row.trial.id: row.contender for row in summary(folder) if not row.is_baseline}


def test_items_without_a_size_are_compared_with_every_size() -> None:
    assert are_compatible(None, HUGE) and not are_compatible(SMALL, HUGE)
    assert list(apart([SMALL, None, HUGE], lambda one: one)) == [
        (SMALL, [SMALL, None]),
        (HUGE, [None, HUGE]),
    ]
    assert list(apart([HUGE, None], lambda one: one)) == [(None, [HUGE, None])]


def test_a_point_names_its_page_size_once() -> None:
    point = (("packet_size_bytes", 64), ("page_size", "auto"), ("burst", 32))
    assert point_at(point, SMALL) == (
        ("packet_size_bytes", 64), ("page_size", "4KiB"), ("burst", 32),
    )  # fmt: skip
    assert point_at(point_at(point[:1], HUGE), SMALL) == (*point[:1], ("page_size", "4KiB"))
    assert setting_of(1 << 20) not in (setting_of(HUGE), setting_of(SMALL))


@pytest.mark.parametrize("full_check_limit", [query.FULL_CHECK_LIMIT, 0])
def test_an_old_record_was_measured_on_hugepages_if_it_used_dpdk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_check_limit: int
) -> None:
    """Both readers of records agree: that of documents, and that of the table."""
    monkeypatch.setattr(query, "FULL_CHECK_LIMIT", full_check_limit)
    folder = write_run(tmp_path, [*records([HUGE]), *records([None], "linux-bridge")])
    for path in (folder / "trials").glob("*.json"):
        document = json.loads(path.read_text())
        del document["page_size_kib"]
        document["trial"].pop("page_size", None)
        path.write_text(json.dumps(document))
    found = read_table(folder)
    assert found.problems == ()
    sizes = dict(found.frame.select("switch", "page_size_kib").iter_rows())
    assert sizes == {"basicfwd": HUGE, "linux-bridge": None}
    read = {one.trial.switch: one.page_size_kib for one in open_run(folder).records()}
    assert read == sizes


def test_repetitions_of_two_page_sizes_are_two_points(tmp_path: Path) -> None:
    mixed = [
        *records([HUGE] * 3 + [SMALL] * 3),
        *records([HUGE] * 3, "ovs-dpdk", 2e6),
        *records([None] * 3, "linux-bridge"),
    ]
    rows = summary(write_run(tmp_path, mixed))
    found = {(row.trial.switch, row.page_size_kib): row for row in rows}
    assert {row.finished for row in rows} == {3}
    assert found["basicfwd", SMALL].point != found["basicfwd", HUGE].point
    assert found["basicfwd", HUGE].point == found["ovs-dpdk", HUGE].point
    rows_by_size = {(row["switch"], row["page_size_kib"]) for row in flat_rows(rows)}
    assert rows_by_size == set(found)


def test_one_page_size_leaves_points_as_they_are(tmp_path: Path) -> None:
    mixed = [*records([SMALL] * 3), *records([None] * 3, "linux-bridge")]
    rows = summary(write_run(tmp_path, mixed))
    assert {row.point for row in rows} == {point_of(row.trial) for row in rows}


def test_a_wire_on_other_pages_judges_nothing(tmp_path: Path) -> None:
    mixed = [*records([SMALL] * 3), *records([HUGE] * 3, "direct")]
    rows = summary(write_run(tmp_path / "other", mixed))
    switch = next(row for row in rows if row.trial.switch == "basicfwd")
    assert baseline_of(switch, rows) is None
    mixed = [*records([SMALL] * 3), *records([SMALL] * 3, "direct")]
    rows = summary(write_run(tmp_path / "same", mixed))
    switch = next(row for row in rows if row.trial.switch == "basicfwd")
    assert baseline_of(switch, rows) is not None


def test_leads_of_a_run_are_those_of_one_page_size(tmp_path: Path) -> None:
    """basicfwd changes its pages during the run and becomes half as fast: no ratio mixes both."""
    sizes = [HUGE] * 6 + [SMALL] * 6
    mixed = [
        record if record.page_size_kib == HUGE else scaled(record, 0.5e6)
        for record in records(sizes)
    ]
    mixed += records(sizes, "ovs-dpdk", 1e6)
    mixed += records([None] * 12, "linux-bridge", 0.1e6)
    folder = write_run(tmp_path, mixed, repetitions=12)
    found = answer_run(open_run(folder), names(folder), lambda _: 0.3)
    assert len(found) == 2
    by_size = {dict(one.point)["page_size"]: one for one in found}
    for size, ratio in (("huge", 1.0), ("4KiB", 2.0)):
        lead = by_size[size].between("basicfwd", "ovs-dpdk")
        assert lead is not None
        assert lead.seen_from("ovs-dpdk")[0].value == pytest.approx(ratio, rel=0.01)
        assert by_size[size].between("basicfwd", "linux-bridge") is not None


def test_compare_refuses_other_pages_in_one_line_with_the_remedy(
    tmp_path: Path, capsys: Any
) -> None:
    a = write_run(tmp_path, records([HUGE] * 3))
    b = write_run(tmp_path, records([SMALL] * 3))
    code, out, err = run("compare", a, b, capsys=capsys)
    assert code == 2 and out == ""
    assert len(err.splitlines()) == 1
    assert "hugepages of 2 MiB / pages of 4 KiB" in err
    assert "--set page_size=4KiB or --set page_size=huge" in err


def test_compare_takes_the_trials_whose_pages_are_alike(tmp_path: Path, capsys: Any) -> None:
    def measured(size: int) -> list[Record]:
        return [*records([size] * 3), *records([None] * 3, "linux-bridge")]

    a, b = write_run(tmp_path, measured(HUGE)), write_run(tmp_path, measured(SMALL))
    code, out, err = run("compare", a, b, capsys=capsys)
    assert code == 0
    assert out.startswith("1 comparison: 1 same\n") and "basicfwd" not in out
    assert "1 trial is not compared" in err
    assert "only in" not in err
    code, _, err = run("compare", a, b, "--strict", capsys=capsys)
    assert code == 5
    code, out, err = run("compare", a, a, capsys=capsys)
    assert code == 0 and "not compared" not in err


def test_compare_matches_a_switch_without_dpdk_memory(tmp_path: Path, capsys: Any) -> None:
    a = write_run(tmp_path, records([SMALL] * 3))
    b = write_run(tmp_path, records([None] * 3, "linux-bridge"))
    code, out, _ = run("compare", a, b, "--match", "basicfwd=linux-bridge", capsys=capsys)
    assert code == 0 and "same" in out


def test_a_series_leaves_out_runs_on_other_pages(tmp_path: Path, capsys: Any) -> None:
    runs = [write_run(tmp_path, records([size] * 3)) for size in (HUGE, SMALL, SMALL, SMALL)]
    _, out, _ = run("compare", *runs, "--json", capsys=capsys)
    (series,) = json.loads(out)["series"]
    assert series["runs"] == 3
    assert any("hugepages of 2 MiB / pages of 4 KiB" in one for one in json.loads(out)["remarks"])


def test_history_has_a_series_for_each_page_size(tmp_path: Path, capsys: Any) -> None:
    """If pages were not separated, a change of pages would be a change of level."""
    for night, size in enumerate([HUGE] * 6 + [SMALL] * 6):
        rate_pps = 1e6 if size == HUGE else 0.8e6
        night_records = records([size] * 3, rate_pps=rate_pps * (1 + night / 1e4), host=HOST)
        dated(write_run(tmp_path, night_records, campaign="nightly"), night)
    code, out, _ = run("history", "basicfwd", "--results", tmp_path, "--json", capsys=capsys)
    assert code == 0
    series = json.loads(out)["series"]
    assert {one["workload"]["page_size"]: len(one["runs"]) for one in series} == {
        "huge": 6,
        "4KiB": 6,
    }
    assert [one["changes"] for one in series] == [[], []]
    code, out, _ = run("history", "basicfwd", "--results", tmp_path, capsys=capsys)
    assert "page size 4KiB" in out and "page size huge" in out


def test_machines_with_other_pages_are_combined_apart(tmp_path: Path) -> None:
    runs = []
    for number, size in enumerate((HUGE, HUGE, SMALL, SMALL)):
        host = {"hostname": f"lab{number}", "cpu_model": "a model"}
        ratio = 1.0 if size == HUGE else 0.5
        machine_records = [
            *records([size] * 6, host=host),
            *records([size] * 6, "ovs-dpdk", ratio * 1e6, host=host),
        ]
        folder = write_run(tmp_path, machine_records, repetitions=6)
        runs.append((open_run(folder), names(folder)))
    found = compare_over_machines(runs, "basicfwd", "ovs-dpdk", FORWARDED)
    by_size = {dict(one.point)["page_size"]: one.over for one in found.figures}
    assert {size: over and round(over.value, 2) for size, over in by_size.items()} == {
        "huge": 1.0,
        "4KiB": 0.5,
    }
    assert any("page_size=4KiB" in one for one in found.remarks)


def test_report_shows_page_size_and_grants(tmp_path: Path) -> None:
    given = Granted(
        place="user", in_user_namespace=True, asked_buffer_bytes=128 << 20,
        receive_buffer_bytes=8 << 20, send_buffer_bytes=8 << 20, applications_class="other nice 5",
        differs=["socket buffers of 8388608 bytes were granted"],
    )  # fmt: skip
    granted_records = [one.model_copy(update={"granted": given}) for one in records([SMALL] * 3)]
    page, _ = report_html(write_run(tmp_path, granted_records))
    assert "pages of 4 KiB (basicfwd)" in page
    assert "8,388,608 bytes" in page and "other nice 5" in page
    assert page.count("socket buffers of 8388608 bytes were granted") >= 2


def test_claims_of_papers_are_tried_on_one_page_size(tmp_path: Path) -> None:
    """Two items with runs on different pages: their rows give no ratio."""

    def rows(size: int, switch: str) -> list[SummaryRow]:
        return summary(write_run(tmp_path, records([size] * 3, switch)))

    claim = Claim(item="a", other_item="b", alike=("packet_size",), at_least=0.5)
    mine = rows(SMALL, "basicfwd")
    assert list(tries(claim, {"a": mine, "b": rows(HUGE, "ovs-dpdk")})) == []
    (found,) = tries(claim, {"a": mine, "b": rows(SMALL, "ovs-dpdk")})
    assert found.value == pytest.approx(1.0, rel=0.01)


TEXT = "switch: [basicfwd, ovs-dpdk]\nmixed_connect_modes: true\nprove: 5%\nbudget: 20s\n"


def swept(folder: Path, text: str) -> tuple[Any, list[Any]]:
    """Return a simulated run in which 4 KiB pages halve the speed of every switch, and its
    answers."""
    definition = campaign(text)
    machine = Machine({"basicfwd": 10e6, "ovs-dpdk": 8e6, "small": 5e6, "huge": 10e6}, sd=0.01)
    run_all(machine, definition)
    simulated = []
    for record in machine.records.values():
        size = SMALL if record.trial.page_size == "4KiB" else HUGE
        loads = record.throughput
        assert loads is not None
        slower = loads.forwarded_pps / (2 if size == SMALL and not record.trial.contender else 1)
        update = {"page_size_kib": size, "throughput": at_rate(loads, slower)}
        simulated.append(record.model_copy(update=update))
    folder = write_run(folder, simulated, **definition.model_dump(mode="json"))
    return folder, answer_run(open_run(folder), names(folder), lambda _: 0.3)


def test_contenders_with_other_pages_are_compared_pair_by_pair(tmp_path: Path) -> None:
    text = (
        "switch: basicfwd\nprove: 5%\nbudget: 20s\n"
        "contenders: {huge: {page_size: huge}, small: {page_size: 4KiB}}\n"
    )
    _, (found,) = swept(tmp_path, text)
    lead = found.between("huge", "small")
    assert lead is not None and lead.ahead == "huge"
    assert lead.seen_from("huge")[0].value == pytest.approx(2.0, rel=0.1)


def test_sweep_of_page_sizes_is_compared_only_on_request(tmp_path: Path) -> None:
    sweep = TEXT + "page_size: [huge, 4KiB]\n"
    folder, found = swept(tmp_path / "apart", sweep)
    assert {dict(comparison.point)["page_size"] for comparison in found} == {"huge", "4KiB"}
    assert {len(comparison.ranking) for comparison in found} == {2}
    folder, (comparison,) = swept(tmp_path / "together", f"{sweep}compared: page_size\n")
    assert len(comparison.ranking) == 4
    contenders = {row.contender for row in summary(folder)}
    assert contenders == {
        "basicfwd (hugepages)", "basicfwd (pages of 4 KiB)",
        "ovs-dpdk (hugepages)", "ovs-dpdk (pages of 4 KiB)",
    }  # fmt: skip
    lead = comparison.between("basicfwd (hugepages)", "basicfwd (pages of 4 KiB)")
    assert lead is not None
    assert lead.seen_from("basicfwd (hugepages)")[0].value == pytest.approx(2.0, rel=0.1)


def test_the_state_of_a_run_names_the_pages_where_they_are_mixed(
    tmp_path: Path, capsys: Any
) -> None:
    sizes = [HUGE] * 6 + [SMALL] * 6
    mixed = [*records(sizes), *records(sizes, "ovs-dpdk", 2e6)]
    folder = write_run(tmp_path, mixed, repetitions=12)
    code, out, _ = run("show", "--full", folder, capsys=capsys)
    assert code == 0 and "pages of 4 KiB" in out and "hugepages" in out
