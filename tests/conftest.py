"""What all tests share: a session that can be interrupted.

A shell starts background jobs with SIGINT ignored, children inherit that, and tests of Ctrl-C
would wait for a signal that never acts.
"""

from __future__ import annotations

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
