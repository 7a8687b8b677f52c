"""The promises of SECURITY.md: modes of files, and locked dependencies."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path, PurePath

import pytest

from switchmark.host.kernel.capabilities import NEVER, is_closed
from switchmark.host.session import open_session
from switchmark.instrument.registry import INSTRUMENTS
from switchmark.switch.basicfwd import BasicForwarder
from switchmark.switch.registry import SWITCHES
from switchmark.switch.support.ovs_switch import OvsSwitch
from switchmark.switch.support.program import ProgramSwitch

ROOT = Path(__file__).parents[3]
BILL = ROOT / ".sbom" / "bill.json"


def test_only_the_owner_can_write_files_that_root_undoes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = Path(f"/tmp/smh{os.getpid()}")
    monkeypatch.setenv("SWITCHMARK_STATE_DIR", str(state))
    old = os.umask(0)
    try:
        with open_session(measuring=True) as session:
            modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in state.iterdir()}
            assert modes.pop(f"{session.id}.ledger") == 0o600
            assert all(mode & 0o022 == 0 for mode in modes.values()), modes
    finally:
        os.umask(old)
        shutil.rmtree(state)


def test_link_to_itself_is_not_a_closed_folder(tmp_path: Path) -> None:
    (loop := tmp_path / "loop").symlink_to("loop")
    assert not is_closed(loop)


LOCKS = sorted([*ROOT.glob("requirements*.lock"), *ROOT.glob("tools/*.lock")])
# Tracked files that are not text: pictures, recorded streams, findings of fuzzing.
BINARY_SUFFIXES = {".png", ".gz"}
SEEDS = PurePath("tests/fuzz")


def test_every_installed_package_is_locked() -> None:
    names = {str(path.relative_to(ROOT)) for path in LOCKS}
    assert names == {
        "requirements.lock", "requirements.counterparts.lock", "requirements.run.lock",
        "requirements.s3.lock", "requirements.docs.lock", "tools/sbom.lock",
    }  # fmt: skip
    for script in ("tools/setup.sh", "tools/sbom", "check"):
        assert "--require-hashes" in (ROOT / script).read_text()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_locked_dependency_has_its_hashes(lock: Path) -> None:
    """pip requires one version, and hashes."""
    text = lock.read_text().replace("\\\n", " ")
    pinned = [line for line in text.splitlines() if line and line[0] not in "# -"]
    assert len(pinned) > 20
    for line in pinned:
        assert re.match(r"[A-Za-z0-9._\[\]-]+==\S+", line), line
        assert "--hash=sha256:" in line, line


def test_no_binary_is_tracked() -> None:
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("no git, or no repository here")
    names = [PurePath(os.fsdecode(one)) for one in listed.stdout.split(b"\0") if one]
    assert len(names) > 500
    others = [name for name in names if SEEDS not in name.parents]
    found = [
        name for name in others if name.suffix not in BINARY_SUFFIXES and is_binary(ROOT / name)
    ]
    assert not found


def is_binary(path: Path) -> bool:
    """Return True for a file that is not text; False for a file that was just removed."""
    return path.is_file() and b"\0" in path.read_bytes()


def test_package_or_program_would_be_found(tmp_path: Path) -> None:
    assert is_binary(Path(sys.executable))
    package = tmp_path / "x.deb"
    package.write_bytes(b"!<arch>\ndebian-binary   \0\0")
    assert is_binary(package) and package.suffix not in BINARY_SUFFIXES


def test_bill_of_materials_has_the_libraries_of_the_engine(tmp_path: Path) -> None:
    bill = tmp_path / "bill.json"
    bill.write_text('{"components": [{"bom-ref": "requirements-L1", "name": "x"}]}')
    subprocess.run([sys.executable, ROOT / "tools/sbom-engine", bill], check=True)
    components = {one["name"]: one for one in json.loads(bill.read_text())["components"]}
    assert "x" in components
    for name in ("zlib", "liburing", "libdpdk"):
        if subprocess.run(["pkg-config", "--exists", name], check=False).returncode == 0:
            assert re.match(r"\d+\.", components[name]["version"]), components[name]
            assert components[name].get("purl", "pkg:deb/").startswith("pkg:deb/")


@pytest.mark.skipif(not BILL.exists(), reason="./check has not made the bill of materials")
def test_bill_of_materials_has_all_locked_packages() -> None:
    """tools/sbom validates it by the schema of the standard."""
    found = json.loads(BILL.read_text())
    assert found["bomFormat"] == "CycloneDX" and len(found["components"]) > 90


def test_switches_declare_capabilities_of_their_port_kinds() -> None:
    """SECURITY.md has a row for each; a switch without a declaration runs no program."""
    text = (ROOT / "SECURITY.md").read_text()
    for name, switch in SWITCHES.items():
        capabilities = switch().capabilities
        if (declared := capabilities.linux_capabilities) is not None:
            kinds = {*capabilities.port_kinds, *capabilities.application_ports}
            assert set(declared) == kinds, name
            assert f"`{name}`" in text, name
        else:
            assert not issubclass(switch, ProgramSwitch | OvsSwitch | BasicForwarder)


def test_files_that_switches_write_are_listed() -> None:
    rows = [line for line in (ROOT / "SECURITY.md").read_text().splitlines() if line[:1] == "|"]
    for name, switch in SWITCHES.items():
        for place in switch().capabilities.writes or ():
            assert any(f"`{name}`" in row and f"`{place}`" in row for row in rows), (name, place)


def test_instruments_declare_capabilities_of_port_kinds() -> None:
    text = (ROOT / "SECURITY.md").read_text().lower()
    for name, instrument in INSTRUMENTS.items():
        abilities = instrument().abilities
        if (declared := abilities.linux_capabilities) is not None:
            assert set(declared) == set(abilities.ports), name
        assert name.removesuffix("-dpdk") in text, name


def test_dropped_capabilities_of_the_bench_are_listed() -> None:
    text = " ".join((ROOT / "SECURITY.md").read_text().split())
    assert ", ".join(f"`{name}`" for name in sorted(NEVER)) in text


def test_files_that_the_page_names_exist() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    named = set(re.findall(r"`([\w./-]+\.(?:py|c|h))`", text))
    folders = (ROOT / name for name in ("engine", "switchmark", "tests"))
    files = [path.as_posix() for folder in folders for path in folder.rglob("*.*")]
    assert len(named) > 15
    assert [name for name in named if not any(file.endswith(f"/{name}") for file in files)] == []
