"""Results in a folder with any name, under a locale that is not UTF-8."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from switchmark.errors import SwitchmarkError
from switchmark.results.query import as_utf8, from_utf8
from tests.unit.records import quick_records, write_run

ROOT = Path(__file__).parents[3]
READ = """
import sys
from pathlib import Path
from switchmark.report.html import write_report
from switchmark.results.origins import read_origins
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summary
assert sys.getfilesystemencoding() == "ascii"
run = Path(sys.argv[1])
print(len(summary(run)), len(read_origins(open_run(run))), write_report(run, run / "r.html"))
"""


def test_a_run_is_read_whatever_the_name_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "Prüfstände-測試"
    run = write_run(folder, quick_records(repetitions=1))
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", READ, os.fsencode(run)],
        cwd=ROOT, env=os.environ | ascii_only, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    rows, origins, problems = done.stdout.split(maxsplit=2)
    assert int(rows) > 1 and int(origins) >= int(rows)
    assert problems.strip() == "[]" and (run / "r.html").exists()


def test_paths_are_given_to_databases_as_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under ISO-8859-1, Python reads each byte of a name as a separate character."""
    monkeypatch.setattr(os, "fsencode", lambda text: text.encode("latin-1"))
    monkeypatch.setattr(os, "fsdecode", lambda name: name.decode("latin-1"))
    seen_by_python = "/r/" + "ü/測".encode().decode("latin-1") + "/a.json"
    assert as_utf8(seen_by_python) == "/r/ü/測/a.json"
    assert from_utf8("/r/ü/測/a.json") == seen_by_python
    assert as_utf8("/plain") == from_utf8("/plain") == "/plain"
    with pytest.raises(SwitchmarkError, match="the name is not UTF-8; move the results"):
        as_utf8("/r/ü")  # one byte, which is not valid UTF-8
