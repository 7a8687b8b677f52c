"""Pods by the container runtime of Kubernetes (CRI), through `crictl`: the process of a sandbox.

Its answers are untrusted: each is checked before its value is used.
"""

from __future__ import annotations

import json
from typing import Any

from switchmark.errors import UnavailableError
from switchmark.host.process_output import refuse_constant, stdout_of
from switchmark.host.programs import which

TIMEOUT_S = 15.0
READY = "SANDBOX_READY"
MOST_BYTES = 16 << 20
MOST_PID = 1 << 22  # the kernel's PID_MAX_LIMIT


def pid_of_pod(name: str) -> int:
    """The process of a pod's sandbox, by NAMESPACE/NAME. Raises UnavailableError."""
    if which("crictl") is None:
        raise UnavailableError(
            f"pod:{name}: there is no `crictl` program here, which finds the process of a pod",
            remedy="install cri-tools on this node, or name the process: pid:N",
        )
    namespace, _, pod = name.partition("/")
    listed = _answer(
        name, ["crictl", "pods", "--namespace", namespace, "--name", f"^{_escaped(pod)}$", "-o",
               "json"],
    )  # fmt: skip
    inspected = _answer(
        name, ["crictl", "inspectp", "-o", "json", sandbox_of(listed, namespace, pod)]
    )
    return pid_in(inspected, name)


def _escaped(pod: str) -> str:
    return pod.replace(".", r"\.")


def _answer(name: str, command: list[str]) -> Any:
    text = stdout_of(command, TIMEOUT_S)
    if text is None:
        raise UnavailableError(
            f"pod:{name}: `{' '.join(command[:2])}` fails",
            remedy="is this a node of the cluster, and are you root? (crictl info)",
        )
    return parse_answer(" ".join(command[:2]), text)


def parse_answer(command: str, text: str) -> Any:
    """Parse the JSON output of crictl. Raises UnavailableError."""
    try:
        if len(text) > MOST_BYTES:
            raise ValueError("too long")
        return json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        raise UnavailableError(f"{command}: its output is not JSON") from None


def sandbox_of(document: Any, namespace: str, pod: str) -> str:
    """The id of the only sandbox of a pod that is ready, of `crictl pods -o json`.

    Raises UnavailableError."""
    where = f"pod:{namespace}/{pod}"
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise UnavailableError(f"{where}: crictl pods: its output has no list `items`")
    ids = [_sandbox_id(item, where) for item in items if _is_ready(item, namespace, pod)]
    if not ids:
        raise UnavailableError(
            f"{where}: the runtime of this node has no such pod that is ready",
            remedy="see `crictl pods`; the pod may run on another node",
        )
    if len(set(ids)) > 1:
        raise UnavailableError(f"{where}: {len(set(ids))} sandboxes of that name are ready")
    return ids[0]


def _is_ready(item: Any, namespace: str, pod: str) -> bool:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return (
        isinstance(metadata, dict)
        and metadata.get("namespace") == namespace
        and metadata.get("name") == pod
        and item.get("state") == READY
    )


def _sandbox_id(item: dict[str, Any], where: str) -> str:
    sandbox = item.get("id")
    if not (
        isinstance(sandbox, str) and sandbox.isalnum() and sandbox.isascii() and len(sandbox) <= 128
    ):
        raise UnavailableError(f"{where}: crictl pods: the id of a sandbox has an unknown form")
    return sandbox


def pid_in(document: Any, name: str) -> int:
    """The process id in the output of `crictl inspectp -o json`. containerd and CRI-O put it into
    `info.pid`. Raises UnavailableError."""
    info = document.get("info") if isinstance(document, dict) else None
    pid = info.get("pid") if isinstance(info, dict) else None
    if not isinstance(pid, int) or isinstance(pid, bool) or not 0 < pid <= MOST_PID:
        raise UnavailableError(
            f"pod:{name}: crictl inspectp gives no process (info.pid)",
            remedy="name the process: pid:N",
        )
    return pid
