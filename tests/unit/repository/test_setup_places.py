"""quickstart's setup with few permissions: it never calls sudo, names the command for an
administrator, skips impossible steps, and decides by trying."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with an apt-get, a dpkg-query and a sudo that log their arguments."""
    programs = {
        "dpkg-query": f'for last; do :; done\n[ -e {tmp_path}/has/"$last" ] && printf installed\n',
        "apt-cache": f'[ -e {tmp_path}/archive/"$2" ]\n',
        "apt-get": (
            f'echo "$*" >>{tmp_path}/asked\n[ "$1" = install ] || exit 0\n'
            "for one; do case $one in install | -*) continue ;; esac\n"
            f"  [ -e {tmp_path}/archive/$one ] || exit 100; done\n"
            "for one; do case $one in install | -*) continue ;; esac\n"
            f"  touch {tmp_path}/has/$one; done\n"
        ),
        "sudo": f"touch {tmp_path}/sudo\nexit 1\n",
    }
    for folder in ("bin", "has", "archive", "dpkg"):
        (tmp_path / folder).mkdir()
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def call(place: Path, script: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    text = (
        f". '{ROOT}/tools/setup.sh'\nPOLICY={place}/policy\nDPKG_FOLDER={place}/dpkg\n"
        f"HUGEPAGES={place}/pages\n{script}"
    )
    return subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", text],
        cwd=place, env={"PATH": path or f"{place}/bin:{os.environ['PATH']}"}, check=False,
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip


def has(place: Path, *names: str, folder: str = "has") -> None:
    for name in names:
        (place / folder / name).touch()


def test_nothing_is_requested_if_all_is_installed(place: Path) -> None:
    has(place, "cc", "lxc")
    done = call(place, "install_packages no cc -- lxc")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (place / "asked").exists() and not (place / "sudo").exists()


def test_user_without_a_compiler_gets_the_command(place: Path) -> None:
    (place / "dpkg").rmdir()  # as if it could not be written, also for root
    done = call(place, "install_packages yes cc -- lxc")
    assert done.returncode == 3
    assert done.stderr == (
        "bash: packages are missing: cc; an administrator installs them with: sudo apt-get install "
        "-y cc lxc\n"
    )
    assert not (place / "asked").exists() and not (place / "sudo").exists()


def test_user_without_optional_packages_continues(place: Path) -> None:
    (place / "dpkg").rmdir()
    has(place, "cc")
    done = call(place, "install_packages no cc -- lxc ovs; echo on")
    assert (done.returncode, done.stdout) == (0, "on\n")
    assert "left out, because these packages are not installed: lxc ovs" in done.stderr
    assert "an administrator installs them with: sudo apt-get install -y lxc ovs" in done.stderr


def test_packages_that_apt_lacks_are_left_out(place: Path) -> None:
    has(place, "cc", "ovs", folder="archive")
    done = call(place, "install_packages yes cc -- lxc ovs; echo on")
    assert (done.returncode, done.stdout) == (0, "on\n")
    assert sorted(one.name for one in (place / "has").iterdir()) == ["cc", "ovs"]
    assert done.stderr.splitlines()[-1].endswith("these packages are not installed: lxc")
    assert not (place / "policy").exists()


def test_container_without_a_network_gets_one_line(place: Path) -> None:
    done = call(place, "install_packages yes cc -- lxc")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == (
        "bash: apt-get could not install cc (its messages are above); without a network, use an "
        "image that has them"
    )


def test_lack_of_an_administrator_is_reported(place: Path) -> None:
    done = call(place, "install_packages no cc")
    assert done.returncode == 2 and "run again with --yes" in done.stderr


def test_system_without_dpkg_needs_a_compiler(place: Path) -> None:
    (place / "empty").mkdir()
    done = call(place, "install_packages yes cc", path=str(place / "empty"))
    assert done.returncode == 3
    assert "this system has no apt-get; install a C compiler" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("free", [0, 1024])
def test_unreservable_hugepages_are_not_a_failure(place: Path, free: int) -> None:
    (place / "pages").mkdir()
    (place / "pages/free_hugepages").write_text(f"{free}\n")
    (place / "pages/nr_hugepages").symlink_to(place / "absent" / "file")  # no user can write it
    script = 'cat() { if [ "${1##*/}" = nr_hugepages ]; then echo 7; else command cat "$1"; fi; }\n'
    done = call(place, f"{script}reserve_hugepages 1024; echo on")
    assert (done.returncode, done.stdout) == (0, "on\n")
    if free:
        assert done.stderr == ""
    else:
        assert f"echo 1031 | sudo tee {place}/pages/nr_hugepages" in done.stderr
        assert "Without them, DPDK uses 4 KiB pages" in done.stderr


def test_hugepages_are_reserved_if_possible(place: Path) -> None:
    (place / "pages").mkdir()
    (place / "pages/free_hugepages").write_text("24\n")
    (place / "pages/nr_hugepages").write_text("100\n")
    done = call(place, "reserve_hugepages 1024")
    assert (place / "pages/nr_hugepages").read_text() == "1100\n"
    assert "only 24 of 1024 hugepages could be reserved" in done.stderr


def test_stamp_of_the_source_is_the_same_in_each_locale(tmp_path: Path) -> None:
    """Otherwise each call in another locale would rebuild."""
    for name in ("B.c", "a.c", "_.c"):
        (tmp_path / "engine").mkdir(exist_ok=True)
        (tmp_path / "engine" / name).write_text(name)
    (tmp_path / "switchmark").mkdir()
    (tmp_path / "lock").touch()
    found = {
        subprocess.run(
            ["/bin/bash", "-c", f". '{ROOT}/tools/setup.sh'; source_stamp lock"],
            cwd=tmp_path, env={**os.environ, "LC_ALL": locale}, capture_output=True, check=True,
        ).stdout
        for locale in ("C", "C.UTF-8", "en_US.UTF-8", "de_DE.UTF-8")
    }  # fmt: skip
    assert len(found) == 1
