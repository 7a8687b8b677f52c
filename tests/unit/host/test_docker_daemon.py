"""A Docker daemon of the bench that does not start, or refuses the image."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.errors import UnavailableError
from switchmark.host.containers import docker_daemon
from switchmark.host.host import Session
from switchmark.host.undo.entries import DockerObject
from tests.unit.switch_programs import script


@pytest.fixture
def tools(tmp_path: Path, session: Session, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for substitutes of `docker` and `dockerd`."""
    folder = tmp_path / "tools"
    for path in (folder, session.run_dir):
        path.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("SWITCHMARK_DOCKER", "private")
    monkeypatch.setenv("SWITCHMARK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(docker_daemon, "_PRIVATE_HOSTS", {})
    return folder


def test_each_trial_gets_the_reason_and_nothing_remains(
    tools: Path, session: Session, tmp_path: Path
) -> None:
    script(tools / "docker", "exit 1")
    script(tools / "dockerd", "echo no devices cgroup >&2; exit 1")
    for _ in range(2):
        with pytest.raises(UnavailableError, match="did not start: no devices cgroup"):
            docker_daemon.daemon_for(session, tmp_path)
    assert session.ledger.outstanding() == []
    assert list(session.run_dir.iterdir()) == []


def test_slow_daemon_is_ended_after_its_time(
    tools: Path, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_daemon, "START_TIMEOUT_S", 0.2)
    script(tools / "docker", "exit 1")
    script(tools / "dockerd", "exec sleep 60")
    with pytest.raises(UnavailableError, match=r"did not start within 0\.2 s: it printed nothing"):
        docker_daemon.daemon_for(session, tmp_path)
    assert session.ledger.outstanding() == []


@pytest.mark.parametrize(("host", "remedy"), [("unix:///x", "repeat"), ("", "start the daemon")])
def test_end_of_the_daemon_is_named(host: str, remedy: str, tools: Path, session: Session) -> None:
    script(tools / "docker", "echo Cannot connect to the Docker daemon at x. Is it? >&2; exit 1")
    daemon = docker_daemon.Daemon(host, "1", "image")
    with pytest.raises(UnavailableError, match=f"docker run: the daemon at .* has ended.*{remedy}"):
        docker_daemon.run_docker(session, daemon, "run", "x")


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        ("docker: Error response from daemon: no", "docker run: Error response from daemon: no"),
        ("unknown flag", "docker run: exit code 125: unknown flag"),
    ],
)
def test_errors_of_the_daemon_come_without_the_command(
    printed: str, message: str, tools: Path, session: Session
) -> None:
    script(tools / "docker", f"echo {printed} >&2; exit 125")
    daemon = docker_daemon.Daemon("", "1", "image")
    with pytest.raises(UnavailableError) as raised:
        docker_daemon.run_docker(session, daemon, "run", "x")
    assert str(raised.value) == message


def test_object_that_stays_is_named_once(tools: Path, session: Session) -> None:
    script(tools / "docker", "echo no daemon >&2; exit 1")
    name = f"sm{session.id}e0"
    number = session.ledger.record(DockerObject("container", name, ""))
    assert session.ledger.undo_all() == [f"docker container {name}: no daemon"]
    session.ledger.strike(number)


def test_running_daemon_is_not_restarted_for_another_import(
    tools: Path, session: Session, tmp_path: Path
) -> None:
    script(
        tools / "docker",
        f'case "$*" in *version*) [ -e {tmp_path}/starts ] && echo 1.0;;'
        " *) cat > /dev/null; echo disk full >&2; exit 1;; esac",
    )
    script(tools / "dockerd", f"echo started >> {tmp_path}/starts; exec sleep 60")
    root = tmp_path / "root"
    root.mkdir()
    for _ in range(2):
        with pytest.raises(UnavailableError, match="docker import: disk full"):
            docker_daemon.daemon_for(session, root)
    assert (tmp_path / "starts").read_text().split() == ["started"]


def test_importing_processes_have_the_mark_of_the_session(
    tools: Path, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are ended if the bench is killed meanwhile."""
    monkeypatch.setattr(docker_daemon, "_RUNNING", {})
    log = tmp_path / "told"
    script(tools / "tar", f'echo "tar $SWITCHMARK_SESSION" >> {log}')
    script(
        tools / "docker",
        'case "$*" in *version*) echo 1.0;;'
        f' *) cat > /dev/null; echo "docker $SWITCHMARK_SESSION" >> {log};; esac',
    )
    script(tools / "dockerd", "exec sleep 60")
    docker_daemon.daemon_for(session, tmp_path)
    assert sorted(log.read_text().splitlines()) == [f"docker {session.id}", f"tar {session.id}"]
