"""Times as people say them."""

from __future__ import annotations


def format_duration(time_s: float) -> str:
    """A time as people say it: `45 s`, `3 min 20 s`, `2 h 5 min`."""
    total = round(time_s)
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60} s" if total % 60 else f"{total // 60} min"
    minutes = round(time_s / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
