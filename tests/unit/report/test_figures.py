"""The pictures of a report, on the page and as files: axes, ticks, names and intervals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from switchmark.model.choices import Dimension
from switchmark.model.functions import read_functions
from switchmark.record import EngineRun, Interval
from switchmark.report import plot_style
from switchmark.report.axes import x_axis
from switchmark.report.cost import cpu_panels
from switchmark.report.distributions import distribution_panels
from switchmark.report.figures import Drawing, looks
from switchmark.report.latency import spread_panels
from switchmark.report.pictures import function_pictures
from switchmark.report.plot import log_ticks, row_names, value_axis
from switchmark.report.samples import MAX_POINTS, samples_figure
from switchmark.report.static import write_plots
from switchmark.report.throughput import throughput_panels
from switchmark.results.function_share import shares_of
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summary
from tests.unit.records import (
    quick_records,
    synthetic_record,
    synthetic_trial,
    write_run,
)


def test_merged_samples_count_every_frame() -> None:
    count, span = 1000, 10_000_000
    engines = [
        EngineRun(
            node=f"b{pair}", role="receiver", pair=pair, args=[], ready={}, result={},
            intervals=[
                Interval(index=i, t_ns=10**15 + pair * 3_000_000 + (i + 1) * span,
                         duration_ns=span, counters={"rx_frames": 100 + i % 7})
                for i in range(count)
            ],
        )
        for pair in range(2)
    ]  # fmt: skip
    figure = samples_figure(synthetic_record(engines=engines, trim=None))
    assert figure is not None
    (line,) = figure.traces
    assert len(line["y"]) == MAX_POINTS
    assert "for display" in figure.note
    mean = sum(i.counters["rx_frames"] for i in engines[0].intervals) / (count * span / 1e9)
    assert np.mean(line["y"]) * 1e6 == pytest.approx(2 * mean, rel=1e-3)


def test_few_samples_are_drawn_unchanged() -> None:
    record = synthetic_record()
    figure = samples_figure(record)
    assert figure is not None
    forwarded = next(trace for trace in figure.traces if trace["name"] == "forwarded")
    receiver = next(engine for engine in record.engines if engine.role == "receiver")
    rates = [i.counters["rx_frames"] / i.duration_ns * 1e3 for i in receiver.intervals]
    assert forwarded["y"] == pytest.approx(rates, rel=1e-4)
    assert len(figure.layout["shapes"]) == 2


def test_static_plots_have_different_file_names(tmp_path: Path) -> None:
    records = [
        synthetic_record(synthetic_trial(pairs=pairs, packet_size_bytes=size, switch=switch))
        for pairs in (1, 2, 4)
        for size in (64, 1500)
        for switch in ("linux-bridge", "ovs-dpdk")
    ]
    records += [r for r in quick_records(1) if r.latency]
    paths = write_plots(write_run(tmp_path / "results", records), tmp_path / "plots")
    assert len(paths) == len(set(paths)) == 8 + 4 + 6, "CPU by size, distributions by contender"
    assert all(path.stat().st_size > 1000 for path in paths)
    svg = next(path for path in paths if path.name == "throughput-64-b.svg").read_text()
    assert "ovs-dpdk" in svg
    assert "forwarded Mpps" in svg


def _run_with_wide_intervals(tmp_path: Path) -> Path:
    """Two repetitions whose t interval ends far below 0, at three sizes."""
    records = []
    for size in (64, 256, 1500):
        for repetition, share in enumerate((0.5, 1.5)):
            trial = synthetic_trial(packet_size_bytes=size, repetition=repetition)
            record = synthetic_record(trial)
            assert record.throughput is not None
            loads = record.throughput
            fields = ("forwarded_pps", "offered_pps", "forwarded_l2_bps", "forwarded_l1_bps")
            scaled = {name: getattr(loads, name) * share for name in fields}
            pair = loads.pairs[0].model_copy(
                update={name: scaled[name] for name in ("forwarded_pps", "offered_pps")}
            )
            update = {"throughput": loads.model_copy(update={**scaled, "pairs": [pair]})}
            records.append(record.model_copy(update=update))
    return write_run(tmp_path, records)


def test_wide_intervals_are_cut_at_0_and_do_not_set_the_scale(tmp_path: Path) -> None:
    run = _run_with_wide_intervals(tmp_path)
    rows = summary(run)
    for figure in throughput_panels(rows, looks(rows)).figures:
        whiskers, line = figure.traces
        for value, below in zip(line["y"], whiskers["error_y"]["arrayminus"], strict=True):
            assert 0 <= below < value
        start, end = figure.layout["yaxis"]["range"]
        assert start == 0
        assert (
            max(line["y"]) < end < 2 * max(line["y"])
        )  # the interval ends beyond six times the value
    write_plots(run, tmp_path / "plots")


def test_parts_of_a_bar_add_up_to_the_used_cores(tmp_path: Path) -> None:
    """The applications' share already includes the soft interrupts in their time."""
    rows = summary(write_run(tmp_path, [synthetic_record()]))
    cpu = rows[0].cpu
    assert cpu is not None and cpu.softirq_cores is not None and cpu.total_cores is not None
    cpu = replace(cpu, applications_cores=1.2, softirq_cores=0.6, total_cores=1.5)
    (figure,) = cpu_panels([replace(rows[0], cpu=cpu)]).figures
    assert sum(trace["x"][0] for trace in figure.traces) == pytest.approx(1.5)


