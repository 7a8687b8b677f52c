"""Machines, neighbours and shells as they are found: odd names, streams and files."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from switchmark.campaign.find import find_campaign
from switchmark.cli import main as cli
from switchmark.environment.vm.packages import kernel_at_hand
from switchmark.errors import SwitchmarkError, UsageError
from switchmark.formatting import printable
from switchmark.host.cores import cpu_time
from switchmark.host.kernel import mounts
from switchmark.host.kernel.procfs import ProcessIdentity
from switchmark.host.session import open_session
from switchmark.host.undo import ledger as ledgers
from switchmark.host.undo.clean import clean_stale
from switchmark.host.undo.entries import File
from switchmark.host.undo.ledger import Ledger
from switchmark.model.campaign import Published
from switchmark.model.parameter_type import Known
from switchmark.results.documents import read_record
from switchmark.results.durable import file_content
from switchmark.results.find import list_runs
from switchmark.results.run_directory import Run, open_run
from switchmark.switch.registry import SWITCHES
from switchmark.version import full_version
from tests.unit.records import synthetic_trial

BENCH = [sys.executable, "-m", "switchmark.cli.main"]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = Path(f"/tmp/sm-odd-{os.getpid()}-{time.monotonic_ns() % 10**9}")
    monkeypatch.setenv("SWITCHMARK_STATE_DIR", str(folder))
    monkeypatch.setattr(cpu_time, "_ksoftirqd", cpu_time._ksoftirqd.__wrapped__)
    return folder


def bench(*args: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BENCH, *args], capture_output=True, text=True, check=False, timeout=300, **more
    )


LOADED_WITHOUT_DESCRIPTORS = """
import resource
from switchmark.__main__ import main
from switchmark.atomic_files import write_atomically
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
main()
"""


def test_lack_of_descriptors_at_load_is_reported() -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOADED_WITHOUT_DESCRIPTORS, "--version"],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    message = "switchmark: cannot be loaded: Too many open files; raise the limit (ulimit -n)\n"
    assert (run.returncode, run.stdout, run.stderr) == (3, "", message)


def test_a_process_may_be_called_anything(tmp_path: Path) -> None:
    program = os.fsencode(tmp_path) + b"/\xff\xfe)"
    Path(os.fsdecode(program)).symlink_to("/bin/sleep")
    process = subprocess.Popen([program, "30"])
    try:
        while ProcessIdentity.of(process.pid) is None or not Path(
            f"/proc/{process.pid}/comm"
        ).read_bytes().startswith(b"\xff"):
            assert process.poll() is None
            time.sleep(0.001)
        assert isinstance(cpu_time._ksoftirqd.__wrapped__(), tuple)
        identity = ProcessIdentity.of(process.pid)
        assert identity is not None and identity.alive()
    finally:
        process.kill()
        process.wait()


def test_a_mount_point_may_be_called_anything() -> None:
    line = b"40 25 0:9 / /mnt/\xff\\040a\\134b\xc3\xa9 rw - tmpfs tmpfs rw,mode=755\n"
    (found,) = mounts.read_mounts(line)
    assert os.fsencode(found.point) == b"/mnt/\xff a\\b\xc3\xa9"
    assert (found.kind, found.options) == ("tmpfs", ("rw", "mode=755"))


def test_cron_s_path_finds_the_administrator_s_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    cli._prepare()
    assert os.environ["PATH"].split(":") == ["/usr/bin", "/bin", *cli.ADMIN_FOLDERS]


@pytest.mark.parametrize(
    "args",
    [
        ("show", "x" * 300),
        ("report", "x" * 300),
        ("run", "x" * 300),
        ("run", "x" * 300 + ".yaml"),
        ("plan", "x" * 300),
        ("compare", "x" * 300, "y"),
        ("show", "--results", "r" * 300),
    ],
)
def test_a_name_that_is_too_long_is_a_line(args: tuple[str, ...]) -> None:
    done = bench(*args)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) <= 2


def test_campaign_that_is_not_utf8_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_bytes(b"name: \xff\xfe\n")
    for command in ("plan", "run"):
        done = bench(command, str(tmp_path / "bad.yaml"))
        assert done.returncode == 2 and "Traceback" not in done.stderr
        assert "bad.yaml" in done.stderr


def test_a_long_notation_can_be_run(tmp_path: Path) -> None:
    text = "(V=linux-bridge, P={" + ", ".join(str(size) for size in range(64, 164)) + "})"
    done = bench("run", text, "--set", "packet_size=nonsense", "--results", str(tmp_path))
    assert done.returncode == 2 and "nonsense" in done.stderr and "Traceback" not in done.stderr


def test_closed_or_ascii_streams_are_accepted() -> None:
    closed = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *BENCH, "list", "methods"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert closed.returncode == 0, closed.stderr
    ascii_only = bench("list", env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert ascii_only.returncode == 0, ascii_only.stderr


def test_full_standard_error_does_not_stop_the_command() -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*BENCH, "show", "nothing-of-that-name"], stderr=full, check=False, timeout=300,
            env=buffered,
        )  # fmt: skip
    assert done.returncode == 2


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert printable("a\x1b[31mred\x9b\u202e\tb\n") == "a\\x1b[31mred\\x9b\\u202e\tb\n"
    done = bench("show", "evil\x1b]0;title\x07")
    assert done.returncode == 2 and "\x1b" not in done.stderr and "\\x1b]0;title" in done.stderr


def test_a_state_folder_that_others_may_write_is_refused(state: Path) -> None:
    state.mkdir()
    state.chmod(0o777)
    with pytest.raises(UsageError, match="others may write it"), open_session(measuring=False):
        pass
    state.rmdir()
    old = os.umask(0)
    try:
        with open_session(measuring=False):
            assert state.stat().st_mode & 0o777 == 0o755
    finally:
        os.umask(old)
    assert list(state.iterdir()) == []
    state.rmdir()


def test_a_state_folder_that_is_none_is_a_line(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.write_text("a file")
    with pytest.raises(UsageError, match="name another"), open_session(measuring=False):
        pass
    state.unlink()
    monkeypatch.setenv("SWITCHMARK_STATE_DIR", "/proc/sm")
    with pytest.raises(UsageError, match="name another"), open_session(measuring=False):
        pass
    monkeypatch.setenv("SWITCHMARK_STATE_DIR", "/tmp/with space")
    with pytest.raises(UsageError, match="letters, digits"), open_session(measuring=False):
        pass


def test_planted_ledger_is_ignored(state: Path, tmp_path: Path) -> None:
    state.mkdir(mode=0o755)
    precious = tmp_path / "precious"
    precious.write_text("x")
    path = state / f"abc123{ledgers.SUFFIX}"
    owner = {"v": 1, "session": "abc123", "pid": 1, "start_ticks": 0, "boot_id": "x",
             "command": "c", "opened_at": "2026-01-01T00:00:00+00:00"}  # fmt: skip
    path.write_text(f'{json.dumps(owner)}\n{{"made": 1, "kind": "file", "path": "{precious}"}}\n')
    path.chmod(0o666)
    with pytest.raises(SwitchmarkError, match="others may write it"):
        clean_stale()
    assert precious.exists()
    path.unlink()
    state.rmdir()


def test_clean_of_an_unreadable_state_folder_is_refused(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`Path.glob` finds nothing in such a folder, and reports no error."""
    refusal = PermissionError(errno.EACCES, "Permission denied", str(state))
    monkeypatch.setattr(Path, "iterdir", Mock(side_effect=refusal))
    assert cli.run(["clean"]) == 3
    assert capsys.readouterr().err == (
        f"switchmark: clean: {state}: Permission denied; use the account of that run, for root: "
        "sudo switchmark clean\n"
    )


