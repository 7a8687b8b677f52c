"""Decoded histograms, cached by their text: a process decodes each text once.

The same text is needed when a record is checked, for the page of its trial, and for the merged
plot. Only slots with samples are cached, a few kilobytes for each histogram."""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import base64
import struct
import threading
import zlib
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram

MOST_KEPT = 4096  # histograms: two for each record of a run that is checked completely (query.py)
MOST_FIGURES = 3  # significant digits; with three there are at most 55 x 1024 slots of 9 bytes
MOST_BYTES = 1 << 19  # size of a decompressed histogram with all slots full
MOST_VALUE = (1 << 63) - 1
_WRAPPED_BYTES = 8  # before the compressed part: cookie and length
_HEADER = struct.Struct(">IIIIQQd")  # cookie, length, offset, figures, lowest, highest, ratio


@dataclass(frozen=True, slots=True)
class StoredSlots:
    """The slots of a histogram with samples, and the histogram's range and precision."""

    lowest: int
    highest: int
    figures: int
    indices: Any
    counts: Any

    @classmethod
    def of(cls, histogram: HdrHistogram) -> StoredSlots:
        """Return the slots of this histogram."""
        counts = np.ctypeslib.as_array(histogram.counts)
        indices = np.flatnonzero(counts).astype(np.uint32)
        limits = histogram.lowest_trackable_value, histogram.highest_trackable_value
        return cls(*limits, histogram.significant_figures, indices, counts[indices])

    def histogram(self) -> HdrHistogram:
        """Return a histogram with these samples."""
        histogram = HdrHistogram(self.lowest, self.highest, self.figures)
        np.ctypeslib.as_array(histogram.counts)[self.indices] = self.counts
        if len(self.indices):
            least, greatest = int(self.indices[0]), int(self.indices[-1])
            histogram.set_internal_tacking_values(least, greatest, int(self.counts.sum()))
        return histogram


class Decoder:
    """Decodes texts (HdrHistogram V2, compressed, base64). Any thread may use it."""

    def __init__(self) -> None:
        self._kept: dict[bytes, StoredSlots] = {}
        self._lock = threading.Lock()

    def decode(self, text: str) -> HdrHistogram:
        """Return the histogram with this text. Raises ValueError for an invalid text."""
        key = _key(text)
        if (slots := self._kept.get(key)) is not None:
            return slots.histogram()
        try:
            _check(text)
            histogram = HdrHistogram.decode(text)
        except Exception as error:  # the library raises several unrelated types
            raise ValueError(
                f"not an HdrHistogram (V2 compressed base64): {type(error).__name__}: {error}"
            ) from error
        self._keep(key, histogram)
        return histogram

    def encode(self, histogram: HdrHistogram) -> str:
        """Return the text of a histogram, and cache the histogram under it."""
        text: str = histogram.encode().decode()
        self._keep(_key(text), histogram)
        return text

    def _keep(self, key: bytes, histogram: HdrHistogram) -> None:
        slots = StoredSlots.of(histogram)
        with self._lock:
            self._kept[key] = slots
            while len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]  # oldest entry


def _check(text: str) -> None:
    """Raise ValueError if the text would need more memory than any valid histogram, because the
    library decompresses without a limit and creates as many slots as the header requests."""
    inflated = zlib.decompressobj().decompress(base64.b64decode(text)[_WRAPPED_BYTES:], MOST_BYTES)
    if len(inflated) == MOST_BYTES:
        raise ValueError(f"inflates to {MOST_BYTES} bytes or more")
    _, _, _, figures, lowest, highest, _ = _HEADER.unpack_from(inflated)
    if not 1 <= figures <= MOST_FIGURES or not 1 <= lowest <= highest // 2 <= MOST_VALUE // 2:
        raise ValueError(f"{figures} significant digits from {lowest} to {highest}")


def _key(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


DECODER = Decoder()
