"""Versions contain the revision of their sources, in a checkout and in builds from it."""

import subprocess
from pathlib import Path

import pytest

from switchmark import version
from switchmark.experiment.execute import _provenance
from switchmark.version import __version__, full_version, revision_of

SCRIPT = Path(__file__).parents[2] / "tools/revision"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with the package in one commit, and another file in a later commit."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "somebody@example.org")
    git(tmp_path, "init", "--quiet")
    for path, text in (("switchmark/one.py", "1\n"), ("docs/one.md", "2\n")):
        file = tmp_path / path
        file.parent.mkdir()
        file.write_text(text)
        git(tmp_path, "add", path)
        git(tmp_path, "commit", "--quiet", "-m", path)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/revision").write_bytes(SCRIPT.read_bytes())
    (tmp_path / "tools/revision").chmod(0o755)
    return tmp_path


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def test_revision_is_the_last_commit_of_the_package(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "--short=12", "HEAD~1")
    assert revision_of(checkout / "switchmark") == f"+{commit}"


@pytest.mark.parametrize("name", ["one.py", "new.py"])
def test_changed_files_are_reported(checkout: Path, name: str) -> None:
    (checkout / "switchmark" / name).write_text("3\n")
    assert revision_of(checkout / "switchmark").endswith("-dirty")
    (checkout / "docs/one.md").write_text("3\n")
    git(checkout, "checkout", "--quiet", "switchmark")
    (checkout / "switchmark/new.py").unlink(missing_ok=True)
    assert not revision_of(checkout / "switchmark").endswith("-dirty")


def test_build_contains_the_revision_in_a_file(tmp_path: Path) -> None:
    assert revision_of(tmp_path) == ""
    (tmp_path / "revision.txt").write_text("+adc1ca44305e\n")
    assert revision_of(tmp_path) == "+adc1ca44305e"


def test_copy_outside_of_a_checkout_has_no_revision(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/revision").write_bytes(SCRIPT.read_bytes())
    (tmp_path / "tools/revision").chmod(0o755)
    assert revision_of(tmp_path / "switchmark") == ""


def test_record_has_the_revision_in_its_provenance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "revision_of", lambda _: "+adc1ca44305e")
    full_version.cache_clear()
    try:
        assert _provenance({})()["switchmark"] == f"{__version__}+adc1ca44305e"
    finally:
        full_version.cache_clear()
