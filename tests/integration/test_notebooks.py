"""The notebooks of docs/notebooks run unchanged on a real switch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.integration.main_job import need

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))

pytestmark = pytest.mark.integration


def outputs(book: Any) -> Any:
    """Return all text output of a notebook."""
    found = []
    for cell in book.cells:
        for output in cell.get("outputs", []):
            found.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
    return "".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(switches=["linux-bridge"])
    state = f"/tmp/smnb{os.getpid()}"
    monkeypatch.setenv("SWITCHMARK_STATE_DIR", state)
    monkeypatch.setenv("SWITCHMARK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    book = nbformat.read(path, as_version=4)
    client = NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()  # raises for a cell that fails
    text = outputs(book)
    expected = {
        "first-campaign": "linux-bridge 1500 B: finished",
        "plots": "report.html",
        "expectations": "throughput >= 1k",
    }
    assert expected[path.stem] in text, text
    left = {one.name for one in Path(state).iterdir()} - {"measuring.lock"}
    assert not left, "something was left behind"


def test_three_notebooks_exist() -> None:
    assert len(NOTEBOOKS) == 3
