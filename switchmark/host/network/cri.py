"""Pods by the container runtime of Kubernetes (CRI): the process of a sandbox or a container.

`crictl` answers for each runtime; without it, `ctr` answers for containerd. Their answers are
untrusted: each is checked before its value is used.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from typing import Any

from switchmark.errors import UnavailableError
from switchmark.host.kernel.procfs import parse_pid
from switchmark.host.process_output import NOTHING, last_line, refuse_constant, run_command
from switchmark.host.programs import which

TIMEOUT_S = 15.0
READY, RUNNING = "SANDBOX_READY", "CONTAINER_RUNNING"
MOST_BYTES = 16 << 20
MOST_PID = 1 << 22  # the kernel's PID_MAX_LIMIT
CONTAINERD = ("ctr", "-n", "k8s.io")
NO_ROOT = "use sudo: only root may use the socket of the container runtime"
NAME_A_PROCESS = "name a process of the pod: pid:N"


def pid_of_pod(name: str) -> int:
    """The process of a pod, by NAMESPACE/NAME, or of one of its containers, by
    NAMESPACE/NAME/CONTAINER. Raises UnavailableError."""
    namespace, pod, container = split_name(name)
    if which("crictl") is not None:
        return _by_crictl(name, namespace, pod, container)
    if which("ctr") is not None:
        return _by_containerd(name, namespace, pod, container)
    raise UnavailableError(
        f"pod:{name}: there is no `crictl` or `ctr` program here, which finds the process of a pod",
        remedy=f"install cri-tools on this node, or {NAME_A_PROCESS}",
    )


def split_name(name: str) -> tuple[str, str, str]:
    """The namespace, the pod and the container (empty: any) of an endpoint's name."""
    namespace, pod, *container = name.split("/")
    return namespace, pod, container[0] if container else ""


def _by_crictl(name: str, namespace: str, pod: str, container: str) -> int:
    listed = _answer(
        name, ["crictl", "pods", "--namespace", namespace, "--name", f"^{_escaped(pod)}$", "-o",
               "json"],
    )  # fmt: skip
    sandbox = sandbox_of(listed, namespace, pod)
    if not container:
        inspected = _answer(name, ["crictl", "inspectp", "-o", "json", sandbox])
        return pid_in(inspected, name, "crictl inspectp")
    listed = _answer(
        name, ["crictl", "ps", "--pod", sandbox, "--name", f"^{_escaped(container)}$", "-o", "json"]
    )
    inspected = _answer(
        name, ["crictl", "inspect", "-o", "json", container_of(listed, name, sandbox)]
    )
    return pid_in(inspected, name, "crictl inspect")


def _by_containerd(name: str, namespace: str, pod: str, container: str) -> int:
    labels = {
        "io.kubernetes.pod.namespace": namespace,
        "io.kubernetes.pod.name": pod,
        "io.cri-containerd.kind": "container" if container else "sandbox",
        **({"io.kubernetes.container.name": container} if container else {}),
    }
    required = ",".join(f'labels."{key}"=={value}' for key, value in labels.items())
    listed = _output(name, [*CONTAINERD, "containers", "list", "-q", required])
    tasks = _output(name, [*CONTAINERD, "tasks", "list"])
    return pid_of_task(name, listed.split(), tasks)


def pid_of_task(name: str, ids: Sequence[str], tasks: str) -> int:
    """The process of the only one of these containers that runs, by `ctr tasks list`.

    Raises UnavailableError."""
    pids = []
    for line in tasks.splitlines()[1:]:
        task, pid, state, *_ = [*line.split(), "", "", ""]
        if task in ids and state == "RUNNING":
            pids.append(pid)
    if not pids:
        raise UnavailableError(
            f"pod:{name}: containerd of this node has no such pod that runs",
            remedy="see `ctr -n k8s.io containers list`; the pod may run on another node",
        )
    if len(pids) > 1:
        raise UnavailableError(f"pod:{name}: {len(pids)} containers of that name run")
    number = parse_pid(pids[0])
    if number is None or number > MOST_PID:
        raise UnavailableError(
            f"pod:{name}: ctr tasks list gives no process", remedy=NAME_A_PROCESS
        )
    return number


def _escaped(name: str) -> str:
    return name.replace(".", r"\.")


def _answer(name: str, command: list[str]) -> Any:
    return parse_answer(" ".join(command[:2]), _output(name, command))


def _output(name: str, command: Sequence[str]) -> str:
    """The output of a command. Raises UnavailableError with the last line of its errors."""
    where = f"pod:{name}: `{' '.join(command[:2])}` fails"
    try:
        done = run_command(command, TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"{where}: no answer in {TIMEOUT_S:g} s") from None
    except OSError as error:
        raise UnavailableError(f"{where}: {error.strerror}") from None
    if done.returncode == 0:
        return done.stdout
    remedy = NO_ROOT if os.geteuid() else "is this a node of the cluster? (crictl info)"
    raise UnavailableError(f"{where}: {last_line(done.stderr, NOTHING)[:300]}", remedy=remedy)


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
    required = {"namespace": namespace, "name": pod}
    ids = [
        _id_of(item, where, "crictl pods")
        for item in _items(document, "items", where, "crictl pods")
        if _is(item, required, READY)
    ]
    if not ids:
        raise UnavailableError(
            f"{where}: the runtime of this node has no such pod that is ready",
            remedy="see `crictl pods`; the pod may run on another node",
        )
    if len(set(ids)) > 1:
        raise UnavailableError(f"{where}: {len(set(ids))} sandboxes of that name are ready")
    return ids[0]


def container_of(document: Any, name: str, sandbox: str) -> str:
    """The id of the container that runs in a sandbox, of `crictl ps -o json`.

    Raises UnavailableError."""
    where, container = f"pod:{name}", split_name(name)[2]
    ids = [
        _id_of(item, where, "crictl ps")
        for item in _items(document, "containers", where, "crictl ps")
        if _is(item, {"name": container}, RUNNING) and item.get("podSandboxId") == sandbox
    ]
    if len(set(ids)) != 1:
        raise UnavailableError(
            f"{where}: {len(set(ids))} containers of that name run in the pod",
            remedy=f"see `crictl ps --pod {sandbox[:13]}`",
        )
    return ids[0]


def _items(document: Any, key: str, where: str, command: str) -> list[Any]:
    items = document.get(key) if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise UnavailableError(f"{where}: {command}: its output has no list `{key}`")
    return items


def _is(item: Any, required: dict[str, str], state: str) -> bool:
    """Return True if this is an object with such metadata in that state."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return (
        isinstance(metadata, dict)
        and all(metadata.get(key) == value for key, value in required.items())
        and item.get("state") == state
    )


def _id_of(item: dict[str, Any], where: str, command: str) -> str:
    text = item.get("id")
    if not (isinstance(text, str) and text.isalnum() and text.isascii() and len(text) <= 128):
        raise UnavailableError(f"{where}: {command}: an id has an unknown form")
    return text


def pid_in(document: Any, name: str, command: str) -> int:
    """The process id in the output of `crictl inspectp` or `crictl inspect`. containerd and CRI-O
    put it into `info.pid`. Raises UnavailableError."""
    info = document.get("info") if isinstance(document, dict) else None
    pid = info.get("pid") if isinstance(info, dict) else None
    if not isinstance(pid, int) or isinstance(pid, bool) or not 0 < pid <= MOST_PID:
        raise UnavailableError(
            f"pod:{name}: {command} gives no process (info.pid)", remedy=NAME_A_PROCESS
        )
    return pid
