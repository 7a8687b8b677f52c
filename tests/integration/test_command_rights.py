"""The capabilities that each command keeps when root starts it from a shell; commands that measure
nothing keep none."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from switchmark.cli.main import COMMANDS
from switchmark.cli.rights import Keeps
from switchmark.host.kernel.capabilities import FILES, LISTENING, NEEDED, NEVER, is_closed
from tests.integration.machine import needs_root
from tests.unit.records import quick_records, write_run

pytestmark = [pytest.mark.integration, needs_root]

ROOT = Path(__file__).parents[2]
NOBODY = 65534
# The command line up to the start of the command; it prints the capabilities of the process.
TELL = """
import sys
from switchmark.cli import main
main.run = lambda args: print(open("/proc/self/status").read()) or 0
main.main()
"""
# The command line with all capabilities of root.
UNTOUCHED = "import sys; from switchmark.cli import main; sys.exit(main.run(sys.argv[1:]))"


def python(
    code: str, args: Sequence[str], cwd: Path, **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *args], cwd=cwd, stdin=subprocess.DEVNULL, timeout=120,
        env={**os.environ, "HOME": "/", "PYTHONPATH": str(ROOT), **env}, check=False,
        capture_output=True, text=True,
    )  # fmt: skip


def status(cwd: Path, *args: str, **env: str) -> dict[str, int]:
    done = python(TELL, args, cwd, **{"PATH": os.defpath, "SWITCHMARK_TRAFFIC": "", **env})
    found = re.findall(r"^(Cap\w+|NoNewPrivs):\t(\w+)$", done.stdout, re.M)
    assert len(found) == 6, done.stderr
    return {name: int(value, 16) for name, value in found}


def mask(numbers: Sequence[int] | dict[str, int]) -> int:
    return sum(1 << one for one in (numbers.values() if isinstance(numbers, dict) else numbers))


# No capabilities, except to read the program's files if their owner has closed the folder.
NOTHING = mask(FILES) if is_closed(ROOT) or is_closed(sys.prefix) else 0


def has_only(granted: dict[str, int], expected: int) -> bool:
    sets = (granted["CapEff"], granted["CapPrm"], granted["CapBnd"])
    return (
        set(sets) == {expected}
        and not granted["CapInh"] | granted["CapAmb"]
        and granted["NoNewPrivs"] == 1
    )


@pytest.mark.parametrize(
    "name",
    [one for one, has in COMMANDS.items() if has.keeps in (Keeps.FILES, Keeps.REPORTS_PLACE)],
)
def test_command_without_measurement_keeps_nothing(name: str, tmp_path: Path) -> None:
    assert has_only(status(tmp_path, name), NOTHING)


def test_listening_command_may_use_any_port(tmp_path: Path) -> None:
    assert has_only(status(tmp_path, "pool", "serve"), mask(LISTENING) | NOTHING)


@pytest.mark.parametrize(
    "arguments",
    [(), ("--version",), ("nonsense",), ("run", "--help"), ("reproduce", "all", "--list"),
     ("reproduce", "ara2021", "--only-report")],
)  # fmt: skip
def test_command_that_only_prints_keeps_nothing(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert has_only(status(tmp_path, *arguments), NOTHING)


@pytest.mark.parametrize(
    "name", [name_of_set for name_of_set, has in COMMANDS.items() if has.keeps is Keeps.BENCH]
)
def test_a_bench_keeps_what_a_bench_uses(name: str, tmp_path: Path) -> None:
    granted, all_ = status(tmp_path, name), status(tmp_path, "serve")
    for name_of_set in ("CapEff", "CapPrm", "CapBnd"):
        assert granted[name_of_set] == all_[name_of_set] & ~mask(NEVER)
    assert granted["CapBnd"] != all_["CapBnd"]


@pytest.mark.parametrize(
    "place",
    ["cwd", "home", "results", "--html", "-o", "key", "parent", "store", "setting", "PATH"],
)
def test_files_of_others_take_one(place: str, tmp_path: Path) -> None:
    """As where root reports in a user's folder."""
    foreign = tmp_path / "theirs"
    foreign.mkdir()
    os.chown(foreign, NOBODY, NOBODY)
    files = mask(FILES)
    match place:
        case "cwd":
            assert has_only(status(foreign, "show"), files)
        case "home":
            assert has_only(status(tmp_path, "show", HOME=str(foreign)), files)
        case "results":
            assert has_only(status(tmp_path, "show", "--results", str(tmp_path)), files)
            assert has_only(status(tmp_path, "show", f"--results={tmp_path}"), files)
        case "--html":
            assert has_only(status(tmp_path, "report", f"--html={foreign}/new/a.html"), files)
        case "-o":
            assert has_only(status(tmp_path, "show", f"-o{foreign}/a.csv"), files)
        case "key":
            assert has_only(status(tmp_path, "plan", f"program={foreign}/ovs"), files)
            assert has_only(status(tmp_path, "plan", f"(V=ovs-dpdk, program={foreign}/ovs)"), files)
        case "setting":
            assert has_only(status(tmp_path, "list", SWITCHMARK_TRAFFIC=str(foreign)), NOTHING)
            foreign.chmod(0o700)
            assert has_only(status(tmp_path, "list", SWITCHMARK_TRAFFIC=f"{foreign}/engine"), files)
        case "PATH":
            foreign.chmod(0o700)
            assert has_only(status(tmp_path, "list", PATH=f"{os.defpath}:{foreign}"), files)
        case "parent":
            (foreign / "own").mkdir()
            assert has_only(status(foreign / "own", "show"), NOTHING)
            foreign.chmod(0o700)
            assert has_only(status(foreign / "own", "show"), files)
        case _:
            assert has_only(status(tmp_path, "store", "push", "--store", "x"), files)
            assert has_only(status(tmp_path, "show", "postgresql://a/b/c"), files)
            assert has_only(status(tmp_path, "store", SWITCHMARK_STORE="postgresql://a/b"), files)


