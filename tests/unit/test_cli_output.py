"""Results and remarks in one file stand in the order in which they were printed."""

from __future__ import annotations

import os
import subprocess
import sys

SAID = """
from switchmark.cli.output import note, print_line
print_line("the table")
note("the remark")
print_line("the end")
"""


def test_a_remark_follows_what_was_printed_before_it() -> None:
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    told = subprocess.run(
        [sys.executable, "-c", SAID], env=buffered,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.split("\n") == ["the table", "the remark", "the end", ""]
