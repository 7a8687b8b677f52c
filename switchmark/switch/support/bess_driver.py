"""Runs under the Python that BESS's client needs, and controls one bessd for the bench.

    python3 bess_driver.py check FOLDER
    python3 bess_driver.py serve FOLDER URL

FOLDER contains `pybess`. `serve` reads a JSON request from each line of standard input, and answers
each with one JSON line. This file imports nothing of switchmark.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

ROW_BYTES = 7  # network address, prefix length, gate
UNDER_WAY = 64  # commands without a response; BESS makes a thread for each
UNORDERED = ("IPLookupCommandAddArg", "WildcardMatchCommandAddArg")

# HTTP/2 (RFC 9113): types of frames, and flags.
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FIRST_WINDOW = 65_535  # bytes that each side accepts at first
LARGEST_WINDOW = 2**31 - 1
FRAME_HEADER_BYTES = 9
PREFIX_BYTES = 5  # before a message of gRPC: compressed or not, length


def connect(folder: str, url: str) -> Any:
    """Connect to the daemon at `url` by pybess, BESS's client library."""
    sys.path.insert(0, folder)
    from pybess.bess import BESS

    client = BESS()
    if url:
        client.connect(url)
    return client


def build(client: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Build ports, modules and a worker for each core, and start them."""
    client.pause_all()
    for number, core in enumerate(request["cores"]):
        client.add_worker(number, core)
    ports = request["ports"]
    plan = request.get("functions")
    if request["table"] is None:
        join(client, "p", ports, None, plan)
    else:
        client.create_module("Merge", "merge")
        client.create_module("L2Forward", "table")
        entries = {"entries": request["table"]}
        client.run_module_command("table", "add", "L2ForwardCommandAddArg", entries)
        client.connect_modules("merge", "table")
        join(client, "p", ports, 0, plan)
        # No address leads there, so its counters show flooded frames.
        client.create_module("Sink", "witness")
        client.connect_modules("table", "witness", len(ports))
    client.resume_all()
    return {}


def join(
    client: Any,
    letter: str,
    ports: Sequence[dict[str, Any]],
    gate: int | None,
    plan: dict[str, Any] | None = None,
) -> None:
    """Make ports under names of this letter, connected in pairs, or to the table from this gate on.
    With a plan of functions, the frames of a port first pass its chain of modules."""
    names = [f"{letter}{k}" for k in range(len(ports))]
    for name, port in zip(names, ports, strict=True):
        client.create_port("PMDPort", name, dict(port))
        client.create_module("PortInc", f"in-{name}", {"port": name})
        client.create_module("PortOut", f"out-{name}", {"port": name})
    tails = {k: (f"in-{name}", 0) for k, name in enumerate(names)}
    if plan is not None:
        tails |= perform(client, plan)
        if plan["routed"]:
            return
        tails.pop(plan["monitor"], None)  # frames from there go nowhere
    exits = {k: f"out-{name}" for k, name in enumerate(names)}
    if plan is not None:
        exits |= {int(port): module for port, module in plan["exits"].items()}
    for k, (source, output) in tails.items():
        if gate is None:
            client.connect_modules(source, exits[k ^ 1], output)
        else:
            client.connect_modules(source, "merge", output)
            client.connect_modules("table", exits[k], gate + k)


def perform(client: Any, plan: dict[str, Any]) -> dict[int, tuple[str, int]]:
    """Make the modules of the functions, and the links between them. Return the module and the
    output gate at which the chain of each port ends."""
    for kind, name, argument in plan["modules"]:
        client.create_module(kind, name, with_bytes(argument))
    for source, gate, target in plan["links"]:
        client.connect_modules(source, target, gate)
    for port, head in plan["heads"].items():
        client.connect_modules(f"in-p{port}", head)
    run_commands(client, plan["commands"])
    return {int(port): (name, gate) for port, (name, gate) in plan["tails"].items()}


def run_commands(client: Any, commands: Sequence[Any]) -> None:
    """Run commands of modules in their order. Successive commands that each add an entry to a table
    need no order."""
    from pybess.bess import bess_msg, module_pb

    def packed(name: str, command: str, kind: str, argument: Any) -> bytes:
        request = bess_msg.CommandRequest(name=name, cmd=command)
        request.arg.Pack(getattr(module_pb, kind)(**with_bytes(argument)))
        return bytes(request.SerializeToString())

    for is_unordered, successive in groupby(commands, lambda command: command[2] in UNORDERED):
        if is_unordered:
            run_unordered(client, (packed(*command) for command in successive))
            continue
        for name, command, kind, argument in successive:
            client.run_module_command(name, command, kind, with_bytes(argument))


def with_bytes(value: Any) -> Any:
    """Replace each object `{"hex": TEXT}` by bytes in the form of BESS, `{"bytes": TEXT}` by
    the bytes themselves."""
    if isinstance(value, list):
        return [with_bytes(item) for item in value]
    if isinstance(value, dict):
        if "hex" in value:
            return {"value_bin": bytes.fromhex(value["hex"])}
        if "bytes" in value:
            return bytes.fromhex(value["bytes"])
        return {key: with_bytes(item) for key, item in value.items()}
    return value


def routes(client: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Add the routes of a file to module `routes`; return the number that BESS acknowledged."""
    from pybess.bess import bess_msg, module_pb

    rows = Path(request["file"]).read_bytes()
    kind = module_pb.IPLookupCommandAddArg

    def requests() -> Iterator[bytes]:
        command = bess_msg.CommandRequest(name="routes", cmd="add")
        for at in range(0, len(rows), ROW_BYTES):
            a, b, c, d, bits, high, low = rows[at : at + ROW_BYTES]
            gate = high << 8 | low
            command.arg.Pack(kind(prefix=f"{a}.{b}.{c}.{d}", prefix_len=bits, gate=gate))
            yield command.SerializeToString()

    client.pause_all()
    try:
        return {"added": run_unordered(client, requests())}
    finally:
        client.resume_all()


def run_unordered(client: Any, requests: Iterator[bytes]) -> int:
    """Run commands of modules, many at a time, and in any order; return the number that BESS
    acknowledged. BESS takes one command in a call, and gRPC for Python needs more CPU time for a
    call than BESS, so this function writes and reads the frames of HTTP/2 itself."""
    from pybess.bess import bess_msg

    header = header_block("/bess.pb.BESSControl/ModuleCommand")
    acknowledged = number = 0
    credit = FIRST_WINDOW  # bytes that BESS accepts
    streams: dict[int, bool] = {}  # open streams: has the response arrived
    received = bytearray()
    request = next(requests, None)
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(client.peer.removeprefix("unix:"))
        window = (LARGEST_WINDOW - FIRST_WINDOW).to_bytes(4, "big")
        control.sendall(PREFACE + frame(SETTINGS) + frame(WINDOW_UPDATE, 0, 0, window))
        while request is not None or streams:
            batch = []
            while request is not None and len(streams) < UNDER_WAY:
                message = b"\0" + len(request).to_bytes(4, "big") + request
                if len(message) > credit:
                    break
                stream = 2 * number + 1
                batch.append(frame(HEADERS, END_HEADERS, stream, header))
                batch.append(frame(DATA, END_STREAM, stream, message))
                streams[stream] = False
                credit -= len(message)
                number += 1
                request = next(requests, None)
            control.sendall(b"".join(batch))
            chunk = control.recv(1 << 20)
            if not chunk:
                raise RuntimeError("BESS closed the connection")
            received += chunk
            for kind, flags, stream, content in frames(received):
                if kind == DATA and content:
                    error = bess_msg.CommandResponse.FromString(content[PREFIX_BYTES:]).error
                    if error.code:
                        raise RuntimeError(f"command {stream // 2}: {error.errmsg or error.code}")
                    streams[stream] = True
                    acknowledged += 1
                elif kind == SETTINGS and not flags & ACK:
                    control.sendall(frame(SETTINGS, ACK))
                elif kind == PING and not flags & ACK:
                    control.sendall(frame(PING, ACK, 0, content))
                elif kind == WINDOW_UPDATE and stream == 0:
                    credit += int.from_bytes(content, "big")
                elif kind in (RST_STREAM, GOAWAY):
                    raise RuntimeError(f"BESS aborted command {stream // 2}: {content.hex()}")
                if kind in (DATA, HEADERS) and flags & END_STREAM and not streams.pop(stream):
                    raise RuntimeError(f"BESS did not answer command {stream // 2}")
    return acknowledged


def header_block(path: str) -> bytes:
    """Return the headers of a call of gRPC: POST and http of the static table of HPACK (RFC 7541),
    then literals that no table keeps."""
    literals = {":path": path, ":authority": "localhost",
                "content-type": "application/grpc", "te": "trailers"}  # fmt: skip
    block = b"\x83\x86"
    for name, value in literals.items():
        block += bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
    return block


def frame(kind: int, flags: int = 0, stream: int = 0, content: bytes = b"") -> bytes:
    """Return a frame of HTTP/2."""
    header = len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return header + content


def frames(received: bytearray) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield type, flags, stream and content of each complete frame; remove these frames."""
    at = 0
    while len(received) >= (start := at + FRAME_HEADER_BYTES):
        end = start + int.from_bytes(received[at : at + 3], "big")
        if len(received) < end:
            break
        stream = int.from_bytes(received[at + 5 : start], "big")
        yield received[at + 3], received[at + 4], stream, bytes(received[start:end])
        at = end
    del received[:at]


def commands(client: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Run commands of modules one after the other, while the workers are paused."""
    client.pause_all()
    try:
        for name, command, kind, argument in request["commands"]:
            client.run_module_command(name, command, kind, with_bytes(argument))
    finally:
        client.resume_all()
    return {}


def rules(client: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return the description of each module, in which some modules count their rules, and the
    number of its connected output gates."""
    infos = {name: client.get_module_info(name) for name in request["modules"]}
    return {
        "described": {name: info.desc for name, info in infos.items()},
        "gates": {name: len(info.ogates) for name, info in infos.items()},
    }


def state(client: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return the link and counters of every port, and of the monitor port."""
    ports = []
    for k in range(request["ports"]):
        statistics = client.get_port_stats(f"p{k}")
        ports.append(
            {
                "up": bool(client.get_link_status(f"p{k}").link_up),
                "rx": [statistics.inc.packets, statistics.inc.dropped],
                "tx": [statistics.out.packets, statistics.out.dropped],
            }
        )
    witness = None
    if request["witness"]:
        gates = client.get_module_info("table").ogates
        witness = next(gate.pkts for gate in gates if gate.ogate == request["ports"])
    return {"ports": ports, "witness": witness}


def add_ports(client: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Add ports to those that pass frames, connected like them. BESS pauses its workers itself as
    long as necessary."""
    join(client, "n", request["ports"], request["gate"])
    return {}


def remove_ports(client: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Remove the ports that were added."""
    for k in range(request["count"]):
        for module in (f"in-n{k}", f"out-n{k}"):
            client.destroy_module(module)
        client.destroy_port(f"n{k}")
    return {}


def table(client: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Add or delete entries of the table in one command, for which BESS needs a pause of its
    workers."""
    kind = {"add": "L2ForwardCommandAddArg", "delete": "L2ForwardCommandDeleteArg"}
    command = request["command"]
    argument = {"entries" if command == "add" else "addrs": request["entries"]}
    client.pause_all()
    try:
        client.run_module_command("table", command, kind[command], argument)
    finally:
        client.resume_all()
    return {}


def serve(folder: str, url: str) -> None:
    """Answer until standard input ends."""
    client = connect(folder, url)
    print(json.dumps({"version": client.get_version().version}), flush=True)
    work = {
        "build": build,
        "state": state,
        "add-ports": add_ports,
        "remove-ports": remove_ports,
        "table": table,
        "routes": routes,
        "commands": commands,
        "rules": rules,
    }
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = work[request["do"]](client, request)
        except Exception as error:  # the bench gets every error that pybess raises
            answer = {"error": " ".join(str(error).split())}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "check":
        connect(sys.argv[2], "")
        print("ok")
    else:
        serve(*sys.argv[2:4])
