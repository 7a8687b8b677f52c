"""Runs under the Python that BESS's client needs, and controls one bessd for the bench.

    python3 bess_driver.py check FOLDER
    python3 bess_driver.py serve FOLDER URL

FOLDER contains `pybess`. `serve` reads a JSON request from each line of standard input, and answers
each with one JSON line. This file imports nothing of switchmark.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

ROW_BYTES = 7  # network address, prefix length, gate
UNDER_WAY = 64  # commands without a response; BESS makes a thread for each
UNORDERED = ("IPLookupCommandAddArg", "WildcardMatchCommandAddArg")


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
    for is_unordered, successive in groupby(commands, lambda command: command[2] in UNORDERED):
        if is_unordered:
            run_unordered(client, successive)
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
    rows = Path(request["file"]).read_bytes()

    def additions() -> Iterator[Sequence[Any]]:
        for at in range(0, len(rows), ROW_BYTES):
            a, b, c, d, bits, high, low = rows[at : at + ROW_BYTES]
            route = {"prefix": f"{a}.{b}.{c}.{d}", "prefix_len": bits, "gate": high << 8 | low}
            yield "routes", "add", "IPLookupCommandAddArg", route

    client.pause_all()
    try:
        return {"added": run_unordered(client, additions())}
    finally:
        client.resume_all()


def run_unordered(client: Any, commands: Iterable[Sequence[Any]]) -> int:
    """Run commands of modules, many at a time, and in any order; return the number that BESS
    acknowledged. BESS takes one command in a call, and pybess waits for each response."""
    return asyncio.run(call_many(client.peer, iter(commands)))


async def call_many(url: str, commands: Iterator[Sequence[Any]]) -> int:
    """Take commands from the iterator until it ends, with `UNDER_WAY` calls at a time."""
    import grpc
    from pybess.bess import bess_msg, module_pb, service_pb2_grpc

    async def call_each() -> int:
        acknowledged = 0
        for name, command, kind, argument in commands:
            request = bess_msg.CommandRequest(name=name, cmd=command)
            request.arg.Pack(getattr(module_pb, kind)(**with_bytes(argument)))
            error = (await call(request)).error
            if error.code:
                raise RuntimeError(f"{name}: {error.errmsg or error.code}")
            acknowledged += 1
        return acknowledged

    async with grpc.aio.insecure_channel(url) as channel:
        call = service_pb2_grpc.BESSControlStub(channel).ModuleCommand
        return sum(await asyncio.gather(*(call_each() for _ in range(UNDER_WAY))))


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
