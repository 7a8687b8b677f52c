"""What all tests share: a session that can be interrupted, and examples without a time limit.

A shell starts background jobs with SIGINT ignored, children inherit that, and tests of Ctrl-C
would wait for a signal that never acts. And a machine that does something else is no reason
for a property not to hold (hypothesis gives each example 0.2 s otherwise).
"""

from __future__ import annotations

import signal

from hypothesis import settings

signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
