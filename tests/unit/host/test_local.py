"""The local host: commands, spawned processes, their pipes, cores and ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from switchmark.errors import SwitchmarkError, UnavailableError, UsageError
from switchmark.host import local
from switchmark.host.containers import lxc_remains
from switchmark.host.kernel import procfs
from switchmark.host.local import LocalHost
from switchmark.host.pump import LineQueue, Pump
from switchmark.host.session import open_session
from switchmark.host.state import state_dir
from switchmark.host.undo.entries import Container

ROOT = Path(__file__).parents[3]
PATIENCE_S = 120.0  # milliseconds suffice on an idle machine


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    directory = Path(f"/tmp/smtl{os.getpid()}")
    monkeypatch.setenv("SWITCHMARK_STATE_DIR", str(directory))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def test_run_returns_output_and_raises_with_the_last_line() -> None:
    host = LocalHost()
    done = host.run(["sh", "-c", "cat; echo error >&2"], input_text="héllo")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "héllo", "error\n")
    with pytest.raises(SwitchmarkError, match="exit code 3: it broke"):
        host.run(["sh", "-c", "echo it broke >&2; exit 3"])
    assert host.run(["false"], check=False).exit_code == 1
    with pytest.raises(SwitchmarkError, match="no-such-program: no such program"):
        host.run(["no-such-program"])


def test_unreadable_folder_of_path_hides_no_missing_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With root's PATH, a user read "not permitted to run it" for a program that is missing."""

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(subprocess, "Popen", refused)
    with pytest.raises(SwitchmarkError, match="no-such-program: no such program"):
        LocalHost().run(["no-such-program"])
    (tmp_path / "tool").touch()
    for existing in (str(tmp_path / "tool"), "sh"):
        with pytest.raises(SwitchmarkError, match=f"{existing}: not permitted to run it"):
            LocalHost().run([existing])


def test_run_beyond_its_timeout_is_killed_with_its_children() -> None:
    begin = time.monotonic()
    with pytest.raises(SwitchmarkError, match=r"not done within 0.2 s"):
        LocalHost().run(["sh", "-c", "sleep 31.4159 & wait"], timeout_s=0.2)
    assert time.monotonic() - begin < 20
    for pid in procfs.pids():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        assert b"31.4159" not in command


def test_spawn_needs_a_session() -> None:
    with pytest.raises(SwitchmarkError, match="in a session only"):
        LocalHost().spawn(["true"])


def test_lines_go_both_ways(state: Path) -> None:
    with open_session() as session:
        process = session.host.spawn(["sh", "-c", "while read x; do echo got $x; done; exit 4"])
        process.write_line("one")
        assert process.read_line(PATIENCE_S) == "got one"
        with pytest.raises(TimeoutError):
            process.read_line(0.05)
        assert process.poll() is None
        process.write_line("two")
        process.close_input()
        assert process.read_line(PATIENCE_S) == "got two"
        assert process.read_line(PATIENCE_S) is None and process.read_line(PATIENCE_S) is None
        assert process.wait(PATIENCE_S) == 4
        with pytest.raises(SwitchmarkError, match="no more commands"):
            process.write_line("three")
        assert session.host.spawn(["sh", "-c", "printf unended"]).read_line(PATIENCE_S) == "unended"


def test_stderr_is_kept_as_a_tail_or_goes_to_a_log(state: Path) -> None:
    script = "i=0; while [ $i -lt 20000 ]; do echo line $i >&2; i=$((i+1)); done"
    with open_session() as session:
        process = session.host.spawn(["sh", "-c", script])
        assert process.wait(PATIENCE_S) == 0
        tail = process.stderr_tail()
        assert tail.endswith("line 19999\n") and len(tail) <= 1 << 16
        log = session.run_dir / "log"
        logged = session.host.spawn(["sh", "-c", "echo to log >&2"], log=log)
        assert logged.wait(PATIENCE_S) == 0 and logged.stderr_tail() == ""
        assert log.read_text() == "to log\n"


