"""Every line that the engine prints is change events.schema.json says: each role runs with each
option that adds a field, over I/O that needs no privileges. In the end the schema must have no
field that was never printed, and must refuse printed lines once they are changed.

usage: check_events.py SWITCHMARK-TRAFFIC SCHEMA; exit code 77: there is no jsonschema
"""

from __future__ import annotations

import copy
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

try:
    from jsonschema import Draft202012Validator
except ImportError:
    print("skipped: this Python has no jsonschema")
    sys.exit(77)

Seen = dict[tuple[str, ...], list[set[str]]]  # by kind of object, the fields of each printed
TRAFFIC, SCHEMA = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
NOW = ("--start", "now", "--duration", "0.1", "--interval", "0.04")
SENT, MADE = ("--port", "null:"), ("--port", "null:rx-rate=max")
FAULTS = [f"--{name}-every=7" for name in ("drop", "duplicate", "reorder", "corrupt")]
CORE = str(min(os.sched_getaffinity(0)))
PID = os.getpid()
OWN_IP = f"127.{64 + PID // 65536 % 64}.{PID // 256 % 256}.{PID % 256}"  # nobody else's ports
UDP = ("--port", "udp:", "--src-ip", OWN_IP, "--dst-ip", OWN_IP, "--idle", "sleep")

# Fields that need privileges: a device must go down (tests/integration prints them).
PRIVILEGED = {"lost_link"}

TCP_TRIALS = [
    ((), ("--rate", "2k", "--connections", "2", "--hardware-counters")),
    (("--workload", "crr"), ("--workload", "crr", "--schedule", "poisson:3", "--rate", "500")),
    (("--workload", "stream"), ("--workload", "stream")),
    (("--workload", "http"), ("--workload", "http", "--path", "/x")),
    (("--server-spin-us", "30ms"), ("--rate", "100", "--timeout", "20ms")),
]

ALONE: list[tuple[str, ...]] = [
    ("sender", *SENT, "--touch"),
    ("sender", *SENT, "--rate", "1%", "--line-rate", "10Gbps", "--core", CORE),
    ("sender", *SENT, "--rate", "100k", "--schedule", "poisson:3", "--vlan", "5.6",
     "--frame-size", "128"),
    ("sender", *SENT, "--rate", "100k", "--schedule", "on-off:10ms:10ms", "--ip-version", "6",
     "--frame-size", "128"),
    ("sender", *SENT, "--schedule", "ramp:0:100k:50ms", "--hardware-counters"),
    ("sender", *SENT, "--frame-size", "64*7+570*4+1518", "--rate", "50k", "--flows", "8"),
    ("sender", *SENT, "--queues", "2", "--rate", "100k", "--payload", "counter"),
    ("sender", *SENT, "--rate", "100k", "--probe-rate", "1k", "--probe-schedule", "constant"),
    ("receiver", *MADE, "--latency", "1", "--flow-groups", "4"),
    ("receiver", *MADE, "--queues", "2", "--latency", "1"),
    ("receiver", *MADE, "--expect-ttl", "63", "--expect-dscp", "1", "--expect-vlan", "none"),
    ("receiver", *MADE, "--expect-ttl", "64", "--flow-groups", "2"),
    ("tester", *SENT, *MADE, "--rate", "10k", "--next-hops", "02:00:00:00:00:09"),
    ("receiver", *MADE, "--probes", "1", "--flow-groups", "2"),
    ("receiver", *MADE, "--touch", "--ip-version", "6", "--vlan", "5.6"),
    ("receiver", *MADE, "--payload", "counter", "--vlan", "5", "--probes", "1"),
    ("server", *SENT, "--touch", "--ip-version", "6"),
    ("duplex", *MADE, "--rate", "10k", "--latency", "1"),
    ("duplex", *MADE, "--rate", "10k", "--probe-rate", "1k", "--probes", "1"),
    ("client", *SENT, "--rate", "10k", "--probe-rate", "1k"),
    ("server", *MADE, "--latency", "1"),
    ("server", *MADE, "--probes", "1", "--echo", "all"),
    ("tester", *SENT, *MADE, "--rate", "10k", "--bidirectional"),
    ("tester", *SENT, *MADE, "--rate", "10k", "--probe-rate", "1k", "--flow-groups", "2"),
    ("forwarder", *SENT, *MADE, *SENT, *SENT),
    ("reference", *MADE, *SENT, "--delay-us", "10", *FAULTS, "--limit-pps", "100000",
     "--cost-ns", "2000"),
]  # fmt: skip


def read(process: subprocess.Popen[str], until: str) -> Iterator[str]:
    """The lines up to the event of this name, or to the end."""
    assert process.stdout is not None
    for line in process.stdout:
        yield line
        if json.loads(line).get("event") == until:
            return


VERSION = re.compile(r"\d+\.\d+\.\d+(\+[0-9a-f]{12,40}(-dirty)?)?")  # and the revision, if known