def test_axis_of_many_decades_has_fewer_ticks(tmp_path: Path) -> None:
    trials = [synthetic_trial(dimension=Dimension.LATENCY, rate_pps=1000)]
    (row,) = summary(write_run(tmp_path, [synthetic_record(trial) for trial in trials]))
    assert row.latency is not None
    steps = {}
    for longest_ns in (1e6, 1e9):
        wide = replace(row, latency=replace(row.latency, max_ns=longest_ns))
        (figure,) = spread_panels([wide], looks([wide])).figures
        steps[longest_ns] = figure.layout["xaxis"]["dtick"]
    assert steps == {1e6: "D2", 1e9: 1}


def test_baselines_of_two_port_kinds_look_different(tmp_path: Path) -> None:
    kinds = (("veth", "raw-mmsg"), ("vhost-user", "dpdk"))
    records = [
        synthetic_record(
            synthetic_trial(switch="direct", packet_size_bytes=size, port_kind=kind),
            port_kind=kind,
            io=io,
        )
        for kind, io in kinds
        for size in (64, 256, 1500)
    ]
    rows = summary(write_run(tmp_path, records))
    drawn = looks(rows)
    assert set(drawn) == {"direct (veth)", "direct (vhost-user)"}
    assert len({(look.marker, look.dash) for look in drawn.values()}) == 2
    write_plots(tmp_path / next(tmp_path.glob("synthetic-*")).name, tmp_path / "plots")


def test_labels_of_many_values_do_not_overlap(tmp_path: Path) -> None:
    many = [
        synthetic_record(synthetic_trial(packet_size_bytes=size)) for size in range(64, 1500, 16)
    ]
    rows = summary(write_run(tmp_path / "many", many))
    axis = x_axis(rows)
    assert axis is not None
    ticks = axis.ticks(rows)
    assert 4 <= len(ticks) <= 12
    assert (ticks[0], ticks[-1]) == (64, 1488)
    rates = (1_000, 10_000, 100_000, 1_000_000, 3_000_000)
    few = [synthetic_record(synthetic_trial(rate_pps=rate)) for rate in rates]
    rows = summary(write_run(tmp_path / "few", few))
    figure = throughput_panels(rows, looks(rows)).figures[0]
    assert figure.layout["xaxis"]["ticktext"] == ["1k", "10k", "100k", "1M", "3M"]


def test_throughput_is_drawn_over_the_length_of_a_chain(tmp_path: Path) -> None:
    records = [
        synthetic_record(synthetic_trial(scenario=f"loopback-{length}", switch=switch))
        for length in (1, 2, 3, 10)
        for switch in ("linux-bridge", "ovs-dpdk")
    ]
    records.append(synthetic_record(synthetic_trial(scenario="p2p", switch="direct")))
    rows = summary(write_run(tmp_path / "results", records))
    (mpps, bits) = throughput_panels(rows, looks(rows)).figures
    assert "Mpps" in mpps.title and "Gbit/s" in bits.title
    assert mpps.layout["xaxis"]["title"]["text"] == "VNFs in the chain"
    assert mpps.layout["xaxis"]["tickvals"] == [0, 1, 2, 3, 10] and (
        mpps.layout["xaxis"]["type"] == "linear"
    )
    drawn = {trace["name"]: trace["x"] for trace in mpps.traces if "name" in trace}
    assert drawn == {"direct": [0], "linux-bridge": [1, 2, 3, 10], "ovs-dpdk": [1, 2, 3, 10]}


def test_functions_are_drawn_over_their_scale(tmp_path: Path) -> None:
    """Rates have an axis over the rules, with 0 before 1; shares have an interval at each scale."""
    trials = [
        synthetic_trial(
            switch=switch, function=read_functions("route+acl"), rules=rules, repetition=repetition
        )
        for repetition in range(5)
        for rules in (0, 100, 10_000)
        for switch in ("ovs-netdev", "ovs-dpdk")
    ]
    records = [synthetic_record(trial, number=number) for number, trial in enumerate(trials)]
    # A baseline only forwards, so it is not in the plot of the functions and gets no other plot.
    records.append(synthetic_record(synthetic_trial(switch="direct"), number=len(records)))
    directory = write_run(tmp_path / "results", records)
    rows = summary(directory)
    figure, bits = throughput_panels(rows, looks(rows)).figures
    assert bits.title.startswith("Gbit/s")
    assert figure.layout["xaxis"]["type"] == "log"
    assert figure.layout["xaxis"]["ticktext"] == ["0", "100", "10k"]
    (panel,) = function_pictures(open_run(directory), rows, looks(rows))
    (share,) = panel.figures
    lines = {trace["name"]: trace for trace in share.traces if "name" in trace}
    assert set(lines) == {"ovs-netdev", "ovs-dpdk"}
    assert lines["ovs-dpdk"]["x"] == [100, 10_000]
    shares = [s for s in shares_of(open_run(directory), rows) if s.contender == "ovs-dpdk"]
    by_rules = sorted(shares, key=lambda share: share.trial.rules)
    assert lines["ovs-dpdk"]["y"] == [share.value for share in by_rules]
    assert all(len(trace["error_y"]["array"]) == 2 for trace in share.traces if "error_y" in trace)
    written = write_plots(directory, tmp_path / "plots")
    assert any("cost-of-the-function" in path.name for path in written)


