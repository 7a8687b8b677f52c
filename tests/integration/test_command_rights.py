"""What of root's rights each command keeps when it is started from a shell, and that those which
measure nothing do without."""

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
# The command line up to where the command itself would begin; it says what the process may do.
TELL = """
import sys
from switchmark.cli import main
main.run = lambda args: print(open("/proc/self/status").read()) or 0
main.main()
"""
# The command line as it would be with all that root has.
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


# Root's rights without any, but for what it takes to load the program itself where its user keeps
# the folder of it to himself.
NOTHING = mask(FILES) if is_closed(ROOT) or is_closed(sys.prefix) else 0


def has_only(told: dict[str, int], kept: int) -> bool:
    sets = (told["CapEff"], told["CapPrm"], told["CapBnd"])
    return set(sets) == {kept} and not told["CapInh"] | told["CapAmb"] and told["NoNewPrivs"] == 1


@pytest.mark.parametrize(
    "name",
    [one for one, has in COMMANDS.items() if has.keeps in (Keeps.FILES, Keeps.REPORTS_PLACE)],
)
def test_what_measures_nothing_keeps_nothing(name: str, tmp_path: Path) -> None:
    assert has_only(status(tmp_path, name), NOTHING)


def test_what_listens_may_do_so_at_any_port(tmp_path: Path) -> None:
    assert has_only(status(tmp_path, "pool", "serve"), mask(LISTENING) | NOTHING)


@pytest.mark.parametrize(
    "words", [(), ("--version",), ("nonsense",), ("run", "--help"), ("reproduce", "all", "--list"),
              ("reproduce", "ara2021", "--only-report")],
)  # fmt: skip
def test_nor_does_what_only_tells(words: tuple[str, ...], tmp_path: Path) -> None:
    assert has_only(status(tmp_path, *words), NOTHING)


@pytest.mark.parametrize("name", [one for one, has in COMMANDS.items() if has.keeps is Keeps.BENCH])
def test_a_bench_keeps_what_a_bench_uses(name: str, tmp_path: Path) -> None:
    told, all_ = status(tmp_path, name), status(tmp_path, "serve")
    for one in ("CapEff", "CapPrm", "CapBnd"):
        assert told[one] == all_[one] & ~mask(NEVER)
    assert told["CapBnd"] != all_["CapBnd"]


@pytest.mark.parametrize(
    "place",
    ["cwd", "home", "results", "--html", "-o", "key", "parent", "store", "setting", "PATH"],
)
def test_files_of_others_take_one(place: str, tmp_path: Path) -> None:
    """As where root reports in a user's folder."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    kept = mask(FILES)
    match place:
        case "cwd":
            assert has_only(status(theirs, "show"), kept)
        case "home":
            assert has_only(status(tmp_path, "show", HOME=str(theirs)), kept)
        case "results":
            assert has_only(status(tmp_path, "show", "--results", str(tmp_path)), kept)
            assert has_only(status(tmp_path, "show", f"--results={tmp_path}"), kept)
        case "--html":
            assert has_only(status(tmp_path, "report", f"--html={theirs}/new/a.html"), kept)
        case "-o":
            assert has_only(status(tmp_path, "show", f"-o{theirs}/a.csv"), kept)
        case "key":
            assert has_only(status(tmp_path, "plan", f"program={theirs}/ovs"), kept)
            assert has_only(status(tmp_path, "plan", f"(V=ovs-dpdk, program={theirs}/ovs)"), kept)
        case "setting":
            assert has_only(status(tmp_path, "list", SWITCHMARK_TRAFFIC=str(theirs)), NOTHING)
            theirs.chmod(0o700)
            assert has_only(status(tmp_path, "list", SWITCHMARK_TRAFFIC=f"{theirs}/engine"), kept)
        case "PATH":
            theirs.chmod(0o700)
            assert has_only(status(tmp_path, "list", PATH=f"{os.defpath}:{theirs}"), kept)
        case "parent":
            (theirs / "own").mkdir()
            assert has_only(status(theirs / "own", "show"), NOTHING)
            theirs.chmod(0o700)
            assert has_only(status(theirs / "own", "show"), kept)
        case _:
            assert has_only(status(tmp_path, "store", "push", "--store", "x"), kept)
            assert has_only(status(tmp_path, "show", "postgresql://a/b/c"), kept)
            assert has_only(status(tmp_path, "store", SWITCHMARK_STORE="postgresql://a/b"), kept)


@pytest.mark.parametrize("text", ["{}/ovs", "[ovs, {}/ovs]", "'{}/ovs'", "{} of theirs/ovs"])
def test_files_name_those_of_others_too(text: str, tmp_path: Path) -> None:
    """A campaign names programs, a testbed keys, where a path begins at the file's folder."""
    theirs, own = tmp_path / ("its of theirs" if "of theirs" in text else "its"), tmp_path / "own"
    for folder in (theirs, own):
        folder.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    (own / "plain.yaml").write_text("switch: ovs-dpdk  # and/or others\n")
    assert has_only(status(tmp_path, "plan", "own/plain.yaml"), NOTHING)
    for its in (tmp_path / "its", "../its"):
        (own / "a.yaml").write_text(f"switch: ovs-dpdk\nprogram: {text.format(its)}\n")
        assert has_only(status(tmp_path, "plan", "own/a.yaml"), mask(FILES))


