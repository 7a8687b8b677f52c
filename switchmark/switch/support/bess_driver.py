"""Runs under the Python that BESS's client needs, and controls one bessd for the bench.

    python3 bess_driver.py check FOLDER
    python3 bess_driver.py serve FOLDER URL

FOLDER contains `pybess`. `serve` reads a JSON request from each line of standard input, and answers
each with one JSON line. This file imports nothing of switchmark.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROW_BYTES = 7  # network address, prefix length, gate
UNDER_WAY = 256


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
    for name, command, kind, argument in plan["commands"]:
        client.run_module_command(name, command, kind, with_bytes(argument))
    return {int(port): (name, gate) for port, (name, gate) in plan["tails"].items()}


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
    """Add the routes of a file to module `routes`; return the number that BESS acknowledged. Many
    commands are sent at a time, because a million single commands would take minutes."""
    from pybess.bess import bess_msg, module_pb

    rows = Path(request["file"]).read_bytes()
    kind, added = module_pb.IPLookupCommandAddArg, 0
    pending: deque[Any] = deque()

    def settle(future: Any) -> int:
        error = future.result().error
        if error.code:
            raise RuntimeError(f"route {added}: {error.errmsg or error.code}")
        return 1

    client.pause_all()
    try:
        for at in range(0, len(rows), ROW_BYTES):
            a, b, c, d, bits, high, low = rows[at : at + ROW_BYTES]
            command = bess_msg.CommandRequest(name="routes", cmd="add")
            gate = high << 8 | low
            command.arg.Pack(kind(prefix=f"{a}.{b}.{c}.{d}", prefix_len=bits, gate=gate))
            pending.append(client.stub.ModuleCommand.future(command))
            if len(pending) >= UNDER_WAY:
                added += settle(pending.popleft())
        while pending:
            added += settle(pending.popleft())
    finally:
        client.resume_all()
    return {"added": added}


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
