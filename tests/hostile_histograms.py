"""Histograms of untrusted origin: correctly compressed texts with any header and counts."""

from __future__ import annotations

import base64
import struct
import zlib

from hypothesis import strategies as st

from switchmark.statistics.histogram import Histogram


def histogram_text(
    counts: bytes, figures: int = 3, lowest: int = 1, highest: int = 10**11, told_bytes: int = 1
) -> str:
    """Return the text of a histogram with any header and counts, correctly compressed."""
    header = struct.pack(">IIIIQQd", 0x1C849313, told_bytes, 0, figures, lowest, highest, 1.0)
    inside = zlib.compress(header + counts)
    return base64.b64encode(struct.pack(">II", 0x1C849314, len(inside)) + inside).decode()


COUNTS = st.sampled_from(
    [b"\x02", b"\x01", b"\x80", b"\xff" * 9, b"\xfe" * 8 + b"\x7f", b"\xff" * 3 + b"\x01",
     b"\0" * 300, b"\0" * (1 << 20)]
)  # fmt: skip
LIMITS = st.one_of(st.integers(0, 3000), st.just(10**11), st.integers(0, 2**64 - 1))
HISTOGRAM = st.builds(
    histogram_text, st.lists(COUNTS, max_size=12).map(b"".join), st.integers(0, 2**32 - 1),
    LIMITS, LIMITS, st.integers(0, 2**32 - 1),
) | st.builds(
    histogram_text, st.lists(COUNTS, max_size=12).map(b"".join), st.integers(1, 5), st.just(1),
    LIMITS,
)  # fmt: skip


def read_histogram(text: str) -> None:
    """Use a histogram from an untrusted record in all ways."""
    histogram = Histogram(text)
    histogram.percentiles_ns()
    histogram.curve()
    Histogram.merged([histogram.shifted(3), Histogram.of({5: 1})])