@pytest.mark.parametrize("text", ["{}/ovs", "[ovs, {}/ovs]", "'{}/ovs'", "{} of others/ovs"])
def test_file_that_names_foreign_files_takes_file_rights(text: str, tmp_path: Path) -> None:
    """A campaign names programs, a testbed keys; paths begin at the file's folder."""
    foreign = tmp_path / ("its of others" if "of others" in text else "its")
    own_folder = tmp_path / "own"
    for folder in (foreign, own_folder):
        folder.mkdir()
    os.chown(foreign, NOBODY, NOBODY)
    (own_folder / "plain.yaml").write_text("switch: ovs-dpdk  # and/or others\n")
    assert has_only(status(tmp_path, "plan", "own/plain.yaml"), NOTHING)
    for its in (tmp_path / "its", "../its"):
        (own_folder / "a.yaml").write_text(f"switch: ovs-dpdk\nprogram: {text.format(its)}\n")
        assert has_only(status(tmp_path, "plan", "own/a.yaml"), mask(FILES))


def test_plan_finds_program_of_its_file_in_a_closed_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    program = home / "testpmd"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o700)
    for path in (program, home):
        os.chown(path, NOBODY, NOBODY)
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "a.yaml").write_text(f"switch: testpmd\nprogram: {program}\n")
    results = [python(code, ("plan", "a.yaml"), folder) for code in
            ("from switchmark.cli.main import main; main()", UNTOUCHED)]  # fmt: skip
    assert "does not exist" not in results[1].stdout + results[1].stderr
    assert (results[0].stdout, results[0].stderr) == (results[1].stdout, results[1].stderr)


def test_an_argument_may_be_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert has_only(status(tmp_path, "show", "loop"), NOTHING)


def test_removed_working_directory_keeps_file_rights_only(tmp_path: Path) -> None:
    """The owner of the files is unknown then, so all other capabilities are dropped."""
    (tmp_path / "gone").mkdir()
    code = "import os\nos.rmdir(os.getcwd())\n" + TELL
    done = python(code, ["show"], tmp_path / "gone", PATH=os.defpath)
    assert f"CapEff:\t{mask(FILES):016x}\n" in done.stdout, done.stderr


