"""Atomic file replacement: concurrent readers see the old or the new content."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

import switchmark
from switchmark.atomic_files import atomic_writer, is_replaced, write_atomically


@pytest.mark.parametrize("content", ["new", b"new"])
def test_reader_sees_the_old_or_the_new_file(
    tmp_path: Path, content: str | bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.html"
    page.write_text("old")
    with page.open() as reader:
        write_atomically(page, content, 0o640)
        assert reader.read() == "old", "an open file keeps its old content"
    assert page.read_text() == "new" and page.stat().st_mode & 0o777 == 0o640
    write_atomically(page, content)
    os.umask(umask := os.umask(0o022))
    assert page.stat().st_mode & 0o777 == 0o666 & ~umask

    def stopped(source: Path, target: Path) -> None:
        assert (source.read_text(), target.read_text()) == ("more", "new"), (
            "complete before it is visible"
        )
        raise OSError(errno.ENOSPC, "full", str(source), None, str(target))

    monkeypatch.setattr(Path, "replace", stopped)
    with pytest.raises(OSError, match="full") as error:
        write_atomically(page, "more")
    assert (error.value.filename, error.value.filename2) == (str(page), None)
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"] and page.read_text() == "new"


def test_file_that_a_shell_writes_to_is_written_in_place(tmp_path: Path) -> None:
    """`--html /dev/stdout > FILE`: later output of the program is in the same file."""
    place = tmp_path / "out"
    with place.open("w") as shell:
        write_atomically(Path(f"/dev/fd/{shell.fileno()}"), "page")
        assert place.read_text() == "page" and os.fstat(shell.fileno()).st_nlink == 1


def test_device_and_link_are_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomically(pipe, "<html>")
        assert os.read(reader, 100) == b"<html>" and pipe.is_fifo()
    finally:
        os.close(reader)
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "link.html").symlink_to("real.html")
    write_atomically(tmp_path / "link.html", "new")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text() == "new"
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "no" / "such" / "folder.html", "x")
    assert not (tmp_path / "no").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.html", "pipe", "real.html"]


def test_failed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    page, missing = tmp_path / "page.html", tmp_path / "other"
    page.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_writer(page) as file:
        file.write(b"half of it")
        raise ZeroDivisionError
    with pytest.raises(FileNotFoundError) as error, atomic_writer(page):
        missing.read_text()
    assert error.value.filename == str(missing), "the missing file of the writer is named"
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"] and page.read_text() == "old"
    assert is_replaced(page) and is_replaced(tmp_path / "new")
    assert not is_replaced(Path("/dev/stdout")) and not is_replaced(tmp_path)


def test_output_files_are_written_atomically() -> None:
    """No command writes a file in place, where a full disk or a signal would leave half of it."""
    in_place = re.compile(r"\.(write_text|write_bytes|write_parquet|savefig)\((?!file\b)")
    package = Path(switchmark.__file__).parent
    modules = [
        path
        for layer in ("cli", "report", "reproduction")
        for path in (package / layer).rglob("*.py")
    ]
    assert len(modules) > 50
    assert not [path.name for path in modules if in_place.search(path.read_text())]
