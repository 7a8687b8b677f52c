"""`kubectl exec`: its command line, its errors with remedies, and hostile output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from switchmark.errors import UnavailableError
from switchmark.remote import kubectl
from switchmark.remote.connection import Connection
from switchmark.remote.kubectl import end_of, exec_command
from switchmark.testbed.testbed import PodTarget

POD = PodTarget("db", "shop", "db-1")


def test_command_has_container_context_and_kubeconfig() -> None:
    assert exec_command(POD, ["python3"]) == [
        "kubectl", "exec", "-i", "-n", "shop", "db-1", "--", "python3",
    ]  # fmt: skip
    full = PodTarget("db", "shop", "db-1", "app", "-lab", Path("/k"))
    assert exec_command(full, ["x", "-i"]) == [
        "kubectl", "--kubeconfig=/k", "--context=-lab", "exec", "-i", "-n", "shop", "db-1",
        "-c", "app", "--", "x", "-i",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "stderr", "remedy"),
    [
        (1, 'Error from server (Forbidden): pods "db-1" is forbidden: User "u" cannot create '
            'resource "pods/exec"', "kubectl auth can-i create pods/exec -n shop"),
        (1, 'Error from server (NotFound): pods "db-1" not found', "kubectl get pods -n shop"),
        (1, "error: You must be logged in to the server (Unauthorized)", "log in to the cluster"),
        (126, 'OCI runtime exec failed: exec: "python3": executable file not found in $PATH',
         "the image needs Python 3.11"),
        (127, "", "the image needs Python 3.11"),
        (1, "Error from server (BadRequest): container x is not valid for pod db-1",
         "pod: shop/db-1/CONTAINER"),
        (1, "The connection to the server 10.0.0.1:6443 was refused", "kubectl cluster-info"),
    ],
)  # fmt: skip
def test_known_errors_have_a_remedy(code: int, stderr: str, remedy: str) -> None:
    text = end_of(POD, code, f"some hint\n{stderr}\n")
    assert text.startswith(f"`kubectl exec` ended with code {code}: ")
    assert remedy in text and "\n" not in text


def test_unknown_error_is_one_short_line() -> None:
    text = end_of(POD, 3, "a\n" + "x" * 10_000)
    assert text.startswith("`kubectl exec` ended with code 3: xxx") and len(text) < 400


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "kubectl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


HOSTILE = {
    "echo hello; cat": "this line does not come from the agent: hello",
    "head -c 100000 /dev/zero; cat": "this line does not come from the agent",
    "printf '\\033[2J\\n'; cat": "this line does not come from the agent",
    "echo '[1]'; cat": "this line does not come from the agent: [1]",
    # `cat` would send the program back, and a second fault could come before the first is judged.
    'echo \'{"id": 0, "ok": {"session": "../x"}}\'; cat >/dev/null': "its answer (its greeting) is",
    "echo 'Error from server (Forbidden): forbidden' >&2; exit 1": "auth can-i create pods/exec",
    "exit 127": "the image needs Python 3.11",
    "exit 0": "ended with code 0: it printed nothing",
}


@pytest.mark.parametrize("script", HOSTILE)
def test_hostile_output_is_one_line(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, monkeypatch, script)
    monkeypatch.setattr(kubectl, "END_WAIT_S", 1.0)
    connection = Connection(POD)
    with pytest.raises(UnavailableError) as caught:
        connection.open()
    text = str(caught.value)
    assert HOSTILE[script] in text and text.startswith("host db (pod shop/db-1): ")
    assert "\n" not in text and len(text) < 600
    connection.close()


def test_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubectl, "LONGEST_LINE", 1 << 16)
    monkeypatch.setattr(kubectl, "END_WAIT_S", 1.0)
    fake(tmp_path, monkeypatch, "exec cat /dev/zero")
    connection = Connection(POD)
    with pytest.raises(UnavailableError, match="this line does not come from the agent"):
        connection.open()


def test_missing_program_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubectl, "which", lambda _: None)
    with pytest.raises(UnavailableError, match=r"no `kubectl` program here; install kubectl"):
        Connection(POD).open()


def test_program_that_cannot_run_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kubectl").write_text("#!/nonexistent\n")
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="kubectl cannot be run: No such file"):
        Connection(POD).open()


def test_end_of_the_bench_ends_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that ignores the end of its input is killed."""
    fake(tmp_path, monkeypatch, f"echo $$ >{tmp_path}/pid; echo x; exec sleep 600")
    monkeypatch.setattr(kubectl, "END_WAIT_S", 0.2)
    with pytest.raises(UnavailableError):
        Connection(POD).open()
    pid = int(json.loads((tmp_path / "pid").read_text()))
    assert not Path(f"/proc/{pid}").exists()
