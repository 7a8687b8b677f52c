"""The table of order, delay variation, fairness and cost: `show` and the report print the same.

Columns in which no row has a figure are left out, and rows without any, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from switchmark.report import words
from switchmark.results.quality_summary import QualitySummary


def _micro(value: float) -> str:
    return words.number(value / 1e3)


def _share(value: float) -> str:
    return words.percent(value) if value else "0"


_COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {
    "IPDV p50 µs": ("ipdv_p50_ns", _micro),
    "IPDV p99": ("ipdv_p99_ns", _micro),
    "PDV p50": ("pdv_p50_ns", _micro),
    "PDV p99": ("pdv_p99_ns", _micro),
    "reordered": ("reordered_ratio", _share),
    "by up to": ("max_reorder_extent", "{:.0f}".format),
    "Jain": ("jain_fairness", "{:.4f}".format),
    "sender ns a frame": ("sender_ns_per_frame", words.number),
    "receiver ns": ("receiver_ns_per_frame", words.number),
    "client ns": ("client_ns_per_frame", words.number),
    "server ns": ("server_ns_per_frame", words.number),
}
QUALITY_TITLE = (
    "Delay variation (IPDV RFC 3393, PDV RFC 5481), order (RFC 4737), fairness between pairs, and "
    "what a frame costs the traffic applications themselves"
)


def quality_table(
    found: Sequence[QualitySummary | None],
) -> tuple[list[str], dict[int, list[str]]]:
    """The headings, and the cells of each row that has any figure, by its index."""

    def value(one: QualitySummary | None, name: str) -> float | None:
        seen: float | None = getattr(one, name) if one is not None else None
        # Extents and shares of order are worth a column only where frames were overtaken.
        return None if name in ("reordered_ratio", "max_reorder_extent") and not seen else seen

    shown = {
        heading: column
        for heading, column in _COLUMNS.items()
        if any(value(one, column[0]) is not None for one in found)
    }
    lines = {}
    for index, one in enumerate(found):
        values = [(value(one, name), text) for name, text in shown.values()]
        if any(figure is not None for figure, _ in values):
            lines[index] = ["-" if figure is None else text(figure) for figure, text in values]
    return list(shown), lines