class Engine:
    """One engine that waits for commands."""

    def __init__(self, *args: str) -> None:
        self.process = subprocess.Popen(
            [TRAFFIC, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines = list(read(self.process, "ready"))
        version = json.loads(self.lines[-1])["engine_version"]
        assert VERSION.fullmatch(version), f"version {version}"

    def ask(self, command: str, until: str) -> dict[str, Any]:
        """Give a command; returns the event that answers it."""
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.wait(until)

    def wait(self, until: str) -> dict[str, Any]:
        """The next event of this name."""
        self.lines += read(self.process, until)
        last: dict[str, Any] = json.loads(self.lines[-1])
        assert last["event"] == until, f"{last} where {until} was expected"
        return last

    def end(self, code: int = 0) -> list[str]:
        """Return all printed lines; the engine must exit with this code."""
        self.process.communicate()
        assert self.process.returncode == code, f"exit code {self.process.returncode}"
        return self.lines


def alone(*args: str) -> list[str]:
    """Return the lines of an engine without commands."""
    done = subprocess.run(
        [TRAFFIC, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(args)}: {done.stderr}"
    return done.stdout.splitlines()


def free_ports() -> tuple[str, str]:
    """Return two unused UDP ports."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as first,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as second,
    ):
        first.bind((OWN_IP, 0))
        second.bind((OWN_IP, 0))
        return str(first.getsockname()[1]), str(second.getsockname()[1])


def pair(far_args: tuple[str, ...], near_args: tuple[str, ...]) -> list[str]:
    """Two engines that exchange frames over the loopback device."""
    ports = free_ports()
    far = Engine(*far_args, *UDP, "--src-port", ports[0], "--dst-port", ports[1])
    near = Engine(*near_args, *UDP, "--src-port", ports[1], "--dst-port", ports[0])
    far.ask("start interval=0.05", "started")
    near.ask("start duration=0.2 interval=0.05 burst=1", "started")
    sent = near.wait("result")["totals"]["tx_offered"]
    far.ask(f"stop sent={sent}", "result")
    return near.end() + far.end()


def over_tcp(server_args: tuple[str, ...], client_args: tuple[str, ...]) -> list[str]:
    """Return the lines of a TCP server and its client over the loopback device."""
    with socket.socket() as free:
        free.bind((OWN_IP, 0))
        address = f"{OWN_IP}:{free.getsockname()[1]}"
    server = Engine("tcp-server", "--listen", address, "--interval", "0.05", *server_args)
    server.ask("start", "started")
    lines = alone("tcp-client", "--connect", address, *client_args, *NOW)
    server.ask("stop", "tcp_result")
    return lines + server.end()


def commanded() -> list[str]:
    """Answers to commands, two trials of part session, and an error."""
    engine = Engine("receiver", *SENT, "--session")
    engine.ask("verify 4", "verification")
    engine.ask("verify-broadcast 4", "verification")
    engine.ask("start", "started")
    engine.ask("stop sent=5", "result")
    engine.ask("start duration=0.02", "result")
    engine.ask("counters", "counters")
    engine.ask("nonsense", "error")
    frames = Engine("receiver", *MADE)
    frames.ask("inject " + "ab" * 60 + " " + "cd" * 14, "injected")
    frames.ask("capture 2", "capturing")
    frames.wait("captured")
    table = Engine("sender", *SENT, "--rate", "100k", "--denied-rate", "1k", "--session")
    rows = "xhIAAcYTAAIAAQACAAAAAA=="  # 16 bytes
    table.ask("table rows=2 zipf=1 seed=3", "table")
    table.ask(f"table {rows[:-2]}", "table")
    table.ask(f"table {rows}", "table")
    table.ask("denied rows=1", "table")
    table.ask(f"denied {rows}", "table")
    table.ask("start duration=0.05 interval=0.02", "result")
    tunnel = Engine("sender", *SENT, "--encap", "vxlan", "--rate", "10k")
    tunnel.ask("tunnels rows=1", "table")
    tunnel.ask("tunnels AAAAKsYTAAHGEwACAgAAAAACAgAAAAAB", "table")
    tunnel.ask("start duration=0.05 interval=0.02", "result")
    return engine.end(code=1) + frames.end() + table.end() + tunnel.end()


def replayed(folder: str) -> list[str]:
    """A file that is written, replayed and received."""
    file = f"{folder}/frames.pcap"
    replay = ("sender", *SENT, "--start", "now", "--replay", file)
    write = ("sender", "--port", f"pcap:write={file}", "--rate", "10k", *NOW)
    lines = alone(*write, "--catch-up-us", "1000000000")  # the file has frames, however late
    lines += alone(*replay, "--schedule", "recorded", "--stamp")
    lines += alone(*replay, "--loops", "2", "--rate", "1M")
    return lines + alone("receiver", "--port", f"pcap:read={file}", "--start", "now")


def all_lines() -> list[str]:
    """Return the lines of all runs."""
    with tempfile.TemporaryDirectory() as folder:
        lines = replayed(folder)
        lines += alone("sender", *SENT, *NOW, "--idle", "baton", "--baton", f"{folder}/baton")
    with ThreadPoolExecutor(4) as pool:
        each = pool.map(lambda args: alone(*args, *NOW), ALONE)
        lines += [line for printed in each for line in printed] + commanded()
    for server_args, client_args in TCP_TRIALS:
        lines += over_tcp(server_args, client_args)
    lines += pair(("receiver", "--latency", "1"), ("sender", "--rate", "5k"))
    lines += pair(("server",), ("client", "--rate", "5k"))
    return lines + pair(("server", "--probes", "1"), ("client", "--rate", "5k", "--probe-rate=1k"))


def visit(schema: dict[str, Any], value: Any, fields: Seen) -> None:
    """Record the fields of each object of an event."""
    for branch in schema.get("anyOf", []) + schema.get("oneOf", []):
        if Draft202012Validator(branch).is_valid(value):
            visit(branch, value, fields)
    if isinstance(value, dict) and "properties" in schema:
        fields[kind(schema)].append(set(value))
        for key in value.keys() & schema["properties"].keys():
            visit(schema["properties"][key], value[key], fields)
    for item in value if isinstance(value, list) else []:
        visit(schema.get("items", {}), item, fields)


def kind(schema: dict[str, Any]) -> tuple[str, ...]:
    """Return the key of an object: its fields."""
    return tuple(schema["properties"])


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object inside a value, itself first."""
    if isinstance(value, dict):
        yield value
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inside:
        yield from objects(item)


def spoilt(event: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the event with a field too many, too few, or of a wrong type, anywhere in it."""
    for index, inner in enumerate(objects(event)):
        for key in ("unknown", *inner):
            for change in ("lacks", "has a wrong"):
                changed = copy.deepcopy(event)
                at = list(objects(changed))[index]
                if change == "lacks" and key in at:
                    del at[key]
                else:
                    at[key] = ["wrong"]
                yield change, key, changed


def inlined(schema: Any) -> Any:
    """Return the schema with its references resolved."""
    if isinstance(schema, list):
        return [inlined(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    target = SCHEMA
    for step in schema.get("$ref", "#")[2:].split("/") if "$ref" in schema else ():
        target = target[step]
    siblings = {key: inlined(inner) for key, inner in schema.items() if key != "$ref"}
    return {**inlined(target), **siblings} if "$ref" in schema else siblings


EVENTS = {part["properties"]["event"]["const"]: part for part in inlined(SCHEMA["oneOf"])}
VALIDATORS = {name: Draft202012Validator(part) for name, part in EVENTS.items()}
CLOSED = [part for part in objects(EVENTS) if part.get("additionalProperties") is False]
OPTIONAL = {key for part in CLOSED for key in part["properties"] if key not in part["required"]}


def wrong_in(event: dict[str, Any]) -> list[str]:
    """Return the violations of the schema by an event."""
    name = event.get("event", "")
    if name not in VALIDATORS:
        return [f"no event of this name: {name}"]
    errors = VALIDATORS[name].iter_errors(event)
    return [f"{name}.{error.json_path}: {error.message[:200]}" for error in errors]


def not_as_required(fields: Seen) -> Iterator[str]:
    """Fields of the schema that were never printed, and optional ones that always were."""
    for schema in CLOSED:
        errors = fields[kind(schema)] or [set()]
        for key in schema["properties"].keys() - set.union(*errors) - PRIVILEGED:
            yield f"never printed: {key} of {schema['required']}"
        for key in set.intersection(*errors) - set(schema["required"]):
            yield f"always printed, but not required: {key} of {schema['required']}"


def not_refused(event: dict[str, Any]) -> Iterator[str]:
    """Yield invalid events that the schema accepts."""
    name = event["event"]
    for change, key, changed in spoilt(event):
        if VALIDATORS[name].is_valid(changed) and not (change == "lacks" and key in OPTIONAL):
            yield f"not refused: {name} {change} {key}"


def main() -> None:
    """Exit with 1 and print a line for each error."""
    fields: Seen = defaultdict(list)
    richest: dict[str, dict[str, Any]] = {}
    wrong: set[str] = set()
    printed = [json.loads(line) for line in all_lines()]
    for event in printed:
        name = event["event"]
        wrong.update(wrong_in(event))
        visit(EVENTS.get(name, {}), event, fields)
        richest[name] = max(richest.get(name, {}), event, key=len)
    wrong.update(not_as_required(fields))
    if not wrong:
        wrong.update(line for event in richest.values() for line in not_refused(event))
    print(
        *sorted(wrong), f"{len(printed)} lines, {len(fields)} kinds, {len(wrong)} wrong", sep="\n"
    )
    sys.exit(1 if wrong else 0)


main()
