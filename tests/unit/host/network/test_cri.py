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
    assert cri.pid_in(INSPECTED, "shop/web-0") == 4711


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
        cri.pid_in(document, "shop/web-0")


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
    with pytest.raises(UnavailableError, match=r"no `crictl` program.*install cri-tools"):
        cri.pid_of_pod("shop/web-0")
