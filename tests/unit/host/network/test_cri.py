"""Answers of crictl: recorded ones, and hostile ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from switchmark.errors import UnavailableError
from switchmark.host.network import cri

SANDBOX = "7d9c2f0a4e5b7d9c2f0a4e5b7d9c2f0a4e5b7d9c2f0a4e5b7d9c2f0a4e5b1234"


def pods(**changes: Any) -> dict[str, Any]:
    """`crictl pods -o json` of containerd 1.7, shortened."""
    item = {
        "id": SANDBOX,
        "metadata": {"name": "web-0", "uid": "9f6d", "namespace": "shop", "attempt": 0},
        "state": "SANDBOX_READY",
        "createdAt": "1719494934000000000",
        "labels": {"app": "web"},
        "runtimeHandler": "",
    }
    return {"items": [item | changes]}


INSPECTED = {
    "status": {"id": SANDBOX, "state": "SANDBOX_READY", "network": {"ip": "10.244.0.7"}},
    "info": {"pid": 4711, "processStatus": "running", "netNsClosed": False},
}


def test_a_recorded_answer_gives_the_process() -> None:
    assert cri.sandbox_of(pods(), "shop", "web-0") == SANDBOX
    assert cri.pid_in(INSPECTED, "shop/web-0", "crictl inspectp") == 4711


def test_a_pod_that_is_not_ready_or_another_one_is_refused() -> None:
    documents: tuple[dict[str, Any], ...] = (
        pods(state="SANDBOX_NOTREADY"),
        pods(metadata={"name": "web-00", "namespace": "shop"}),
        pods(metadata={"name": "web-0", "namespace": "other"}),
        {"items": []},
    )
    for document in documents:
        with pytest.raises(UnavailableError, match="no such pod that is ready"):
            cri.sandbox_of(document, "shop", "web-0")


@pytest.mark.parametrize(
    "document",
    [None, [], "x", {}, {"items": None}, {"items": "x"}],
)
def test_an_answer_without_a_list_is_refused(document: Any) -> None:
    with pytest.raises(UnavailableError, match="no list"):
        cri.sandbox_of(document, "shop", "web-0")


@pytest.mark.parametrize("sandbox", [None, 7, "", "-rf", "a b", "../x", "a" * 200, "ü"])
def test_a_sandbox_id_of_an_unknown_form_is_refused(sandbox: Any) -> None:
    with pytest.raises(UnavailableError, match="unknown form"):
        cri.sandbox_of(pods(id=sandbox), "shop", "web-0")


def test_two_ready_sandboxes_of_a_pod_are_refused() -> None:
    both = {"items": [*pods()["items"], *pods(id="ab12")["items"]]}
    with pytest.raises(UnavailableError, match="2 sandboxes"):
        cri.sandbox_of(both, "shop", "web-0")


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"info": None}, {"info": {"pid": "4711"}}, {"info": {"pid": True}},
     {"info": {"pid": 0}}, {"info": {"pid": -1}}, {"info": {"pid": 1 << 40}},
     {"info": {"pid": 1.5}}],
)  # fmt: skip
def test_a_process_id_of_an_unknown_form_is_refused(document: Any) -> None:
    with pytest.raises(UnavailableError, match="gives no process"):
        cri.pid_in(document, "shop/web-0", "crictl inspectp")


@pytest.mark.parametrize("text", ["", "nil", "{", "[" * 100_000, '{"items": NaN}'])
def test_an_answer_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(UnavailableError, match="not JSON"):
        cri.parse_answer("crictl pods", text)


def crictl(folder: Path, pods_text: str, inspect_text: str) -> None:
    """A program that answers as crictl does."""
    (folder / "pods").write_text(pods_text)
    (folder / "inspectp").write_text(inspect_text)
    program = folder / "crictl"
    program.write_text(f'#!/bin/sh\necho "$@" >>{folder}/calls\ncat "{folder}/$1"\n')
    program.chmod(0o755)


def test_the_program_is_asked_for_the_pod_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crictl(tmp_path, json.dumps(pods()), json.dumps(INSPECTED))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert cri.pid_of_pod("shop/web-0") == 4711
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0] == "pods --namespace shop --name ^web-0$ -o json"
    assert calls[1] == f"inspectp -o json {SANDBOX}"


def test_without_the_program_the_reason_and_remedy_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cri, "which", lambda _: None)
    with pytest.raises(UnavailableError, match=r"no `crictl` or `ctr` program.*install cri-tools"):
        cri.pid_of_pod("shop/web-0")


def containers(**changes: Any) -> dict[str, Any]:
    """`crictl ps -o json` of containerd 1.7, shortened."""
    item = {
        "id": "a1b2c3",
        "podSandboxId": SANDBOX,
        "metadata": {"name": "app", "attempt": 0},
        "state": "CONTAINER_RUNNING",
    }
    return {"containers": [item | changes]}


def test_container_of_a_pod_is_found() -> None:
    assert cri.container_of(containers(), "shop/web-0/app", SANDBOX) == "a1b2c3"


@pytest.mark.parametrize(
    "changes",
    [{"state": "CONTAINER_EXITED"}, {"metadata": {"name": "app2"}}, {"podSandboxId": "x"},
     {"metadata": None}],
)  # fmt: skip
def test_container_that_does_not_match_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UnavailableError, match="0 containers of that name"):
        cri.container_of(containers(**changes), "shop/web-0/app", SANDBOX)


def test_containers_output_without_a_list_is_refused() -> None:
    with pytest.raises(UnavailableError, match="no list `containers`"):
        cri.container_of({"items": []}, "shop/web-0/app", SANDBOX)
    with pytest.raises(UnavailableError, match="unknown form"):
        cri.container_of(containers(id="-rf"), "shop/web-0/app", SANDBOX)


def test_program_gets_the_container_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crictl(tmp_path, json.dumps(pods()), "")
    (tmp_path / "ps").write_text(json.dumps(containers()))
    (tmp_path / "inspect").write_text(json.dumps({"info": {"pid": 4712}}))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert cri.pid_of_pod("shop/web-0/app") == 4712
    assert (tmp_path / "calls").read_text().splitlines()[1:] == [
        f"ps --pod {SANDBOX} --name ^app$ -o json",
        "inspect -o json a1b2c3",
    ]


def test_failure_of_the_program_has_its_words_and_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "crictl"
    program.write_text("#!/bin/sh\necho 'dial unix /run/c.sock: permission denied' >&2; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for user, remedy in ((1000, "use sudo"), (0, "is this a node of the cluster")):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        with pytest.raises(UnavailableError, match="permission denied") as caught:
            cri.pid_of_pod("shop/web-0")
        assert remedy in str(caught.value)


TASKS = "TASK    PID     STATUS\nab12    4711    RUNNING\ncd34    4712    STOPPED\n"


def test_containerd_gives_the_process_without_crictl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, tasks = tmp_path / "ctr", tmp_path / "tasks"
    tasks.write_text(TASKS)
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$*" >>{tmp_path}/calls\n'
        f'[ "$3" = containers ] && echo ab12 || cat {tasks}\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(cri, "which", lambda name: None if name == "crictl" else name)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert cri.pid_of_pod("shop/web-0/app") == 4711
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0].startswith("-n k8s.io containers list -q labels.")
    assert 'labels."io.kubernetes.container.name"==app' in calls[0]
    assert calls[1] == "-n k8s.io tasks list"


@pytest.mark.parametrize(
    ("tasks", "text"),
    [
        ("", "no such pod that runs"),
        ("TASK PID STATUS\n", "no such pod that runs"),
        ("TASK PID STATUS\nab12 4711 STOPPED\n", "no such pod that runs"),
        ("TASK PID STATUS\nab12\n", "no such pod that runs"),
        ("TASK PID STATUS\nab12 -1 RUNNING\n", "gives no process"),
        ("TASK PID STATUS\nab12 9999999 RUNNING\n", "gives no process"),
        ("TASK PID STATUS\nab12 1 RUNNING\nab12 2 RUNNING\n", "2 containers of that name"),
    ],
)
def test_hostile_tasks_of_containerd_are_refused(tasks: str, text: str) -> None:
    with pytest.raises(UnavailableError, match=text):
        cri.pid_of_task("shop/web-0", ["ab12"], tasks)
