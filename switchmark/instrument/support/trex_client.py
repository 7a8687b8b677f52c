"""Drives one TRex server in its network namespace, by the Python client of the user's TRex folder.

It is a separate program, because that client has its own libraries. Standard input and output have
lines of JSON. The first argument is the client's folder, the second the request as JSON. It prints
its counters after each line, with the time (CLOCK_MONOTONIC) of the middle of the query.

    {"do": "start", "duration_s": 2.0}   starts the stream; -1: until it is stopped
    {"do": "stop"}                       ends it
    {"do": "read"}                       the port's counters
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONNECT_TIMEOUT_S = 60.0
PORT = 0


def main() -> None:
    """Connect, prepare the port, and answer line by line until the end of the input."""
    folder, request = sys.argv[1], json.loads(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the libraries also print
    try:
        client = connected(folder, request)
        say(answers, {"ready": True, **prepared(client, request)})
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] == "start":
                duration_s = command["duration_s"]
                client.start(ports=[PORT], mult=request["mult"], duration=duration_s, force=True)
            elif command["do"] == "stop":
                client.stop(ports=[PORT])
            say(answers, read(client))
        client.disconnect()
    except Exception as error:
        say(answers, {"error": " ".join(str(error).split()) or type(error).__name__})
        raise SystemExit(1) from None


def connected(folder: str, request: Mapping[str, Any]) -> Any:
    """Return a client that has the port exclusively, when its server answers."""
    sys.path.insert(0, folder)
    from trex.stl.api import STLClient, TRexError  # type: ignore[import-not-found]

    deadline = time.monotonic() + CONNECT_TIMEOUT_S
    while True:
        client = STLClient(
            server="127.0.0.1", sync_port=request["sync_port"], async_port=request["async_port"]
        )
        try:
            client.connect()
        except TRexError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            client.reset(ports=[PORT])
            return client


def prepared(client: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    """Give the port a stream for each frame of the file, if it sends; return the server's
    version."""
    from trex.stl.api import STLPktBuilder, STLStream, STLTXCont

    client.set_port_attr(ports=[PORT], promiscuous=True)
    if path := request.get("frames"):
        frames = [bytes.fromhex(line) for line in Path(path).read_text("ascii").splitlines()]
        each_pps = request["pps"] / len(frames)
        # At a set rate the streams begin one after the other, so that frames are sent in turn.
        step_us = 1e6 / request["pps"] if request["mult"] == "1" else 0.0
        streams = [
            STLStream(
                packet=STLPktBuilder(pkt_buffer=frame),
                isg=number * step_us,
                mode=STLTXCont(pps=each_pps),
            )
            for number, frame in enumerate(frames)
        ]
        client.add_streams(streams, [PORT])
    client.clear_stats(ports=[PORT])
    info = client.get_port_info(ports=[PORT])[0]
    version = client.get_server_version()
    return {"version": str(version.get("version", "")), "driver": str(info.get("driver", ""))}


def read(client: Any) -> dict[str, Any]:
    """Return the port's counters since they were cleared, and whether it sends."""
    before_ns = time.monotonic_ns()
    found = client.get_stats(ports=[PORT])
    after_ns = time.monotonic_ns()
    port, whole = found[PORT], found.get("global", {})
    return {
        "t_ns": (before_ns + after_ns) // 2,
        "sent": int(port["opackets"]),
        "received": int(port["ipackets"]),
        "output_errors": int(port.get("oerrors", 0)),
        "input_errors": int(port.get("ierrors", 0)),
        "queue_full": int(whole.get("queue_full", 0)),
        "sends": bool(client.is_traffic_active(ports=[PORT])),
    }


def say(answers: Any, answer: Mapping[str, Any]) -> None:
    """Write one line."""
    answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
