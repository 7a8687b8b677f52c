"""What `run --pool` refuses."""

from __future__ import annotations

from typing import Any

import pytest

from switchmark.cli import main


@pytest.mark.parametrize(
    "option", [("--json",), ("--report",), ("--recalibrate",), ("--metrics", "9464")]
)
def test_an_option_that_a_pool_does_not_serve_is_refused(
    option: tuple[str, ...], capsys: Any
) -> None:
    assert main.run(["run", "quick", "--pool", "127.0.0.1:1", *option]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"switchmark: {option[0]} does not go with --pool") and "show" in line
