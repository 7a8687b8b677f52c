"""What SECURITY.md promises: modes of files, and dependencies that are what they were."""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path

import pytest

from switchmark.testbed.session import open_session

ROOT = Path(__file__).parents[2]


def test_only_we_can_write_what_is_undone_as_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = Path(f"/tmp/smh{os.getpid()}")
    monkeypatch.setenv("SWITCHMARK_STATE_DIR", str(state))
    old = os.umask(0)
    try:
        with open_session(measuring=True) as session:
            modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in state.iterdir()}
            assert modes.pop(f"{session.id}.ledger") == 0o600
            assert all(mode & 0o022 == 0 for mode in modes.values()), modes
    finally:
        os.umask(old)
        shutil.rmtree(state)


def test_every_locked_dependency_has_its_hashes() -> None:
    """As pip wants them (`--require-hashes` in tools/setup.sh): one version, and hashes."""
    assert "--require-hashes" in (ROOT / "tools/setup.sh").read_text()
    text = (ROOT / "requirements.lock").read_text().replace("\\\n", " ")
    pinned = [line for line in text.splitlines() if line and line[0] not in "# -"]
    assert len(pinned) > 20
    for line in pinned:
        assert re.match(r"[A-Za-z0-9._\[\]-]+==\S+", line), line
        assert "--hash=sha256:" in line, line
