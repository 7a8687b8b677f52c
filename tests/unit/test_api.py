"""`import switchmark`: campaigns and results as objects."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from plotly.graph_objects import Figure

import switchmark
from switchmark.errors import UsageError
from switchmark.record import Record
from tests.unit.records import quick_records, write_run


def test_command_line_does_not_import_it() -> None:
    code = "import switchmark, sys; print('switchmark.api' in sys.modules, 'polars' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
    with pytest.raises(AttributeError, match="no attribute 'Parrot'"):
        switchmark.Parrot  # noqa: B018


def test_campaign_equals_the_campaign_of_a_file() -> None:
    campaign = switchmark.Campaign.of(
        switch="linux-bridge", packet_size=[64, 1500], repetitions=2, touch=True
    )
    sizes = [trial.packet_size_bytes for trial in campaign.trials]
    assert sorted(sizes) == [64, 64, 1500, 1500]
    assert "packet_size: 64, 1500\n" in campaign.text
    assert all(trial.touch for trial in campaign.trials)
    with pytest.raises(UsageError, match="packet_size: 40 is below the smallest"):
        switchmark.Campaign.of(switch="linux-bridge", packet_size=40)
    assert switchmark.Campaign.load("quick", "repetitions=1").definition.repetitions == 1


def test_results_are_frames_rows_and_plots(tmp_path: Path) -> None:
    results = switchmark.Results(write_run(tmp_path, quick_records()))
    assert results.frame().height == len(results.rows())
    assert results.trials().height == len(results.records)
    assert isinstance(results.records[0], Record)
    plots = results.plots()
    assert plots
    assert all(isinstance(plot, Figure) for plot in plots)
    assert all(plot.layout.title.text for plot in plots)
    assert all('"@' not in plot.to_json() for plot in plots)
    behind = {note.bgcolor for plot in plots for note in plot.layout.annotations}
    assert "#ffffff" in behind and behind <= {"#ffffff", None}  # the background of dark text
    assert results.report().read_text().startswith("<!")
    assert switchmark.Results.find(None, tmp_path).directory == results.directory
    assert results.judgements() == []


def test_public_names_are_the_documented_names() -> None:
    page = (Path(__file__).parents[2] / "docs/python.md").read_text()
    section = page.partition("## The public API\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `switchmark\.(\w+)` \|", section, re.MULTILINE)
    assert sorted(listed) == sorted([*switchmark.__all__, "errors"])
    assert all(hasattr(switchmark, name) for name in listed)


def test_the_package_is_marked_as_typed() -> None:
    assert (files("switchmark") / "py.typed").is_file()
