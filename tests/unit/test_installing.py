"""What packages are made of: one version everywhere, locks that agree, a manual page of all that
`--help` says."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from switchmark import __version__
from switchmark.cli.main import COMMANDS, load_command, run

ROOT = Path(__file__).parents[2]


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    meson = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())
    debian = re.match(r"switchmark \(([^)-]+)-1\)", (ROOT / "debian/changelog").read_text())
    assert meson
    assert debian
    assert {project, meson[1], debian[1]} == {__version__}


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
