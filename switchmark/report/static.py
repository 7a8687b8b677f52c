"""Static plots for papers and slides: the report's drawings, as SVG and PNG."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path

from switchmark.model.choices import Dimension
from switchmark.report import plot_style, words
from switchmark.report.axes import compared_facets, x_axis
from switchmark.report.drawing_files import write_drawing
from switchmark.report.figures import looks
from switchmark.report.latency import spread_panels
from switchmark.report.pictures import function_pictures, paper_pictures
from switchmark.report.throughput import frames_drawing
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summary
from switchmark.results.times import times_of

_LONGEST_NAME = 120  # length of a file name without ending


def write_plots(run_directory: Path, folder: Path) -> list[Path]:
    """Write throughput and latency plots of a run, and those that papers draw, into a folder;
    returns the files."""
    plot_style.take_up()
    folder.mkdir(parents=True, exist_ok=True)
    rows = summary(run_directory)
    run, look = open_run(run_directory), looks(rows)
    throughput = words.of_dimension(rows, Dimension.THROUGHPUT)
    latency = words.of_dimension(rows, Dimension.LATENCY)
    published, times = run.info.parsed_definition.published, partial(times_of, run)
    x = x_axis(throughput)
    papers = paper_pictures(rows, run.records(), published, look, times)
    drawn = [
        ("Throughput", title, frames_drawing(title, members, look, x))
        for title, members in compared_facets(throughput, x)
    ]
    drawn += [("Latency", one.title, one) for one in spread_panels(latency, look).figures]
    for panel in function_pictures(run, rows, look):
        drawn += [(panel.heading, one.title, one) for one in panel.figures]
    drawn += [(heading, one.title, one) for heading, one in papers.drawings]
    written: list[Path] = []
    for heading, title, drawing in drawn:
        base = _free(folder / _file_name(heading, title), written)
        written += write_drawing(drawing, base, heading)
    return written


def _free(base: Path, written: Sequence[Path]) -> Path:
    """Return the name, with a number if another plot has it."""
    taken = {path.with_suffix("") for path in written}
    numbered = (base.with_name(f"{base.name}-{number}") for number in count(2))
    return base if base not in taken else next(one for one in numbered if one not in taken)


def _file_name(heading: str, title: str) -> str:
    letters = f"{heading} {title}".lower()
    parts = "".join(letter if letter.isalnum() else " " for letter in letters).split()
    return "-".join(parts)[:_LONGEST_NAME]
