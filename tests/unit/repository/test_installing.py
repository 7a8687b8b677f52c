"""What packages are made of: one version everywhere, locks that agree, a manual page of all that
`--help` says."""

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
    """As the package, the wheel, the engine and Debian have it, and the latest in the changelog."""
    own, project, meson, debian = ((root / name).read_text() for name in VERSIONED)
    found = [
        re.search(r'__version__ = "([^"]+)"', own),
        re.search(r"version: '([^']+)'", meson),
        re.match(r"switchmark \(([^)-]+)-1\)", debian),
        re.search(r"^## ([0-9.]+)", (root / "CHANGELOG.md").read_text(), re.MULTILINE),
    ]
    assert all(found)
    return {tomllib.loads(project)["project"]["version"], *(one[1] for one in found if one)}


def test_the_version_is_the_same_everywhere() -> None:
    assert versions(ROOT) == {__version__}


def test_a_release_is_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)  # a hook of git's has some that name its own repository
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    for name in (*VERSIONED, "CHANGELOG.md", "tools/release"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## Unreleased\n\n- One.\n\n## 0.0.1\n")
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(tmp_path)]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    named = {"GIT_AUTHOR_NAME": "x", "GIT_COMMITTER_NAME": "x", "EMAIL": "x@example.org"}

    def release(version: str) -> subprocess.CompletedProcess[str]:
        words = [str(tmp_path / "tools/release"), version]
        return subprocess.run(
            words, env={**os.environ, **named}, capture_output=True, text=True, check=False
        )

    assert release("91.2.0").returncode == 0
    assert versions(tmp_path) == {"91.2.0"}
    assert "## Unreleased\n\n## 91.2.0 (" in (tmp_path / "CHANGELOG.md").read_text()
    told = subprocess.run(
        [*git, "describe", "--dirty"], capture_output=True, text=True, check=True
    ).stdout
    assert told == "v91.2.0\n"
    for version, words in (
        ("91.2.0", "is not above 91.2.0"),
        ("9", "is no version"),
        ("92.0.0", "nothing stands under Unreleased"),
    ):
        refused = release(version)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert words in refused.stderr


def pins(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text()
    return dict(re.findall(r"^([A-Za-z0-9._\[\]-]+)==(\S+)", text, re.MULTILINE))


def test_the_package_carries_what_is_tested_and_no_tools() -> None:
    carried, tested = pins("requirements.run.lock"), pins("requirements.lock")
    assert carried.items() <= tested.items()
    assert "pydantic" in carried
    assert "pytest" not in carried


def test_modules_are_no_programs_in_the_package(tmp_path: Path) -> None:
    """As in the wheel of protobuf, where every file may be executed: lintian refuses that."""
    if shutil.which("make") is None:
        pytest.skip("no make")
    packages = tmp_path / "lib/python3.11/site-packages"
    kept = {"some/__init__.py": "x = 1", "some-1.dist-info/WHEEL": "Tag: py3-none-any"}
    programs = {"some/tool.py": "#!/usr/bin/python3", "some/tool": "\x7fELF"}
    for name, text in (kept | programs).items():
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text(text)
        (packages / name).chmod(0o755)
    words = ["make", "-s", "-f", "debian/rules", "modes", f"STAGE={tmp_path}"]
    subprocess.run(words, cwd=ROOT, check=True)
    modes = {name: (packages / name).stat().st_mode & 0o777 for name in kept | programs}
    assert modes == {**dict.fromkeys(kept, 0o644), **dict.fromkeys(programs, 0o755)}


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
            for spelling in getattr(parameter, "opts", []):
                assert spelling in section, f"{name}: {spelling}"
        assert "Examples:" in section or " " in name, name


def test_the_manual_page_is_clean_roff(capsys: pytest.CaptureFixture[str]) -> None:
    text = manual(capsys)
    requests = {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))}
    assert requests == {".TH", ".SH", ".SS", ".B", ".RI", ".P", ".TP", ".nf", ".fi"}
    try:
        words = ["groff", "-man", "-ww", "-Tutf8", "-z"]
        told = subprocess.run(words, input=text, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        pytest.skip("no groff")
    assert not [line for line in told.stderr.splitlines() if "cannot" not in line], told.stderr
