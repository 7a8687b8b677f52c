"""Packages for virtual machines: the choice of a kernel, failures, and leftovers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from switchmark.environment.support.building import building
from switchmark.environment.vm import packages
from switchmark.errors import UnavailableError
from tests.unit.switch_programs import script


def test_newest_kernel_has_the_highest_number(tmp_path: Path) -> None:
    (tmp_path / "boot").mkdir()
    for release in ("6.1.0-9-amd64", "6.1.0-10-amd64", "5.10.0-30-amd64"):
        (tmp_path / f"boot/vmlinuz-{release}").touch()
    kernel = packages.unpacked_kernel(tmp_path)
    assert kernel is not None and kernel.release == "6.1.0-10-amd64"
    assert packages.unpacked_kernel(tmp_path / "none") is None


def test_apt_runs_in_english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(
        tmp_path / "apt-cache",
        '[ "$LC_ALL" = C ] && echo "  Depends: linux-image-7" || echo "  Hängt ab von: x"',
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert packages.default_kernel_package() == "linux-image-7"


def test_failed_download_is_reported_and_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, root = tmp_path / "tools", tmp_path / "kernel"
    tools.mkdir()
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    apt = tools / "apt-get"
    script(apt, "echo a reason >&2; exit 100")
    with pytest.raises(UnavailableError, match=r"^apt-get -q download p: failed \(a reason\)$"):
        packages.unpack(["p"], root)
    script(apt, "touch p.deb")
    script(tools / "dpkg", "echo broken archive >&2; exit 2")
    with pytest.raises(UnavailableError, match=r"^dpkg -x .*: failed \(broken archive\)$"):
        packages.unpack(["p"], root)
    script(apt, "exec sleep 60")
    monkeypatch.setattr(packages, "FETCH_S", 0.1)
    with pytest.raises(UnavailableError, match=r"not done in 0.1 s$"):
        packages.unpack(["p"], root)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tools"]


def test_folder_of_a_killed_bench_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder into which another bench is unpacking stays."""
    machines = tmp_path / "machines"
    machines.mkdir()
    unpacks = f"with building(Path({str(machines / 'kernel')!r})): print(flush=True); input()"
    benches = [
        subprocess.Popen(
            [sys.executable, "-c", f"from {building.__module__} import *\n{unpacks}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    for bench in benches:
        assert bench.stdout is not None and bench.stdout.readline() == b"\n"
    folders = set(machines.iterdir())
    assert len(folders) == 2
    for folder in folders:
        os.utime(folder, (0, 0))
    benches[0].kill()
    benches[0].communicate()
    monkeypatch.setattr(packages, "_run", lambda *_, **__: "")
    packages.unpack(["p"], machines / "kernel")
    left = {path.name for path in machines.iterdir()}
    assert "kernel" in left and len(left) == 2
    assert {machines / name for name in left} & folders, "the other bench has its folder"
    benches[1].communicate(b"\n")
    assert [path.name for path in machines.iterdir()] == ["kernel"]
