"""Decoded histograms, kept by their text: each text is decoded once in the life of a process.

A record is checked when it is read, read again for the page of its trial, and its samples are
merged for the plot. Only the slots that hold samples are kept, a few kilobytes for each.
"""

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

MOST_KEPT = 4096  # histograms: both of each record of a run that is checked whole (query.py)
MOST_FIGURES = 3  # significant digits; so many have at most 55 x 1024 slots, of 9 bytes each
MOST_BYTES = 1 << 19  # of a histogram with all slots full, inflated
MOST_VALUE = (1 << 63) - 1
_WRAPPED_BYTES = 8  # before the compressed part: cookie and length
_HEADER = struct.Struct(">IIIIQQd")  # cookie, length, offset, figures, lowest, highest, ratio


@dataclass(frozen=True, slots=True)
class HeldSlots:
    """The slots of a histogram that hold samples, and the histogram's range and precision."""

    lowest: int
    highest: int
    figures: int
    indices: Any
    counts: Any

    @classmethod
    def of(cls, held: HdrHistogram) -> HeldSlots:
        """The slots of this histogram."""
        counts = np.ctypeslib.as_array(held.counts)
        indices = np.flatnonzero(counts).astype(np.uint32)
        limits = held.lowest_trackable_value, held.highest_trackable_value
        return cls(*limits, held.significant_figures, indices, counts[indices])

    def histogram(self) -> HdrHistogram:
        """Make a histogram with these samples."""
        made = HdrHistogram(self.lowest, self.highest, self.figures)
        np.ctypeslib.as_array(made.counts)[self.indices] = self.counts
        if len(self.indices):
            least, greatest = int(self.indices[0]), int(self.indices[-1])
            made.set_internal_tacking_values(least, greatest, int(self.counts.sum()))
        return made


class Decoder:
    """Decodes texts (HdrHistogram V2, compressed, base64). Any thread may use it."""

    def __init__(self) -> None:
        self._kept: dict[bytes, HeldSlots] = {}
        self._lock = threading.Lock()

    def decode(self, text: str) -> HdrHistogram:
        """The histogram that a text is. Raises ValueError where it is none."""
        key = _key(text)
        if (slots := self._kept.get(key)) is not None:
            return slots.histogram()
        try:
            _check(text)
            held = HdrHistogram.decode(text)
        except Exception as error:  # the library raises several unrelated types
            raise ValueError(
                f"not an HdrHistogram (V2 compressed base64): {type(error).__name__}: {error}"
            ) from error
        self._keep(key, held)
        return held

    def encode(self, held: HdrHistogram) -> str:
        """Write the text of a histogram, which need not be decoded when it comes back."""
        text: str = held.encode().decode()
        self._keep(_key(text), held)
        return text

    def _keep(self, key: bytes, held: HdrHistogram) -> None:
        slots = HeldSlots.of(held)
        with self._lock:
            self._kept[key] = slots
            while len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]  # the oldest


def _check(text: str) -> None:
    """Raise ValueError where the text would take more memory than any histogram of ours: the
    library inflates what it is given, and makes as many slots as the header asks for."""
    inflated = zlib.decompressobj().decompress(base64.b64decode(text)[_WRAPPED_BYTES:], MOST_BYTES)
    if len(inflated) == MOST_BYTES:
        raise ValueError(f"inflates to {MOST_BYTES} bytes or more")
    _, _, _, figures, lowest, highest, _ = _HEADER.unpack_from(inflated)
    if not 1 <= figures <= MOST_FIGURES or not 1 <= lowest <= highest // 2 <= MOST_VALUE // 2:
        raise ValueError(f"{figures} significant digits from {lowest} to {highest}")


def _key(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


DECODER = Decoder()
