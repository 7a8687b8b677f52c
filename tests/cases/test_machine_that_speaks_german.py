"""A machine with another language than English.

From https://github.com/apache/mesos/pull/391 (perf prints decimal commas) and
https://github.com/darktable-org/darktable/pull/10316 ("could not convert string to float"). Numbers
have decimal points in every output, whatever the locale of the user; files are the same byte for
byte. The locales are compiled into the folder of the test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases.engine import engine_path
from tests.unit.records import synthetic_record, synthetic_trial, write_run

ROOT = Path(__file__).parents[2]
LOCALES = {"de_DE.UTF-8": "UTF-8", "de_DE.ISO-8859-1": "ISO-8859-1"}


@pytest.fixture(scope="module")
def locales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of compiled locales, for LOCPATH."""
    folder = tmp_path_factory.mktemp("locales")
    if shutil.which("localedef") is None:
        pytest.skip("no program `localedef` (apt install locales)")
    for name, charset in LOCALES.items():
        source = name.partition(".")[0]
        command = ["localedef", "-i", source, "-f", charset, str(folder / name)]
        if subprocess.run(command, check=False, capture_output=True).returncode > 1:
            pytest.skip(f"localedef has no {source} in {charset} (apt install locales)")
    return folder


def environment(locales: Path, name: str) -> dict[str, str]:
    inherited = {
        key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG"))
    }
    where = {"LOCPATH": str(locales), "LC_ALL": name, "PYTHONPATH": str(ROOT)}
    return inherited | where


def run(command: list[str], env: dict[str, str]) -> bytes:
    done = subprocess.run(
        command, env=env, capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    assert b"Traceback" not in done.stderr
    return done.stdout


def shown(results: Path, env: dict[str, str]) -> bytes:
    command = [sys.executable, "-m", "switchmark", "show", "--format", "csv"]
    return run([*command, "--results", str(results)], env)


def test_locale_has_decimal_commas(locales: Path) -> None:
    """Otherwise the tests below could not fail: the C library prints 1.5 with a comma here."""
    code = "import locale; locale.setlocale(locale.LC_ALL, ''); print(locale.str(1.5))"
    assert run([sys.executable, "-c", code], environment(locales, "de_DE.UTF-8")) == b"1,5\n"


@pytest.mark.parametrize("name", ["de_DE.UTF-8", "POSIX"])
def test_engine_prints_decimal_points(locales: Path, name: str) -> None:
    """The rate of 1 Gbit/s on layer 1 has a fraction: 1488095.238."""
    command = [engine_path(), "sender", "--port", "null:", "--rate", "1Gbps-l1", "--frames", "1",
             "--duration", "0.5", "--start", "now"]  # fmt: skip
    printed = run(command, environment(locales, name))
    assert b'"rate_pps":1488095.23' in printed


def test_results_are_the_same_bytes_in_each_locale(locales: Path, tmp_path: Path) -> None:
    write_run(tmp_path, [synthetic_record(synthetic_trial(repetition=n)) for n in range(2)])
    in_english, in_german = (
        shown(tmp_path, environment(locales, name)) for name in ("C.UTF-8", "de_DE.UTF-8")
    )
    assert b"linux-bridge" in in_english
    assert in_english == in_german


def test_results_below_a_path_with_umlauts(locales: Path, tmp_path: Path) -> None:
    """A path in UTF-8 is a sequence of bytes, also if the locale has another charset."""
    folder = tmp_path / "Prüfstände 測試"
    folder.mkdir()
    write_run(folder, [synthetic_record(synthetic_trial(repetition=n)) for n in range(2)])
    assert b"linux-bridge" in shown(folder, environment(locales, "de_DE.ISO-8859-1"))
