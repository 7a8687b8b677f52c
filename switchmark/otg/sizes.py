"""The sizes of a flow's frames, for the engine and for a file."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd

from switchmark.otg import types
from switchmark.otg.frames import smallest_frame_bytes
from switchmark.otg.headers import Headers
from switchmark.otg.refusal import Refused, chosen

MOST_SIZES = 1024  # the engine accepts no more sizes in turn
LARGEST_FRAME = 9018
SIZE_SEED = 1


@dataclass(frozen=True, slots=True)
class FlowSizes:
    """The sizes of the frames of a flow, FCS counted."""

    spec: str | None  # the engine's option, without outer headers; None: it cannot describe them
    in_turn: tuple[int, ...]  # for a file; empty: sizes are drawn by their weights
    weights: tuple[tuple[int, float], ...] = ()

    @classmethod
    def of(cls, size: types.FlowSize | None, path: str, headers: Headers) -> FlowSizes:
        """Read them from a configuration. Raises `Refused`."""
        size = size or types.FlowSize()
        outer = headers.outer_bytes
        least = outer + smallest_frame_bytes(
            headers.ip_version, len(headers.cycle.vlans), headers.cycle.payload
        )
        match chosen(size):
            case "fixed":
                _check_size(size.fixed, f"{path}.fixed", least)
                return cls(str(size.fixed - outer), (size.fixed,))
            case "increment":
                span = size.increment or types.FlowSizeIncrement()
                _check_size(span.start, f"{path}.increment.start", least)
                _check_size(span.end, f"{path}.increment.end", least)
                if span.step < 1 or span.end < span.start:
                    raise Refused(
                        f"{path}.increment: has no sizes; use a step of 1 or more, and an end that "
                        "is not below the start"
                    )
                sizes = tuple(range(span.start, span.end + 1, span.step))
                spec = "+".join(str(step - outer) for step in sizes)
                return cls(spec if len(sizes) <= MOST_SIZES else None, sizes)
            case "random":
                drawn = size.random or types.FlowSizeRandom()
                _check_size(drawn.min, f"{path}.random.min", least)
                _check_size(drawn.max, f"{path}.random.max", drawn.min)
                all_sizes = tuple((length, 1.0) for length in range(drawn.min, drawn.max + 1))
                return cls(f"random:{drawn.min - outer}-{drawn.max - outer}", (), all_sizes)
            case _:
                pairs = size.weight_pairs or types.FlowSizeWeightPairs()
                return cls._weighted(pairs, f"{path}.weight_pairs", least, outer)

    @classmethod
    def _weighted(
        cls, pairs: types.FlowSizeWeightPairs, path: str, least: int, outer: int
    ) -> FlowSizes:
        if chosen(pairs) == "predefined":
            _check_size(64, f"{path}.predefined", least)
            return cls("random:imix", (), ((64, 7.0), (570, 4.0), (1518, 1.0)))
        if not pairs.custom:
            raise Refused(f"{path}.custom: holds no sizes")
        for n, pair in enumerate(pairs.custom):
            _check_size(pair.size, f"{path}.custom[{n}].size", least)
            if pair.weight <= 0:
                raise Refused(f"{path}.custom[{n}].weight: must be above 0")
        weights = tuple((pair.size, pair.weight) for pair in pairs.custom)
        return cls(_weighted_spec([(size - outer, w) for size, w in weights]), (), weights)

    def sequence(self, count: int) -> tuple[int, ...]:
        """Return the sizes of `count` frames in a file, or the shorter sequence that repeats."""
        if self.in_turn:
            return self.in_turn
        sizes, weights = zip(*self.weights, strict=True)
        largest = max(weights)  # the sum of shares is finite, that of weights may not be
        shares = [weight / largest for weight in weights]
        return tuple(random.Random(SIZE_SEED).choices(sizes, shares, k=count))

    @property
    def largest(self) -> int:
        """The size of the largest frame."""
        return max(self.in_turn or [size for size, _ in self.weights])

    @property
    def mean(self) -> Fraction:
        """The mean size of the frames."""
        if self.in_turn:
            return Fraction(sum(self.in_turn), len(self.in_turn))
        total = sum((Fraction(weight) for _, weight in self.weights), Fraction(0))
        sizes = (size * Fraction(weight) for size, weight in self.weights)
        return sum(sizes, Fraction(0)) / total


def _weighted_spec(weights: Sequence[tuple[int, float]]) -> str | None:
    """Return the engine's option, whose weights are small integers; None if no such integers are
    in the ratios of `weights`."""
    if max(weight for _, weight in weights) > MOST_SIZES:
        return None
    hundredths = [round(weight * 100) for _, weight in weights]
    common = gcd(*hundredths)
    exact = all(abs(w * 100 - n) < 1e-6 for (_, w), n in zip(weights, hundredths, strict=True))
    if not exact or not common or sum(hundredths) // common > MOST_SIZES:
        return None
    parts = (f"{size}*{n // common}" for (size, _), n in zip(weights, hundredths, strict=True))
    return "random:" + "+".join(parts)


def _check_size(size: int, path: str, least: int) -> None:
    if not least <= size <= LARGEST_FRAME:
        raise Refused(
            f"{path}: is {size}; frames with these headers have {least} to {LARGEST_FRAME} bytes "
            "with FCS"
        )
