"""What all tests share: a session that can be interrupted, and examples that need no luck.

A shell starts background jobs with SIGINT ignored, children inherit that, and tests of Ctrl-C
would wait for a signal that never acts. And a machine that does something else is no reason
for a property not to hold (hypothesis gives each example 0.2 s otherwise, and little time to draw
them). The same examples are drawn each time, so that what fails has changed; others are with
`--hypothesis-profile default`.
"""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile(
    "patient", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