@pytest.mark.parametrize(
    "line",
    ["5", "null", "[]", '{"made": "x"}', '{"made": 1, "kind": "file", "path": 5}', '"made"',
     '{"undone": {}}'],
)  # fmt: skip
def test_a_ledger_line_of_nonsense_blocks_nothing(state: Path, line: str) -> None:
    state.mkdir(mode=0o755)
    path = state / f"abc123{ledgers.SUFFIX}"
    owner = {"v": 1, "session": "abc123", "pid": 1, "start_ticks": 0, "boot_id": "x",
             "command": "c", "opened_at": "2026-01-01T00:00:00+00:00"}  # fmt: skip
    for first in (line, json.dumps(owner)):
        path.write_text(f"{first}\n{line}\n")
        path.chmod(0o600)
        clean_stale()
        with open_session(measuring=False):
            pass
    path.unlink(missing_ok=True)
    state.rmdir()


def test_a_ledger_that_cannot_be_written_lets_nothing_be_made(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "state", "abc123")
    page_path = [ledger.record(File(str(tmp_path / "one")))]
    size = ledger.path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))
    try:
        with pytest.raises(SwitchmarkError, match="nothing may be made"):
            ledger.record(File(str(tmp_path / "two")))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    page_path.append(ledger.record(File(str(tmp_path / "three"))))
    assert sorted(ledgers.read(ledger.path).entries) == page_path
    ledger.undo_all()
    ledger.close()


