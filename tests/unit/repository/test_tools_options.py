"""What the tools of the repository say to an option that they do not know."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

TOOLS = Path(__file__).parents[3] / "tools"


def test_an_unknown_option_is_one_line_and_exit_2() -> None:
    told = subprocess.run(
        [TOOLS / "deb", "--no-such"], capture_output=True, text=True, check=False,
        env={**os.environ, "LC_ALL": "C"},  # (of one that is not installed a shell warns)
    )  # fmt: skip
    assert told.returncode == 2
    assert told.stderr == "deb: unknown option --no-such (see tools/deb --help)\n"