def test_last_lines_are_read_even_if_the_pump_runs_late(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child of it still holds the pipe, so that no end of file marks the end."""
    read = Pump._read

    def late(pump: Pump, fd: int, sink: Callable[[bytes], None]) -> None:
        time.sleep(0.5)
        read(pump, fd, sink)

    monkeypatch.setattr(Pump, "_read", late)
    with open_session(measuring=False) as session:
        process = session.host.spawn(["sh", "-c", "sleep 600 & echo it broke >&2"])
        process.wait(PATIENCE_S)
        assert process.stderr_tail() == "it broke\n"


def test_fast_writer_is_never_blocked_and_loses_no_line(state: Path) -> None:
    count = 400_000  # some 12 MB: more than a pipe and the buffer in memory
    script = f"import sys\nfor i in range({count}): print(i, 'x' * 24)"
    with open_session() as session:
        process = session.host.spawn([sys.executable, "-c", script])
        assert process.wait(PATIENCE_S) == 0, "it ended although no line was read"
        for i in range(count):
            line = process.read_line(PATIENCE_S)
            assert line is not None and line.startswith(f"{i} ")
        assert process.read_line(PATIENCE_S) is None


@pytest.mark.parametrize("folder", ["/var/tmp", "/nonexistent"])
def test_line_queue_keeps_the_order_across_its_spill_file(
    monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Also in a container without a writable /var/tmp."""
    monkeypatch.setattr("switchmark.host.pump.SPILL_FOLDER", folder)
    queue = LineQueue(memory_bytes=100)
    queue.take(b"".join(b"first %d\n" % i for i in range(50)))
    assert [queue.get(0) for _ in range(30)] == [f"first {i}" for i in range(30)]
    queue.take(b"half ")
    queue.take(b"a line\nand no end")
    queue.take(b"")
    rest = [queue.get(0) for _ in range(22)]
    assert rest == [*(f"first {i}" for i in range(30, 50)), "half a line", "and no end"]
    assert queue.get(0) is None


def test_process_starts_pinned_and_the_caller_is_not_moved(state: Path) -> None:
    core = max(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    with open_session() as session:
        process = session.host.spawn(
            ["grep", "Cpus_allowed_list", "/proc/self/status"], cores=[core]
        )
        assert (process.read_line(PATIENCE_S) or "").split() == ["Cpus_allowed_list:", str(core)]
        assert os.sched_getaffinity(0) == before
        with pytest.raises(SwitchmarkError, match=r"cores 4000: cannot run there"):
            session.host.spawn(["true"], cores=[4000])
        assert os.sched_getaffinity(0) == before


def test_own_session_and_mark(state: Path) -> None:
    with open_session() as session:
        process = session.host.spawn(["sh", "-c", "echo $SWITCHMARK_SESSION; sleep 60"])
        assert process.read_line(PATIENCE_S) == session.id
        assert os.getsid(process.pid) == process.pid
        assert process.pid in {one.pid for one in procfs.session_processes(session.id)}
        assert process.terminate() == -signal.SIGTERM
        assert process.terminate() == -signal.SIGTERM, "a second call is harmless"


def test_terminate_kills_after_the_grace(state: Path) -> None:
    with open_session() as session:
        process = session.host.spawn(
            ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"]
        )
        assert process.read_line(PATIENCE_S) == "up"
        assert process.terminate(grace_s=0.1) == -signal.SIGKILL


def test_process_spawned_from_a_thread_survives_the_thread(state: Path) -> None:
    """PR_SET_PDEATHSIG refers to the thread that forked."""
    with open_session() as session:
        started = []
        thread = threading.Thread(
            target=lambda: started.append(session.host.spawn(["sleep", "60"]))
        )
        thread.start()
        thread.join()
        time.sleep(0.1)
        assert started[0].poll() is None


def test_session_leaves_nothing(state: Path) -> None:
    with open_session() as session:
        run_dir, ledger = session.run_dir, session.ledger.path
        (run_dir / "socket").touch()
        session.host.spawn(["sleep", "60"])
        daemon = session.host.run(["sh", "-c", "setsid sleep 60 >/dev/null 2>&1 & echo $!"])
        daemon_pid = int(daemon.stdout)
        assert procfs.ProcessIdentity.of(daemon_pid) is not None
    assert not run_dir.exists() and not ledger.exists()
    assert procfs.session_processes(session.id) == []
    assert procfs.ProcessIdentity.of(daemon_pid) is None


def test_second_measuring_session_gets_the_owner_of_the_first(state: Path) -> None:
    with open_session():
        expected = rf"process {os.getpid()} .*is measuring"
        with pytest.raises(UnavailableError, match=expected), open_session():
            pass
        with open_session(measuring=False) as other:
            assert other.run_dir.is_dir()
    with open_session(wait_s=1):
        pass


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, -signal.SIGINT)],
)
def test_signals_end_a_session_cleanly(state: Path, number: signal.Signals, code: int) -> None:
    script = (
        "import sys, time\n"
        "from switchmark.host.session import open_session\n"
        "with open_session() as s:\n"
        "    p = s.host.spawn(['sleep', '60'])\n"
        "    print(s.id, p.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout is not None
    session_id, pid = child.stdout.readline().split()
    child.send_signal(number)
    assert child.wait(PATIENCE_S) == code
    child.stdout.close()
    assert procfs.ProcessIdentity.of(int(pid)) is None
    assert [path.name for path in state.iterdir()] == ["measuring.lock"]
    assert procfs.session_processes(session_id) == []


@pytest.fixture
def signal_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal arrives when a process has just been started."""
    popen = local._popen

    def interrupted(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = popen(*args, **options)
        signal.raise_signal(signal.SIGTERM)
        return process

    monkeypatch.setattr(local, "_popen", interrupted)


@pytest.mark.usefixtures("signal_at_start")
def test_signal_at_the_start_of_a_command_ends_it(state: Path) -> None:
    with open_session(measuring=False) as session:
        with pytest.raises(SystemExit):
            session.host.run(["sleep", "60"])
        assert procfs.session_processes(session.id) == []


@pytest.mark.usefixtures("signal_at_start")
def test_process_is_ended_before_its_container_is_removed(state: Path) -> None:
    """Also if a signal kept the caller from using the process that was started."""
    with open_session(measuring=False) as session:
        container = f"sm{session.id}-tx0"
        with pytest.raises(SystemExit):
            session.host.spawn(["sleep", "60"], container=container)
            time.sleep(PATIENCE_S)
        (started,) = procfs.session_processes(session.id)
        entry = Container(container, str(session.run_dir / "lxc"))
        session.ledger.undo(session.ledger.record(entry))
        assert not started.alive()


def test_container_is_removed_beside_a_lock_folder_of_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine where root used LXC before, an ordinary user may not read /run/lxc."""

    def refused(_self: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refused)
    (tmp_path / "sm1-tx0").mkdir()
    lxc_remains.remove("sm1-tx0", tmp_path)
    assert not tmp_path.exists()


def test_state_directory_must_be_short_enough_for_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_STATE_DIR", "/tmp/" + "x" * 80)
    with pytest.raises(UsageError, match="choose a shorter one"):
        state_dir()
    monkeypatch.setenv("SWITCHMARK_STATE_DIR", "relative")
    with pytest.raises(UsageError, match="absolute"):
        state_dir()


def test_ended_processes_are_not_kept_in_the_session(state: Path) -> None:
    with open_session(measuring=False) as session:
        host = session.host
        assert isinstance(host, LocalHost)
        for _ in range(5):
            host.spawn(["true"]).wait(PATIENCE_S)
        assert len(host._spawned) == 1


def test_pump_that_ended_before_it_is_woken_is_closed() -> None:
    pump = Pump()
    pump._closing = True
    os.write(pump._wake_write, b"+")  # a wake-up comes in this moment
    pump._thread.join()
    pump.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pump._wake_read)


def test_process_that_does_not_die_does_not_keep_others(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(grace_s: float = 2.0) -> int:
        raise TimeoutError("still running")

    with open_session(measuring=False) as session:
        host = session.host
        assert isinstance(host, LocalHost)
        first = host.spawn(["sleep", "60"])
        monkeypatch.setattr(first, "terminate", stuck)
        deaf = host.spawn(["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"])
        assert deaf.read_line(PATIENCE_S) == "up"
        host.close()
        assert deaf.poll() == -signal.SIGKILL
        assert host._pump is None


def test_objects_are_undone_although_the_host_cannot_be_closed(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(host: LocalHost) -> None:
        raise OSError("no descriptor is free")

    monkeypatch.setattr(LocalHost, "close", broken)
    with (
        pytest.raises(OSError, match="no descriptor"),
        open_session(measuring=False) as session,
    ):
        run_dir, ledger = session.run_dir, session.ledger.path
        (run_dir / "socket").touch()
    assert not run_dir.exists() and not ledger.exists()
