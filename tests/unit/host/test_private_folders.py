"""Folders that stay visible while /tmp and similar folders are hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.host.private.folders import Layout, plan_layout


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for name in ("tmp", "run", "home"):
        (tmp_path / name).mkdir()
    return tmp_path


def layout(top: Path, *needed: Path) -> Layout:
    return plan_layout(needed, {top / "tmp": 0o1777, top / "run": 0o755}, top / "run")


def test_paths_elsewhere_change_nothing(top: Path) -> None:
    found = layout(top, top / "home", Path("/"), top)
    assert (set(found.hidden), found.visible) == ({top / "tmp", top / "run"}, set())


def test_folder_stays_with_its_subfolders(top: Path) -> None:
    work = top / "tmp/work"
    (work / "results").mkdir(parents=True)
    assert layout(top, work / "results", work).visible == {work}


def test_folder_of_an_existing_or_a_new_file_stays(top: Path) -> None:
    work = top / "tmp/work"
    work.mkdir()
    (work / "engine").touch()
    assert layout(top, work / "engine", work / "new/deep/report.html").visible == {work}


def test_tmp_is_not_hidden_if_a_file_lies_directly_in_it(top: Path) -> None:
    found = layout(top, top / "tmp/report.html")
    assert (set(found.hidden), found.visible) == ({top / "run"}, set())


def test_run_is_always_hidden_and_a_file_in_it_stays(top: Path) -> None:
    (top / "run/token").touch()
    found = layout(top, top / "run/token", top / "run/to-be-made", top / "run")
    assert (set(found.hidden), found.visible) == ({top / "tmp", top / "run"}, {top / "run/token"})


def test_symbolic_links_on_the_way_are_made_again(top: Path) -> None:
    (top / "tmp/real").mkdir()
    (top / "run/current").symlink_to(top / "tmp/real")
    (top / "home/link").symlink_to("../run/current")
    found = layout(top, top / "home/link/bin")
    assert found.visible == {top / "tmp/real"}
    assert found.links == {top / "run/current": top / "tmp/real"}


def test_links_in_a_circle_end(top: Path) -> None:
    (top / "home/a").symlink_to("b")
    (top / "home/b").symlink_to("a")
    assert layout(top, top / "home/a/x").visible == set()
