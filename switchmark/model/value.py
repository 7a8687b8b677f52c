"""The kinds of values that records are made of: amounts, shares, percentiles, times.

All are finite and none is below its least value: a wrong number is the worst bug.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _check_percentiles(values: dict[str, float]) -> dict[str, float]:
    previous = -math.inf
    for key in sorted(values, key=float):
        if not 0 <= float(key) <= 100:
            raise ValueError(f"percentile {key!r} is not between 0 and 100")
        if values[key] < previous:
            raise ValueError(f"percentile {key} ({values[key]}) is below a lower percentile")
        previous = values[key]
    return values


def _check_finite(value: Any, where: str = "") -> Any:
    """NaN and infinity are not JSON; refuse them anywhere inside free-form values."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where or 'value'}: {value} is not a finite number")
    if isinstance(value, dict):
        for key, item in value.items():
            _check_finite(item, f"{where}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check_finite(item, f"{where}[{index}]")
    return value


def parse_utc(text: str) -> datetime:
    """A time as records keep it (RFC 3339, UTC). Raises ValueError for anything else."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None or moment.utcoffset() != UTC.utcoffset(None):
        raise ValueError(f"{text!r} is not a UTC time (RFC 3339, e.g. 2026-01-31T12:00:00Z)")
    return moment


def _check_utc(text: str) -> str:
    parse_utc(text)
    return text


Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0)]
Ratio = Annotated[float, Field(ge=0, le=1)]
Percentiles = Annotated[dict[str, Amount], AfterValidator(_check_percentiles)]
PercentileBounds = tuple[Amount | None, Amount | None]
FreeForm = Annotated[dict[str, Any], AfterValidator(_check_finite)]
UtcTime = Annotated[str, AfterValidator(_check_utc)]


class Value(BaseModel):
    """A part of a record: no other keys than those named, no NaN, no infinity.

    Its validator is made when it is first asked for: a table of many records needs none."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, defer_build=True)