def test_a_pipe_among_the_records_hangs_nobody(tmp_path: Path) -> None:
    pipe = tmp_path / "0123456789abcdef.json"
    os.mkfifo(pipe)
    with pytest.raises(SwitchmarkError, match="not a regular file"):
        read_record(pipe)


def test_a_corrupt_run_hides_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text("{")
    assert list_runs(tmp_path) == []
    assert "bad/run.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("definition", {"published": 5}),
        ("definition", {"published": [{"match": 1}]}),
        ("definition", {"published": [{"match": {}, "value": "nan", "unit": "pps", "source": ""}]}),
        ("definition", {"repetitions": "many"}),
        ("definition", {"until_ci": [1], "max_repetitions": 10**30}),
        ("definition", {"prove": "x"}),
        ("definition", {"budget_s": 1e300}),
        ("settings", {"set": 5}),
    ],
)
def test_a_hostile_run_is_refused_by_name(tmp_path: Path, key: str, value: object) -> None:
    with a_run(tmp_path) as run:
        path = run.directory / "run.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
        with pytest.raises(SwitchmarkError, match=r"run\.json: cannot be read as a result"):
            open_run(run.directory)


def test_a_published_figure_of_unknown_fields_matches_nothing() -> None:
    figure = {"value": 1, "unit": "pps", "source": "s"}
    for match in ({"model_dump": 5}, {"nothing": None}, {"switch": None}):
        assert not Published.model_validate({**figure, "match": match}).matches(synthetic_trial())


@pytest.mark.parametrize("word", ["x", "-1", "99999999999", "1..0"])
def test_the_repetition_of_a_notation_is_read(word: str) -> None:
    with pytest.raises(UsageError, match="repetition"):
        find_campaign(f"(V=linux-bridge, repetition={word})", Known())


def a_run(root: Path) -> Run:
    return Run.create(root, campaign="odd", campaign_text="x", definition={}, settings={}, host={})


class PanicException(BaseException):
    """As libraries in Rust raise it through pyo3."""


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("can't start new thread"),
        PanicException("could not spawn threads: ThreadPoolBuildError"),
        BlockingIOError(11, "Resource temporarily unavailable"),
    ],
)
def test_a_limit_of_processes_is_a_line(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **_more: object) -> None:
        raise error

    monkeypatch.setattr(cli, "build", lambda: fails)
    assert cli.run(["show"]) in (1, 3)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("switchmark: ")
    error = KeyError("a mistake in the bench")
    with pytest.raises(KeyError):
        cli.run(["show"])


def test_an_interrupt_while_it_loads_ends_it_without_a_word(tmp_path: Path) -> None:
    """A Ctrl-C that meets the first library it loads: no traceback."""
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    root = Path(cli.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "switchmark", "--help"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{root}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_it_runs_as_a_module() -> None:
    root = Path(cli.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "switchmark", "--version"],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.strip().endswith(full_version())


def test_a_file_that_is_larger_than_any_record_is_not_read(tmp_path: Path) -> None:
    huge = tmp_path / "0123456789abcdef.json"
    with huge.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(SwitchmarkError, match="1024 GiB, too large for a result"):
        read_record(huge)


def test_a_small_file_takes_little_memory_to_read(tmp_path: Path) -> None:
    """A machine with less memory than the largest record read none."""
    small = tmp_path / "run.json"
    small.write_bytes(b"{}")
    tracemalloc.start()
    try:
        assert file_content(small) == b"{}"
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1 << 20


def test_setting_with_too_long_file_name_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for setting in ("SWITCHMARK_VPP", "SWITCHMARK_VM_KERNEL"):
        monkeypatch.setenv(setting, "x" * 300)
    assert not SWITCHES["vpp"]().availability().available
    assert kernel_at_hand() is None
