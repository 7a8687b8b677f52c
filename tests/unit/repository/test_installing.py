"""The content of packages: one version everywhere, consistent locks, and a manual page with
everything that `--help` prints."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from switchmark.cli.main import COMMANDS, load_command, run
from switchmark.version import __version__

ROOT = Path(__file__).parents[3]


VERSIONED = ("switchmark/version.py", "pyproject.toml", "meson.build", "debian/changelog")


def versions(root: Path) -> set[str]:
    """Return the versions of package, wheel, engine, Debian, and the latest in the changelog."""
    package, project, meson, debian = ((root / name).read_text() for name in VERSIONED)
    found = [
        re.search(r'__version__ = "([^"]+)"', package),
        re.search(r"version: '([^']+)'", meson),
        re.match(r"switchmark \(([^)-]+)-1\)", debian),
        re.search(r"^## ([0-9.]+)", (root / "CHANGELOG.md").read_text(), re.MULTILINE),
    ]
    assert all(found)
    return {tomllib.loads(project)["project"]["version"], *(one[1] for one in found if one)}


def test_version_is_the_same_everywhere() -> None:
    assert versions(ROOT) == {__version__}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the files that a release changes, and with changes since the last
    release."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)  # a hook of git sets variables that name another repository
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("EMAIL", "x@example.org")
    for name in (*VERSIONED, "CHANGELOG.md", "tools/release"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(
        f"# Changes\n\n## Unreleased\n\n- One.\n\n## {__version__}\n\n- Two.\n"
    )
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    return tmp_path


def release(checkout: Path, version: str) -> subprocess.CompletedProcess[str]:
    """Run tools/release in a checkout."""
    return subprocess.run(
        [checkout / "tools/release", version], capture_output=True, text=True, check=False
    )


def described(checkout: Path) -> str:
    """Return the tag of the checkout, with `-dirty` if files differ from it."""
    command = ["git", "describe", "--dirty"]
    return subprocess.run(
        command, cwd=checkout, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_release_sets_version_and_tags(checkout: Path) -> None:
    """All files have the new version, and the chapter of the changelog has its date."""
    assert release(checkout, "91.2.0").returncode == 0
    assert versions(checkout) == {"91.2.0"}
    assert "## Unreleased\n\n## 91.2.0 (" in (checkout / "CHANGELOG.md").read_text()
    assert described(checkout) == "v91.2.0"


def test_first_release_keeps_present_version(checkout: Path) -> None:
    """The version in the files has no tag yet: its chapter gets a date, and the commit a tag."""
    assert release(checkout, __version__).returncode == 0
    assert versions(checkout) == {__version__}
    assert f"\n## {__version__} (2" in (checkout / "CHANGELOG.md").read_text()
    assert described(checkout) == f"v{__version__}"


def test_release_refuses_in_one_line(checkout: Path) -> None:
    """An earlier or present version, a word, and a version without changes are refused."""
    assert release(checkout, "91.2.0").returncode == 0
    for version, message in (
        ("91.1.0", "is below 91.2.0"),
        ("91.2.0", "v91.2.0 is released"),
        ("9", "is not a version"),
        ("92.0.0", "there is nothing under Unreleased"),
    ):
        refused = release(checkout, version)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
        assert message in refused.stderr


def test_build_of_a_release_needs_debootstrap_at_its_start(checkout: Path) -> None:
    """The last step needs it, after a build of many minutes."""
    programs = checkout / ".venv/bin"
    programs.mkdir(parents=True)
    for name in ("python", "chroot"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    (checkout / ".git/info/exclude").write_text(".venv\n")
    shutil.copy(ROOT / "tools/setup.sh", checkout / "tools")
    for arguments in (["add", "."], ["commit", "-qm", "x"]):
        subprocess.run(["git", *arguments], cwd=checkout, check=True)
    done = subprocess.run(
        [checkout / "tools/release", "build"], capture_output=True, text=True, check=False,
        env={"PATH": f"{programs}:/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert done.stderr == "release: needs debootstrap (apt install debootstrap)\n"


def pins(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text()
    return dict(re.findall(r"^([A-Za-z0-9._\[\]-]+)==(\S+)", text, re.MULTILINE))


def test_package_contains_tested_files_and_no_tools() -> None:
    carried, tested = pins("requirements.run.lock"), pins("requirements.lock")
    assert carried.items() <= tested.items()
    assert "pydantic" in carried
    assert "pytest" not in carried


def test_modules_in_the_package_are_not_executable(tmp_path: Path) -> None:
    """All files of protobuf's wheel are executable, which lintian refuses."""
    if shutil.which("make") is None:
        pytest.skip("no make")
    packages = tmp_path / "lib/python3.11/site-packages"
    files = {"some/__init__.py": "x = 1", "some-1.dist-info/WHEEL": "Tag: py3-none-any"}
    programs = {"some/tool.py": "#!/usr/bin/python3", "some/tool": "\x7fELF"}
    for name, text in (files | programs).items():
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text(text)
        (packages / name).chmod(0o755)
    command = ["make", "-s", "-f", "debian/rules", "modes", f"STAGE={tmp_path}"]
    subprocess.run(command, cwd=ROOT, check=True)
    modes = {name: (packages / name).stat().st_mode & 0o777 for name in files | programs}
    assert modes == {**dict.fromkeys(files, 0o644), **dict.fromkeys(programs, 0o755)}


def manual(capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["--man"]) == 0
    return capsys.readouterr().out


def test_the_manual_page_has_every_option_of_every_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = manual(capsys).replace(r"\-", "-")
    commands = {}
    for name in COMMANDS:
        commands[name] = loaded = load_command(name)
        inner = getattr(loaded, "commands", {})
        commands |= {f"{name} {one}": command for one, command in inner.items()}
    assert len(commands) > len(COMMANDS)
    for name, command in commands.items():
        section = text.partition(f".SS switchmark {name} ")[2].partition("\n.SS ")[0]
        for parameter in command.params:
            is_argument = parameter.param_type_name == "argument"
            names = [parameter.metavar or parameter.name] if is_argument else parameter.opts
            for spelling in names:
                assert spelling in section, f"{name}: {spelling}"
        assert "Examples:" in section or " " in name, name


def test_the_manual_page_is_clean_roff(capsys: pytest.CaptureFixture[str]) -> None:
    text = manual(capsys)
    requests = {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))}
    assert requests == {".TH", ".SH", ".SS", ".B", ".RI", ".P", ".TP", ".nf", ".fi"}
    try:
        command = ["groff", "-man", "-ww", "-Tutf8", "-z"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        pytest.skip("no groff")
    assert not [line for line in done.stderr.splitlines() if "cannot" not in line], done.stderr
