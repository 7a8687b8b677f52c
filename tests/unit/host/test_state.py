"""The cache and the state folder contain files that root runs: no other user can write in them,
whatever the umask, and they are refused if others could have written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.environment.support.rootfs import build_root
from switchmark.environment.vm import packages
from switchmark.errors import UnavailableError, UsageError
from switchmark.experiment.calibration import Calibrations
from switchmark.host import state
from switchmark.host.state import cache_folder, state_folder
from switchmark.trial.evidence import Baseline
from tests.places import needs_another_user
from tests.unit.experiment.test_calibration import MACHINE, measured, plan_for, wire


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder that does not exist yet, under umask 0."""
    folder = tmp_path / "above" / "cache"
    monkeypatch.setenv("SWITCHMARK_CACHE_DIR", str(folder))
    old = os.umask(0)
    yield folder
    os.umask(old)


def writable(folder: Path) -> list[Path]:
    """Return the files and folders in it that other users could write."""
    found = [folder, *folder.rglob("*")]
    return [one for one in found if not one.is_symlink() and one.stat().st_mode & 0o022]


def program(tmp_path: Path) -> Path:
    path = tmp_path / "engine"
    shutil.copy2("/bin/true", path)
    path.chmod(0o777)
    return path


@pytest.mark.skipif(shutil.which("busybox") is None, reason="no busybox")
def test_other_users_cannot_write_in_a_root(cache: Path, tmp_path: Path) -> None:
    root = build_root(program(tmp_path))
    assert (root / "usr/bin/busybox").exists()
    assert writable(cache.parent) == []
    planted = root / "usr/bin/planted"
    planted.write_text("")
    for folder in (cache, root.parent):
        folder.chmod(0o777)
        with pytest.raises(
            UsageError, match=f"{folder}: others may write it .* root runs programs"
        ):
            build_root(program(tmp_path))
        folder.chmod(0o755)


def test_other_users_cannot_write_in_an_unpacked_package(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also not during the download."""
    while_fetched: list[int] = []

    def fetch(command: list[str], *, cwd: Path, **_: object) -> str:
        while_fetched.append(cwd.parent.stat().st_mode & 0o777)
        return ""

    monkeypatch.setattr(packages, "_run", fetch)
    packages.unpack(["linux-image-x"], packages.machines_folder() / "kernel-default")
    assert while_fetched == [0o700]
    assert writable(cache) == []


def test_unpacked_files_are_not_writable_by_others(cache: Path) -> None:
    packages._run(["touch", "made"], cwd=cache_folder("machines"))
    assert writable(cache) == []


def test_figure_that_others_could_have_written_is_ignored(cache: Path) -> None:
    calibrations = Calibrations(cache / "calibration", MACHINE)
    assert calibrations.keep(wire(), measured(wire()))
    assert calibrations.find(plan_for()) != Baseline()
    (file,) = calibrations.directory.iterdir()
    assert writable(cache) == []
    file.chmod(0o666)
    assert calibrations.find(plan_for()) == Baseline()
    file.chmod(0o644)
    if os.geteuid() == 0:
        os.chown(file, 65534, -1)
        assert calibrations.find(plan_for()) == Baseline()


@needs_another_user
def test_folder_of_another_user_is_refused(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_folder("roots")
    os.chown(cache / "roots", 65534, -1)
    with pytest.raises(UsageError, match=r"belongs to another user \(uid 65534\)"):
        cache_folder("roots")
    os.chown(cache, 65534, -1)
    with pytest.raises(UsageError, match=r"cache: belongs to another user"):
        cache_folder("machines")
    monkeypatch.setenv("SWITCHMARK_STATE_DIR", f"/tmp/smt{os.getpid()}")
    state = state_folder()
    os.chown(state, 65534, -1)
    with pytest.raises(UsageError, match="executed as root"):
        state_folder()
    state.rmdir()


def test_cache_that_cannot_be_made_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_CACHE_DIR", "/proc/cache")
    with pytest.raises((UsageError, UnavailableError), match="/proc/cache: cannot be"):
        cache_folder("roots")


def test_cache_of_an_ordinary_user_follows_xdg(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SWITCHMARK_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setattr(state, "SYSTEM_CACHE", tmp_path / "var" / "switchmark")
    assert state.cache_dir() == tmp_path / "var" / "switchmark"
    monkeypatch.setattr("os.access", lambda *_, **__: False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/home/me/caches")
    assert state.cache_dir() == Path("/home/me/caches/switchmark")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert state.cache_dir() == Path("/home/me/.cache/switchmark")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert state.cache_dir() == Path("/home/me/.cache/switchmark")


def test_state_of_an_ordinary_user_follows_xdg(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also for an arbitrary user of a container, who often has only /tmp."""
    monkeypatch.delenv("SWITCHMARK_STATE_DIR", raising=False)
    monkeypatch.setattr(state, "SYSTEM_STATE", tmp_path / "run" / "switchmark")
    assert state.state_dir() == tmp_path / "run" / "switchmark"
    user, long, strange = tmp_path / "user", tmp_path / ("long" * 20), tmp_path / "a space"
    monkeypatch.setattr(state, "_can_write", lambda one: one.parent in (user, long, strange))
    monkeypatch.setattr(state, "LONGEST_STATE_DIR", len(str(tmp_path)) + 20)
    for named in (tmp_path / "closed", "relative", "", long, strange):
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(named))
        assert state.state_dir() == Path(f"/tmp/switchmark-{os.geteuid()}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(user))
    assert state.state_dir() == user / "switchmark"
