"""A Docker daemon of the bench that does not start, or refuses the image."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.errors import UnavailableError
from switchmark.host.containers import docker_daemon
from switchmark.host.host import Session
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
