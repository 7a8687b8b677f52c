"""Files that are replaced whole, whoever reads them meanwhile."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from switchmark.whole import write_whole


@pytest.mark.parametrize("content", ["new", b"new"])
def test_a_reader_sees_the_old_file_or_the_new_one(
    tmp_path: Path, content: str | bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.html"
    page.write_text("old")
    with page.open() as reader:
        write_whole(page, content, 0o640)
        assert reader.read() == "old", "who has it open goes on reading what it was"
    assert page.read_text() == "new" and page.stat().st_mode & 0o777 == 0o640
    write_whole(page, content)
    os.umask(umask := os.umask(0o022))
    assert page.stat().st_mode & 0o777 == 0o666 & ~umask

    def stopped(here: Path, there: Path) -> None:
        assert (here.read_text(), there.read_text()) == ("more", "new"), "whole before it is seen"
        raise OSError(errno.ENOSPC, "full", str(here), None, str(there))

    monkeypatch.setattr(Path, "replace", stopped)
    with pytest.raises(OSError, match="full") as told:
        write_whole(page, "more")
    assert (told.value.filename, told.value.filename2) == (str(page), None)
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"] and page.read_text() == "new"


def test_what_a_shell_writes_to_is_written_to(tmp_path: Path) -> None:
    """`--html /dev/stdout > FILE`: what the program prints then is in the same file."""
    place = tmp_path / "out"
    with place.open("w") as shell:
        write_whole(Path(f"/dev/fd/{shell.fileno()}"), "page")
        assert place.read_text() == "page" and os.fstat(shell.fileno()).st_nlink == 1


def test_a_device_and_a_link_stay_what_they_are(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, "<html>")
        assert os.read(reader, 100) == b"<html>" and pipe.is_fifo()
    finally:
        os.close(reader)
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "link.html").symlink_to("real.html")
    write_whole(tmp_path / "link.html", "new")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text() == "new"
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "no" / "such" / "folder.html", "x")
    assert not (tmp_path / "no").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.html", "pipe", "real.html"]
