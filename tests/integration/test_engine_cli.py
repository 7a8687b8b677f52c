"""The engine on its command line: its listed features, its manual, and its errors without
memory."""

from __future__ import annotations

import json
import os
import re
import resource
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.engine.io_table import MODULE, ports_page, table
from switchmark.host.place import Facility
from tests.integration.dpdk_rig import find_engine
from tests.integration.waiting import until
from tests.places import reason_to_skip

PAGE = Path(__file__).parents[2] / "docs" / "engine-protocol.md"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(find_engine() is None, reason="switchmark-traffic is not built"),
]


def engine(*args: str, limit: tuple[int, int] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the engine to its end with a resource limit (resource and value)."""

    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if limit is not None:
            resource.setrlimit(limit[0], (limit[1], limit[1]))

    return subprocess.run(
        [str(find_engine()), *args],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=30,
        check=False,
        preexec_fn=prepare,
    )


def test_list_has_backends_and_reasons_of_missing_ones() -> None:
    listed = json.loads(engine("list", "--json").stdout)
    present = {backend["name"] for backend in listed["backends"]}
    missing = {backend["name"]: backend["reason"] for backend in listed["missing"]}
    assert {"udp", "raw", "null"} <= present
    assert "dpdk" in present or "libdpdk" in missing["dpdk"]
    assert not present & set(missing)
    assert {role["name"] for role in listed["roles"]} >= {"sender", "receiver", "tester"}
    text = engine("list").stdout
    assert all(name in text for name in present | set(missing))


def test_bench_and_page_match_the_list_of_the_engine() -> None:
    listed = json.loads(engine("list", "--json").stdout)
    assert MODULE.read_text() == table(listed), "run: python -m switchmark.engine.io_table"
    assert ports_page(listed) in PAGE.read_text(), "paste the output of ports_page"


def test_page_has_every_option_and_help_every_command() -> None:
    help_text, page = engine("--help").stdout, PAGE.read_text()
    options = re.findall(r"^  (--[a-z-]+)", help_text, re.MULTILINE)
    assert len(options) > 20
    assert [one for one in options if not re.search(rf"{one}(?![a-z-])", page)] == []
    of_commands = page.partition("## Commands on")[2].partition("\n## ")[0]
    commands = re.findall(r"^\| `([a-z-]+)[ `]", of_commands, re.MULTILINE)
    assert "start" in commands
    commands_text = help_text.rpartition("Commands on standard input:")[2].partition("Events are")[
        0
    ]
    assert set(commands) <= set(re.findall(r"[a-z-]+", commands_text))


def test_manual_has_every_option_of_the_help() -> None:
    help_text, manual = engine("--help").stdout, engine("--man").stdout
    options = set(re.findall(r"^  (--[a-z-]+)", help_text, re.MULTILINE))
    assert len(options) > 20
    assert manual.startswith(".TH SWITCHMARK")
    in_manual = set(re.findall(r"\\fB(\\-\\-(?:[a-z]|\\-)+)", manual))
    assert {name.replace("\\-", "-") for name in in_manual} == options
    assert "Examples:" in help_text
    assert ".SH EXAMPLES" in manual


NULL = ("sender", "--port", "null:", "--duration", "0.01", "--start", "now")
QUEUES = (*NULL, "--queues", "16")
DPDK = ("sender", "--port", "dpdk:vdev=net_null0", "--dst-mac", "02:00:00:00:00:01")
DPDK += ("--duration", "0.01", "--start", "now")
LIMITS_MB = [24, 32, 48, 64, 96, 128, 256, 1024, 4096, 65536]


@pytest.mark.parametrize("args", [NULL, QUEUES, DPDK], ids=["null", "queues", "dpdk"])
def test_lack_of_memory_is_an_error_message(args: tuple[str, ...]) -> None:
    outcomes = set()
    for limit_mb in LIMITS_MB:
        done = engine(*args, limit=(resource.RLIMIT_AS, limit_mb << 20))
        assert_said(done, f"{limit_mb} MB")
        outcomes.add(done.returncode)
    if args is not DPDK:  # DPDK reserves more address space than these limits
        assert 0 in outcomes


@pytest.mark.parametrize("args", [NULL, DPDK], ids=["null", "dpdk"])
def test_lack_of_file_descriptors_is_an_error_message(args: tuple[str, ...]) -> None:
    for files in (4, 5, 6, 7, 8, 10, 12, 16, 24):
        assert_said(engine(*args, limit=(resource.RLIMIT_NOFILE, files)), f"{files} files")


def memory_groups() -> Path | None:
    """Return the folder for memory groups (version 1, or a root that delegates the controller)."""
    version1, version2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    if (version1 / "memory.limit_in_bytes").exists():
        return version1
    handed = version2 / "cgroup.subtree_control"
    return version2 if handed.exists() and "memory" in handed.read_text().split() else None


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A control group of 64 MB."""
    parent = memory_groups()
    if parent is None:
        pytest.skip("no memory controller here")
    if (reason := reason_to_skip(Facility.CONTROL_GROUPS)) is not None:
        pytest.skip(reason)
    group = parent / f"switchmark-test-{os.getpid()}"
    group.mkdir()
    limit = "memory.limit_in_bytes" if "memory" in parent.name else "memory.max"
    (group / limit).write_text(str(64 << 20))
    yield group
    until(lambda: not (group / "cgroup.procs").read_text(), "the group is empty")
    group.rmdir()


TOO_MUCH = {
    "replay": "sender --port null: --replay {}",
    "file": "receiver --port pcap:read={}",
    "queue": "reference --port null: --port null: --queue 1048576",
}


@pytest.mark.slow
@pytest.mark.parametrize("amount", TOO_MUCH)
def test_memory_beyond_the_group_is_an_error_message(
    small_group: Path, tmp_path: Path, amount: str
) -> None:
    """The kernel would grant it, and kill the process at the first access."""
    large = tmp_path / "large.pcap"
    large.write_bytes(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
    os.truncate(large, 100 << 20)
    command = ["exec", str(find_engine()), TOO_MUCH[amount].format(large)]
    inside = f"echo $$ > {small_group}/cgroup.procs && {' '.join(command)} --start now"
    done = subprocess.run(
        ["sh", "-c", inside], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert_said(done, amount)
    assert done.returncode in (1, 2)
    assert re.search("would take [0-9]+ MB of memory, and the .*group leaves [0-9]+$", done.stderr)


def assert_said(done: subprocess.CompletedProcess[str], when: str) -> None:
    """Check that it worked or that one line explains the failure; it never crashes."""
    assert done.returncode in (0, 1, 2, 127), (when, done)  # 127: no memory for its libraries
    if done.returncode in (1, 2):
        assert len(done.stderr.strip().splitlines()) == 1, (when, done.stderr)


def test_manual_is_installed_beside_the_engine() -> None:
    path = find_engine()
    assert path is not None
    # `man` looks in both for a program in `bin` beside them; installers choose differently.
    top = path.resolve().parents[1]
    pages = [top / folder / "man1/switchmark-traffic.1" for folder in ("share/man", "man")]
    page = next((page for page in pages if page.exists()), pages[0])
    if not (path.resolve().parents[1] / "bin").is_dir():
        pytest.skip(f"{path} is not an installed engine")
    assert page.read_text() == engine("--man").stdout
    assert Path(page).stat().st_size > 2000
