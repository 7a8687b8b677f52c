"""Figures of forms, graphs and words that were rounded, cut or left out."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from switchmark.formatting import amount, fixed, number, percent, whole_percent
from switchmark.model.rates import bit_rate
from switchmark.record import Record
from switchmark.report.form import Form, form_text
from switchmark.report.form_graphs import write_form_graphs
from switchmark.report.form_source import FormSource, repeated, share_of
from switchmark.results.run_directory import open_run
from switchmark.simulation.switch import Behaviour
from switchmark.trial.limit import limit
from tests.unit.method_fakes import run_simulated
from tests.unit.records import synthetic_record, synthetic_trial, write_run
from tests.unit.report.test_form import cells, section
from tests.unit.trial.test_judge import EVIDENCE, figures_of
from tests.unit.trial_fakes import trial

GENOME = "genome:aaaaaaaddddg"  # 7 x 64, 4 x 512, 1 x 1518: 334.5 bytes on average


def searched(method: str = "ndr-pdr", **changes: Any) -> Record:
    """A record of a method that was run against a switch with a limit."""
    requested = synthetic_trial(method=method, duration_s=1.0, **changes)
    found = run_simulated(method, Behaviour(capacity_pps=2e6, buffer_frames=1000))
    return synthetic_record(requested, marks=[], throughput=None, trim=None, method=found)


def form_of(tmp_path: Path, records: list[Record], medium: str | None = None) -> str:
    link = None if medium is None else bit_rate(medium)
    return form_text(Form.RFC2544, open_run(write_run(tmp_path, records)).info, records, link)


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [
        (0.0, "0 %"), (4.25e-5, "0.0043 %"), (1e-9, "0.00000010 %"), (-2e-6, "-0.00020 %"),
        (9.99e-5, "0.010 %"), (0.00017, "0.02 %"), (0.0318, "3.18 %"), (0.45, "45 %"),
    ],
)  # fmt: skip
def test_percent_shows_rare_events_with_their_digits(ratio: float, shown: str) -> None:
    """A soak that measured 4.25e-05 printed "< 0.01 %", which means that no frame was lost."""
    assert percent(ratio) == amount(ratio, "ratio") == shown


def test_small_numbers_have_no_exponent() -> None:
    assert [number(one) for one in (4.25e-5, 1.5e-7)] == ["0.000043", "0.00000015"]
    assert (fixed(0.0), fixed(float("inf")), fixed(0.1234)) == ("0", "inf", "0.12")
    assert [whole_percent(one) for one in (0.0, 0.00012, 0.05, 1.0)] == [
        "0%",
        "0.012%",
        "5%",
        "100%",
    ]


def test_evidence_of_a_rare_loss_is_not_zero() -> None:
    found = limit(trial(), figures_of(loss_ratio=4.25e-5), EVIDENCE)
    assert "0.0043 % of offered frames were lost" in found.evidence


def test_mix_is_at_its_mean_and_not_the_rounded_one(tmp_path: Path) -> None:
    mixed = searched(packet_mix=GENOME, packet_size_bytes=334)
    assert mixed.trial.frame_sizes.mean == pytest.approx(334.5)
    row, *_ = cells(section(form_of(tmp_path, [mixed], "10Gbps-l1"), "26.1"))
    assert row[1] == f"334.5 (mean of {GENOME})"
    assert row[3] == f"{round(10e9 / 8 / 354.5):,}" == "3,526,093"
    assert mixed.method is not None
    rate_pps = mixed.method.bounds[0].lower_pps
    assert rate_pps is not None
    assert row[6] == f"{rate_pps * 334.5 * 8:,.0f}"


def test_form_says_that_the_budget_ended_a_search(tmp_path: Path) -> None:
    done = searched()
    assert done.method is not None
    cut = done.model_copy(update={"method": done.method.model_copy(update={"stopped": "budget"})})
    assert "budget" not in form_of(tmp_path / "done", [done])
    text = section(form_of(tmp_path / "cut", [cut]), "26.1")
    assert "The time budget ended 1 of 1 runs of ndr-pdr before they were complete" in text


def test_shares_of_repetitions_in_words() -> None:
    assert share_of(3, 3) == "3"
    assert share_of(2, 3) == "2 of 3 searches found a figure"
    assert share_of(0, 1) == "0 of 1 searches found a figure"


def with_options() -> list[Record]:
    """Two settings of one switch, whose notations are longer than a graph is wide."""
    return [
        searched(
            method, packet_size_bytes=size, switch="ovs-dpdk",
            switch_options=f"emc:{emc}+profile:balanced+rxq_affinity:pairs",
        )
        for method in ("ndr-pdr", "loss-vs-load")
        for emc in ("on", "off")
        for size in (64, 512)
    ]  # fmt: skip


def test_devices_are_named_by_their_differences() -> None:
    names = {one.device for one in repeated(with_options()[:4])}
    assert len(names) == 2 and all(one.startswith("ovs-dpdk (") for one in names)
    assert all("emc" in one and "64" not in one for one in names)


def test_graph_with_options_is_drawn_without_a_warning(tmp_path: Path) -> None:
    """The legend was the whole notation, cut at the edge, and matplotlib wrote a warning."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn: list[Figure] = []
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("error")
        patch.setattr(
            "switchmark.report.plot_style.save", lambda figure, path: drawn.append(figure)
        )
        measured = FormSource.of(with_options(), bit_rate("10Gbps-l1"))
        assert set(write_form_graphs(measured, tmp_path / "form")) == {"ndr-pdr", "loss-vs-load"}
        for figure in drawn:
            FigureCanvasAgg(figure).draw()
    for figure in drawn:
        (legend,) = figure.legends
        edges, (width, _) = legend.get_window_extent(), figure.canvas.get_width_height()
        assert edges.x0 >= 0 and edges.x1 <= width
        axes = figure.axes[0].get_window_extent()
        assert axes.y0 >= edges.y1 and axes.height > 100, "the legend hides no line"
