"""Options that `run --pool` and `pool` refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from switchmark.cli import main
from switchmark.pool.security import new_certificate


@pytest.mark.parametrize(
    "option", [("--json",), ("--report",), ("--recalibrate",), ("--metrics", "9464")]
)
def test_an_option_that_a_pool_does_not_serve_is_refused(
    option: tuple[str, ...], capsys: Any
) -> None:
    assert main.run(["run", "quick", "--pool", "127.0.0.1:1", *option]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"switchmark: {option[0]} does not go with --pool") and "show" in line


@pytest.mark.parametrize("wrong", ["authority", "certificate", "key"])
def test_invalid_credential_is_a_usage_error(tmp_path: Path, capsys: Any, wrong: str) -> None:
    files = {name: tmp_path / f"{name}.pem" for name in ("authority", "certificate", "key")}
    for name, path in files.items():
        path.write_bytes(b"none" if name == wrong else new_certificate())
    files["key"] = files["certificate"] if wrong == "authority" else files["key"]
    options = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    assert main.run(["pool", "serve", "--store", "postgresql://127.0.0.1:1/x", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"--{wrong} {files[wrong]}" in line and "PEM" in line
