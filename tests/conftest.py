"""Shared by all tests: a known state of the process (known_state.py), and patient examples.

A machine that does something else is not a reason for a property not to hold (hypothesis gives
each example 0.2 s otherwise, and little time to draw them). The same examples are drawn each time,
so that what fails has changed; `--hypothesis-profile default` draws others.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.known_state import establish

establish()
settings.register_profile(
    "patient", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