def test_throughput_is_drawn_over_a_cpu_limit(tmp_path: Path) -> None:
    limits = (1.0, 0.75, 0.125)
    records = [synthetic_record(synthetic_trial(cpu_limit=limit)) for limit in limits]
    rows = summary(write_run(tmp_path / "results", records))
    (mpps, _) = throughput_panels(rows, looks(rows)).figures
    assert mpps.layout["xaxis"]["ticktext"] == ["12.5", "75", "100"]


@pytest.mark.parametrize(("highest", "kind"), [(9.9, None), (10.1, "log")])
def test_axis_is_logarithmic_if_compared_values_are_far_apart(
    highest: float, kind: str | None
) -> None:
    drawn = value_axis("load", [[1.0, highest], [100.0]])
    assert drawn.get("type") == kind
    if kind is None:
        assert drawn["range"][0] == 0
    else:
        low, high = (10**end for end in drawn["range"])
        assert low < 1
        assert high > 100


def test_loads_over_the_frame_size_are_linear_for_one_contender(tmp_path: Path) -> None:
    """Gbit/s grow with the frame size; only contenders are compared."""
    records = [synthetic_record(synthetic_trial(packet_size_bytes=n)) for n in (64, 512, 1500)]
    rows = summary(write_run(tmp_path, records))
    for figure in throughput_panels(rows, looks(rows)).figures:
        assert figure.layout["yaxis"]["range"][0] == 0
        assert figure.layout["yaxis"].get("type") != "log"


def test_tags_in_the_text_of_pictures_are_escaped() -> None:
    evil = "<a href='https://example.com'>x</a>"
    (named,) = row_names([(evil, "1.23 Mpps")])
    drawn = Drawing("", [{"name": evil, "text": [evil]}], {"annotations": [named]}, 100).payload()
    assert "<a" not in str(drawn)
    assert drawn["data"][0]["text"] == ["&lt;a href='https://example.com'&gt;x&lt;/a&gt;"]
    assert drawn["layout"]["annotations"][0]["text"].startswith("<b>&lt;a ")


def test_long_name_gets_a_separate_line() -> None:
    short, long = row_names([("ovs-dpdk", "3.51 Mpps"), ("x" * 60, "3.51 Mpps")])
    assert short["text"] == "<b>ovs-dpdk</b>  3.51 Mpps"
    assert long["text"].endswith("\N{HORIZONTAL ELLIPSIS}</b><br>3.51 Mpps")


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.9, 11, [1, 2, 5, 10]),
        (0.93, 1.22, [0.95, 1, 1.05, 1.1, 1.15, 1.2]),
        (1e-3, 1e9, [1e-3, 1e1, 1e5, 1e9]),
    ],
)
def test_ticks_of_logarithmic_axes_are_few_and_round(
    low: float, high: float, expected: list[float]
) -> None:
    ticks = log_ticks(low, high)
    assert 2 <= len(ticks) <= 6
    assert all(low <= tick <= high for tick in ticks)
    assert ticks == pytest.approx(expected)


def test_distribution_shows_trials_or_samples_of_one_trial(tmp_path: Path) -> None:
    for repetitions, unit in ((1, "samples"), (3, "repetitions")):
        records = [record for record in quick_records(repetitions) if record.throughput]
        rows = summary(write_run(tmp_path, records))
        figures = distribution_panels([], rows, records, looks(rows)).figures
        assert [figure.title for figure in figures] == ["Throughput, 64 B", "Throughput, 1500 B"]
        for figure in figures:
            assert figure.layout["xaxis"]["type"] == "log"
            dots = [trace for trace in figure.traces if trace.get("text")]
            assert len(dots) == 4 and all(min(trace["x"]) > 0 for trace in dots)
            assert all(unit in note["text"] for note in figure.layout["annotations"])
            if repetitions > 1:
                assert {len(trace["x"]) for trace in dots} == {repetitions}


def test_text_that_begins_like_a_colour_name_stays_text() -> None:
    """For example the source of a published value in the run of another user."""
    assert plot_style.color("@series9") == plot_style.color("@series1") == plot_style.COLORS[1]
    assert [plot_style.color(text) for text in ("@series of talks", "@series", "@nobody")] == [
        "@series of talks", "@series", "@nobody"
    ]  # fmt: skip
