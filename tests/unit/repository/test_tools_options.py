"""The errors of the repository's tools for unknown options."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

TOOLS = Path(__file__).parents[3] / "tools"


def test_an_unknown_option_is_one_line_and_exit_2() -> None:
    done = subprocess.run(
        [TOOLS / "deb", "--no-such"], capture_output=True, text=True, check=False,
        env={**os.environ, "LC_ALL": "C"},  # a shell warns about missing locales
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "deb: unknown option --no-such (see tools/deb --help)\n"
