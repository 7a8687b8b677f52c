"""`switchmark otg` between two ends of a veth pair, and requests to it through snappi."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyroute2.netns import setns

from tests.integration.main_job import need
from tests.integration.waiting import DEADLINE_S, until

ROOT = Path(__file__).parents[2]
A_MAC, B_MAC = "02:00:00:00:0a:01", "02:00:00:00:0b:01"
TOKEN = "0123456789abcdef0123456789abcdef"


@dataclasses.dataclass
class Server:
    process: subprocess.Popen[Any]
    location: str  # address for snappi
    grpc: str  # address for gRPC
    a: str
    b: str
    netns: str


def ip(*words: Any) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def serve(folder: Any, *more: Any) -> Iterator[Any]:
    """Start a server with devices in a namespace, whose address is reachable through a veth
    pair."""
    need()
    netns = f"smotg{os.getpid()}-{folder.name[-4:]}"
    a, b = "otga", "otgb"
    ip("netns", "add", netns)
    try:
        inside = ["-n", netns, "link"]
        ip(*inside, "set", "lo", "up")
        ip(*inside, "add", a, "type", "veth", "peer", "name", b)
        for device in (a, b):
            ip(*inside, "set", device, "up")
            quiet = f"echo 1 > /proc/sys/net/ipv6/conf/{device}/disable_ipv6"
            subprocess.run(["ip", "netns", "exec", netns, "sh", "-c", quiet], check=True)
        yield from run_server(folder, netns, a, b, more)
    finally:
        ip("netns", "del", netns)
        shutil.rmtree(f"/tmp/{netns}", ignore_errors=True)


def run_server(folder: Any, netns: Any, a: Any, b: Any, more: Any) -> Iterator[Any]:
    command = ["ip", "netns", "exec", netns, sys.executable, "-m", "switchmark.cli.main", "otg"]
    ports = ["--port", a, "--port", f"{b}=raw:mmsg", "--port", f"x1=af_xdp:dev={a}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SWITCHMARK_STATE_DIR": f"/tmp/{netns}"}
    place = [] if more else ["--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    log = folder / "log"
    with log.open("w") as err:
        process = subprocess.Popen(
            [*command, *ports, *place, *more], env=environment, stderr=err, cwd=ROOT
        )

    def addresses() -> Any:
        assert process.poll() is None, log.read_text()
        return re.search(r"at (https?://\S+) and by gRPC at (\S+);", log.read_text())

    try:
        until(lambda: addresses() is not None, "the server", 60)
        yield Server(process, *addresses().groups(), a, b, netns)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 0, log.read_text()
        assert "left behind" not in log.read_text()


@contextmanager
def inside(server: Any) -> Iterator[Any]:
    """Move this thread into the namespace of the server, whose loopback it listens on."""
    namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        setns(server.netns)
        yield
    finally:
        setns(namespace)
        os.close(namespace)


def config_of(api: Any, server: Any, capture: bool = False) -> Any:
    config = api.config()
    config.ports.add(name="p1", location=server.a)
    config.ports.add(name="p2", location=server.b)
    if capture:
        config.captures.add(name="c", port_names=["p2"]).format = "pcap"
    return config


def add_flow(
    config: Any, name: str = "f1", *, vlan: Any = None, six: bool = False, turned: bool = False
) -> Any:
    flow = config.flows.add(name=name)
    ends = ("p2", "p1") if turned else ("p1", "p2")
    flow.tx_rx.port.tx_name, flow.tx_rx.port.rx_names = ends[0], [ends[1]]
    flow.metrics.enable = flow.metrics.loss = True
    flow.size.fixed = 128
    eth = flow.packet.ethernet()[-1]
    eth.src.value, eth.dst.value = (B_MAC, A_MAC) if turned else (A_MAC, B_MAC)
    if vlan:
        flow.packet.vlan()[-1].id.value = vlan
    network = flow.packet.ipv6()[-1] if six else flow.packet.ipv4()[-1]
    network.src.value, network.dst.value = ("2001:db8::1", "2001:db8::2") if six else (
        "10.1.1.1", "10.1.1.2",
    )  # fmt: skip
    udp = flow.packet.udp()[-1]
    udp.src_port.value, udp.dst_port.value = 5000, 6000
    return flow


def transmit(api: Any, state: str = "start", names: Any = None) -> None:
    request = api.control_state()
    request.traffic.flow_transmit.state = state
    if names:
        request.traffic.flow_transmit.flow_names = names
    api.set_control_state(request)


def capture(api: Any, state: Any) -> None:
    request = api.control_state()
    request.port.capture.state = state
    api.set_control_state(request)


def metrics(api: Any, names: Any = ()) -> Any:
    request = api.metrics_request()
    request.flow.flow_names = list(names)
    return {one.name: one for one in api.get_metrics(request).flow_metrics}


def until_stopped(api: Any) -> Any:
    found = {}

    def stopped() -> Any:
        found.update(metrics(api))
        return all(one.transmit == "stopped" for one in found.values())

    until(stopped, "the end of all flows", 60)
    return found


def packets(data: Any) -> Iterator[Any]:
    """Yield the packets of a pcap file with their original lengths."""
    assert struct.unpack("<I", data.read(4))[0] in (0xA1B2C3D4, 0xA1B23C4D)
    data.read(20)
    while head := data.read(16):
        yield data.read(struct.unpack("<IIII", head)[2])


def mac(text: Any) -> Any:
    return bytes.fromhex(text.replace(":", ""))


def guard(folder: Any) -> Any:
    """Return the options of a server that other hosts can reach, and its certificate."""
    certificate, key, token = (folder / name for name in ("c.pem", "k.pem", "token"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    token.write_text(TOKEN + "\n")
    tls = ["--certificate", str(certificate), "--key", str(key)]
    secured = ["--listen", "0.0.0.0:0", "--grpc", "0.0.0.0:0", *tls, "--token-file", str(token)]
    return secured, certificate


def captured(api: Any, config: Any) -> list[bytes]:
    """Send the flows of a configuration with a capture at p2; return the captured frames."""
    api.set_config(config)
    capture(api, "start")
    transmit(api)
    until_stopped(api)
    capture(api, "stop")
    request = api.capture_request()
    request.port_name = "p2"
    return list(packets(api.get_capture(request)))


def counted(values: Any, count: int) -> list[Any]:
    """Return the values in turn, for this number of frames."""
    return [values[n % len(values)] for n in range(count)]
