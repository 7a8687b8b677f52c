"""Unit tests mirror the package: a test of `switchmark/<package>/<module>.py` is easy to find."""

from __future__ import annotations

from pathlib import Path

import pytest

UNIT = Path(__file__).parents[1]
PACKAGE = UNIT.parents[1] / "switchmark"
FILES = sorted(UNIT.rglob("test_*.py"))


def subjects(folder: Path) -> set[str]:
    """Return the names of the modules and packages below a folder of the package."""
    entries = [folder, *(folder.rglob("*") if folder != PACKAGE else folder.iterdir())]
    return {
        path.stem.strip("_")
        for path in entries
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }


def subject(file: Path) -> str | None:
    """Return the module that a test file is named after, or None if there is no such module."""
    name = file.stem.removeprefix("test_")
    known = subjects(PACKAGE / file.relative_to(UNIT).parent)
    return next((module for module in known if f"{name}_".startswith(f"{module}_")), None)


def test_each_folder_is_a_package_of_switchmark() -> None:
    """`repository` has the tests of the documentation, the tools and the tests themselves."""
    folders = {path.parent.relative_to(UNIT).as_posix() for path in FILES}
    packages = {
        path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*/__init__.py")
    }
    assert folders - packages <= {".", "repository"}


@pytest.mark.parametrize(
    "file",
    [path for path in FILES if path.parent.name != "repository"],
    ids=lambda path: path.relative_to(UNIT).as_posix(),
)
def test_each_file_is_named_after_a_module(file: Path) -> None:
    """The name is `test_<module>.py`, or `test_<module>_<topic>.py`."""
    assert subject(file), f"{file}: there is no module of this name in the package; rename the file"
