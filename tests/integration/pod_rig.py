"""Two nodes of a cluster that a VXLAN joins, with pods, and `crictl` and `kubectl` for them.

The host of the test is the first node. A network namespace is the second node.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.integration.own_network import STATE, OwnNetwork, own_network

IMAGE_PATH = "image-path"  # a file with PATH in the image of the second pod
PODS = {"web-0": "a", "db-0": "c"}  # on the first node, with their namespaces
NODES = """
sysctl -qw net.ipv4.ip_forward=1
ip netns add n2; ip netns exec n2 sysctl -qw $QUIET net.ipv4.ip_forward=1
ip link add up0 type veth peer name up0 netns n2
ip addr add 192.0.2.1/24 dev up0; ip link set up0 up
ip -n n2 addr add 192.0.2.2/24 dev up0; ip -n n2 link set up0 up; ip -n n2 link set lo up
ip link add flannel.1 type vxlan id 1 dstport 8472 local 192.0.2.1 remote 192.0.2.2 dev up0
ip -n n2 link add flannel.1 type vxlan id 1 dstport 8472 local 192.0.2.2 remote 192.0.2.1 dev up0
ip addr add 10.244.1.0/32 dev flannel.1; ip link set flannel.1 up
ip -n n2 addr add 10.244.2.0/32 dev flannel.1; ip -n n2 link set flannel.1 up
ip route add 10.244.2.0/24 via 10.244.2.0 dev flannel.1 onlink
ip -n n2 route add 10.244.1.0/24 via 10.244.1.0 dev flannel.1 onlink
ip link add cni0 address 52:54:00:aa:00:01 type bridge
ip addr add 10.244.1.1/24 dev cni0; ip link set cni0 up
pod() {
  ip netns add $1; ip netns exec $1 sysctl -qw $QUIET
  $2 ip link add v$1 type veth peer name eth0 netns $1; $2 ip link set v$1 up
  ip -n $1 link set lo up; ip -n $1 addr add $3/24 dev eth0
  ip -n $1 link set eth0 mtu 1450 up; ip -n $1 route add default via ${3%.*}.1
}
pod a "" 10.244.1.2; pod c "" 10.244.1.3
ip link set va master cni0; ip link set vc master cni0
pod b "ip netns exec n2" 10.244.2.2; ip -n n2 addr add 10.244.2.1/24 dev vb
"""
CRICTL = """#!{python}
import json, sys
pids = {pids}
command, *words = sys.argv[1:]
if command in ("pods", "ps"):
    items = [{{"id": "5a" + name.encode().hex(), "state": "SANDBOX_READY",
               "metadata": {{"name": name, "namespace": "shop"}}}} for name in pids]
    ready = [{{"id": "c0" + name.encode().hex(), "state": "CONTAINER_RUNNING",
               "podSandboxId": "5a" + name.encode().hex(), "metadata": {{"name": "app"}}}}
             for name in pids if "5a" + name.encode().hex() in words]
    print(json.dumps({{"items": items}} if command == "pods" else {{"containers": ready}}))
else:
    name = bytes.fromhex(words[-1][2:]).decode()
    print(json.dumps({{"info": {{"pid": pids[name]}}}}))
"""
# It hands its arguments and its standard streams to the cluster, and ends as the program there.
KUBECTL = """#!{python}
import json, socket, sys
if sys.argv[1] == "auth":
    sys.exit(print("yes"))
with socket.socket(socket.AF_UNIX) as cluster:
    cluster.connect({address!r})
    socket.send_fds(cluster, [json.dumps(sys.argv[1:]).encode()], [0, 1, 2])
    sys.exit(int(cluster.recv(16) or 1))
"""


# A pod without privileges: another user, without capabilities and without a way to get them.
UNPRIVILEGED = (
    "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all",
    "--inh-caps=-all", "--no-new-privs", "--",
)  # fmt: skip


class Cluster:
    """It runs the programs of `kubectl exec` in the namespace of the pod db-1. The bench has given
    up the rights for that, and a kubectl of the bench needs none."""

    def __init__(self, host: OwnNetwork, address: Path) -> None:
        self._host = host
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(address))
        self._server.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._run, args=(client,), daemon=True).start()

    def _run(self, client: socket.socket) -> None:
        with client:
            text, streams, _, _ = socket.recv_fds(client, 1 << 16, 3)
            arguments = json.loads(text)
            command = arguments[arguments.index("--") + 1 :]
            state, path = f"{STATE}={self._host.folder}/pod", f"PATH={self._image_path()}"
            entered = ["ip", "netns", "exec", "b", *UNPRIVILEGED, "env", state, path, *command]
            process = subprocess.Popen(
                self._host.command(entered), stdin=streams[0], stdout=streams[1],
                stderr=streams[2], env=self._host.environment,
            )  # fmt: skip
            for stream in streams:
                os.close(stream)
            with suppress(OSError):
                client.sendall(str(process.wait()).encode())

    def _image_path(self) -> str:
        """PATH in the image of the pod: a test may write another one than that of this machine."""
        written = self._host.folder / IMAGE_PATH
        return written.read_text() if written.exists() else self._host.environment["PATH"]

    def close(self) -> None:
        self._server.close()


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@contextmanager
def two_nodes(folder: Path) -> Iterator[OwnNetwork]:
    """The first node as a host, with the programs `crictl`, `kubectl` and `switchmark`."""
    with own_network(folder) as host:
        processes: list[subprocess.Popen[str]] = []
        try:
            host.sh(NODES)
            (folder / "pod").mkdir()
            os.chown(folder / "pod", 65534, 65534)
            programs = folder / "bin"
            programs.mkdir()
            for netns in PODS.values():
                processes.append(host.spawn("ip", "netns", "exec", netns, "sleep", "600"))
            pids = {name: process.pid for name, process in zip(PODS, processes, strict=True)}
            wait_entered(host, pids)
            program(
                programs / "crictl", CRICTL.format(python=Path(sys.executable).resolve(), pids=pids)
            )
            address = folder / "cluster"
            cluster = Cluster(host, address)
            program(
                programs / "kubectl",
                KUBECTL.format(python=Path(sys.executable).resolve(), address=str(address)),
            )
            program(programs / "sudo", '#!/bin/sh\nexec "$@"\n')
            program(
                programs / "switchmark",
                f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m switchmark "$@"\n',
            )
            host.environment["PATH"] = (
                f"{programs}:{Path(sys.executable).parent}:" + os.environ["PATH"]
            )
            yield host
            cluster.close()
        finally:
            for process in processes:
                process.kill()
                process.wait()
    shutil.rmtree(folder, ignore_errors=True)


def wait_entered(host: OwnNetwork, pids: dict[str, int]) -> None:
    """Wait until each process is in the namespace of its pod."""
    for name, pid in pids.items():
        inode = int(host.sh(f"stat -Lc %i /run/netns/{PODS[name]}"))
        deadline = time.monotonic() + 30
        while Path(f"/proc/{pid}/ns/net").stat().st_ino != inode:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def trial(host: OwnNetwork, *settings: str, more: tuple[str, ...] = ()) -> Any:
    arguments = [word for setting in settings for word in ("--set", setting)]
    return host.bench(
        "trial", "existing", "--no-baseline", "--json", "--rate", "200",
        "--duration", "1s", *arguments, *more, "--results", str(host.folder / "r"), check=False,
    )  # fmt: skip


def write_testbed(host: OwnNetwork) -> Path:
    """Write the testbed file of the pod on the second node."""
    path = host.folder / "nodes.yaml"
    path.write_text("hosts: {node-1: {local: true}, db: {pod: shop/db-1}}\n")
    return path