def test_program_in_a_closed_home_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    """A user has installed the program privately, and root is in another folder."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copytree(ROOT / "switchmark", home / "switchmark")
    os.chown(home, NOBODY, NOBODY)
    home.chmod(0o700)
    arguments = ("show", "--help")
    done = python("from switchmark.cli.main import main; main()", arguments, tmp_path,
                  PYTHONPATH=str(home))  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "--results" in done.stdout


def test_list_shows_an_account_what_it_could_measure(tmp_path: Path) -> None:
    """A command that only prints drops its capabilities, but prints what a bench with them can
    do."""
    ambient = ",".join(["-all", *(f"+{name}" for name in NEEDED)])
    account = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
               "--inh-caps", ambient, "--ambient-caps", ambient]  # fmt: skip
    code = (
        "from switchmark.cli import main\n"
        "from switchmark.host import place\n"
        "from switchmark.host.kernel import capabilities\n"
        "has = lambda: capabilities._needed(capabilities._set('CapAmb'))\n"
        "able = lambda: place.can(place.Facility.NETWORK_NAMESPACE).available\n"
        "main.run = lambda args: print(able(), has()) or 0\n"
        "main.main()"
    )
    done = subprocess.run(
        [*account, sys.executable, "-c", code, "list"], cwd=tmp_path, check=False,
        env={**os.environ, "HOME": "/", "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "True False\n", done.stderr


READING = [
    ("list", "--json"),
    ("plan", "(D=latency, V={linux-bridge, ovs-dpdk}, R=1k)", "--diagram"),
    ("reproduce", "bonafiglia2015", "--list"),
    ("show", "--full"),
    ("history", "synthetic"),
    ("compare", "synthetic", "other"),
]


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_output_is_the_same_as_with_all_rights(arguments: tuple[str, ...], tmp_path: Path) -> None:
    write_run(tmp_path / "results", quick_records())
    write_run(tmp_path / "results", quick_records(), "other")
    reduced = python("from switchmark.cli.main import main; main()", arguments, tmp_path)
    full = python(UNTOUCHED, arguments, tmp_path)
    assert (reduced.returncode, reduced.stderr) == (full.returncode, full.stderr)
    # Free memory and disk space change between the two calls.
    amounts = re.compile(r"\d+ [KMGT]iB")
    assert amounts.sub("", reduced.stdout) == amounts.sub("", full.stdout)
    assert reduced.stdout or reduced.returncode == 2


def test_a_report_is_written_into_a_folder_of_another_user(tmp_path: Path) -> None:
    write_run(tmp_path / "results", quick_records())
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)
    arguments = ("report", "--html", str(folder / "a.html"))
    done = python("from switchmark.cli.main import main; main()", arguments, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (folder / "a.html").stat().st_size > 10_000


# Calls that need a capability, but change nothing: with it they fail with another error.
CALLS = {
    "sys_boot": "reboot(1)",
    "sys_pacct": 'acct(b"/nowhere/at/all")',
    "sys_time": "adjtimex(bad_tick)",
    "syslog": "klogctl(9, None, 0)",
    "wake_alarm": "timerfd_create(8, 0)",
    "lease": "fcntl(theirs, 1024, 0)",
}
REFUSED = """
import ctypes, json, os, sys
from switchmark.host.kernel import capabilities
if sys.argv[1] == "unused":
    capabilities.drop_unused()
c = ctypes.CDLL(None, use_errno=True)
theirs = os.open(sys.argv[2], os.O_RDONLY)
bad_tick = (ctypes.c_long * 64)(0x4000)
said = {}
for name, call in json.loads(sys.argv[3]).items():
    ctypes.set_errno(0)
    said[name] = ctypes.get_errno() if eval("c." + call) < 0 else 0
print(json.dumps(said))
"""


def refused(which: str, path: Path) -> dict[str, int]:
    args = (which, str(path), json.dumps(CALLS))
    return dict(json.loads(python(REFUSED, args, path.parent).stdout))


def test_kernel_refuses_calls_without_the_capability(tmp_path: Path) -> None:
    foreign = tmp_path / "theirs"
    foreign.touch()
    os.chown(foreign, NOBODY, NOBODY)
    without, with_all = refused("unused", foreign), refused("nothing", foreign)
    assert CALLS.keys() <= NEVER.keys()
    shown = [name for name in CALLS if with_all[name] != errno.EPERM]
    assert [name for name in shown if without[name] not in (errno.EPERM, errno.EACCES)] == []
    assert len(shown) >= 4, with_all