def test_plan_sees_a_program_in_a_closed_home_that_its_file_names(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    program = home / "testpmd"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o700)
    for path in (program, home):
        os.chown(path, NOBODY, NOBODY)
    own = tmp_path / "own"
    own.mkdir()
    (own / "a.yaml").write_text(f"switch: testpmd\nprogram: {program}\n")
    said = [python(code, ("plan", "a.yaml"), own) for code in
            ("from switchmark.cli.main import main; main()", UNTOUCHED)]  # fmt: skip
    assert "does not exist" not in said[1].stdout + said[1].stderr
    assert (said[0].stdout, said[0].stderr) == (said[1].stdout, said[1].stderr)


def test_an_argument_may_be_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert has_only(status(tmp_path, "show", "loop"), NOTHING)


def test_where_it_is_called_may_be_gone(tmp_path: Path) -> None:
    """It is not known then whose files it works with; all else is given up."""
    (tmp_path / "gone").mkdir()
    code = "import os\nos.rmdir(os.getcwd())\n" + TELL
    done = python(code, ["show"], tmp_path / "gone", PATH=os.defpath)
    assert f"CapEff:\t{mask(FILES):016x}\n" in done.stdout, done.stderr


def test_a_program_in_a_closed_home_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    """As where a user has installed it for himself, and root is in a folder of its own."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copytree(ROOT / "switchmark", home / "switchmark")
    os.chown(home, NOBODY, NOBODY)
    home.chmod(0o700)
    words = ("show", "--help")
    done = python("from switchmark.cli.main import main; main()", words, tmp_path,
                  PYTHONPATH=str(home))  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "--results" in done.stdout


def test_an_account_is_told_what_it_could_measure(tmp_path: Path) -> None:
    """What only tells gives its capabilities up; what it says is of a bench that has them."""
    own = ",".join(["-all", *(f"+{name}" for name in NEEDED)])
    account = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
               "--inh-caps", own, "--ambient-caps", own]  # fmt: skip
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


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_they_say_what_they_would_say_with_all_rights(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    write_run(tmp_path / "results", quick_records())
    write_run(tmp_path / "results", quick_records(), "other")
    own = python("from switchmark.cli.main import main; main()", words, tmp_path)
    full = python(UNTOUCHED, words, tmp_path)
    assert (own.returncode, own.stderr) == (full.returncode, full.stderr)
    assert own.stdout == full.stdout
    assert own.stdout or own.returncode == 2


def test_a_report_is_written_into_a_folder_of_another_user(tmp_path: Path) -> None:
    write_run(tmp_path / "results", quick_records())
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, NOBODY, NOBODY)
    words = ("report", "--html", str(theirs / "a.html"))
    done = python("from switchmark.cli.main import main; main()", words, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (theirs / "a.html").stat().st_size > 10_000


# Calls that take a capability, and change nothing where it is there: they ask for what is not.
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


def test_the_kernel_refuses_what_was_given_up(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.touch()
    os.chown(theirs, NOBODY, NOBODY)
    without, with_all = refused("unused", theirs), refused("nothing", theirs)
    assert CALLS.keys() <= NEVER.keys()
    shown = [name for name in CALLS if with_all[name] != errno.EPERM]
    assert [name for name in shown if without[name] not in (errno.EPERM, errno.EACCES)] == []
    assert len(shown) >= 4, with_all
