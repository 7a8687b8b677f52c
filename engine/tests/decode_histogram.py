"""Decode what histogram_sample encoded with the reference Python package and compare.

Exit code 77 (meson: skipped) where the `hdrhistogram` package is not installed.
"""

import subprocess
import sys
from collections.abc import Iterator

try:
    from hdrh.histogram import HdrHistogram
except ImportError:
    print("skipped: the Python package hdrhistogram is not installed")
    sys.exit(77)


def blocks(lines: list[str]) -> Iterator[tuple[list[int], str, list[float]]]:
    """(values, encoded, [p50, p99, mean]) of each histogram."""
    for i in range(0, len(lines), 3):
        yield (
            [int(v) for v in lines[i].split()[1:]],
            lines[i + 1],
            [float(v) for v in lines[i + 2].split()],
        )


def main() -> int:
    """Compare every block; 0 when all are equal."""
    output = subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True).stdout
    checked = 0
    for values, encoded, (p50, p99, mean) in blocks(output.splitlines()):
        decoded = HdrHistogram.decode(encoded)
        reference = HdrHistogram(1, 100_000_000_000, 3)
        for value in values:
            reference.record_value(value)
        assert decoded.get_total_count() == len(values)
        for percentile in (0, 1, 25, 50, 90, 99, 99.9, 99.99, 100):
            assert decoded.get_value_at_percentile(percentile) == reference.get_value_at_percentile(
                percentile
            ), percentile
        if values:
            assert abs(p50 - reference.get_value_at_percentile(50)) <= p50 / 1000
            assert abs(p99 - reference.get_value_at_percentile(99)) <= p99 / 1000
            assert abs(mean - sum(values) / len(values)) < 1e-3
        reference.add(decoded)  # the same layout, so that the bench can merge
        assert reference.get_total_count() == 2 * len(values)
        checked += 1
    assert checked == 3
    print(f"{checked} histograms decoded and equal")
    return 0


sys.exit(main())
