"""Packages for virtual machines: what is fetched is told apart, and what fails is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.environment.vm import packages
from switchmark.errors import UnavailableError
from tests.unit.switch_programs import script


def test_the_newest_kernel_is_that_of_the_highest_number(tmp_path: Path) -> None:
    (tmp_path / "boot").mkdir()
    for release in ("6.1.0-9-amd64", "6.1.0-10-amd64", "5.10.0-30-amd64"):
        (tmp_path / f"boot/vmlinuz-{release}").touch()
    found = packages.unpacked_kernel(tmp_path)
    assert found is not None and found.release == "6.1.0-10-amd64"
    assert packages.unpacked_kernel(tmp_path / "none") is None


def test_apt_is_asked_in_english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(
        tmp_path / "apt-cache",
        '[ "$LC_ALL" = C ] && echo "  Depends: linux-image-7" || echo "  Hängt ab von: x"',
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert packages.default_kernel_package() == "linux-image-7"


def test_what_cannot_be_fetched_is_told_and_leaves_nothing(
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
