"""Records contain the socket buffers and the scheduling classes that the kernel granted."""

from __future__ import annotations

import contextlib
import os
import socket

import pytest

from switchmark.record import Record
from tests.integration.main_job import SHORT, Bench, need, settings, went_well

pytestmark = pytest.mark.integration
NICE = 3
LATER = (  # the bench, with a lower priority
    f"import os, runpy; os.nice({NICE}); runpy.run_module('switchmark.cli.main', "
    "run_name='__main__')"
)
ASKED = 64 << 20


def granted_here(forced: bool) -> int:
    """Return the receive buffer that the kernel grants this process for the engine's request."""
    force = getattr(socket, "SO_RCVBUFFORCE", 33)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp_socket:
        udp_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ASKED)
        if forced:
            with contextlib.suppress(PermissionError):
                udp_socket.setsockopt(socket.SOL_SOCKET, force, ASKED)
        return udp_socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


def measured(bench: Bench, *more: str) -> Record:
    code, _, err = bench.run_to_the_end(
        "trial", "af-packet", "--environment", "netns", "--no-baseline", "--duration", "1s",
        *settings(*SHORT, *more),
    )  # fmt: skip
    assert went_well(code, err), err
    found = [one for one in bench.records() if one.status == "finished"]
    if not found:
        pytest.skip("the rest of the machine starved every trial")
    return found[-1]


def test_record_contains_granted_buffers_and_classes(bench: Bench) -> None:
    need(("af-packet",), ("netns",))
    nice = min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICE)
    bench.program = ("-c", LATER)
    given = measured(bench).granted
    assert given is not None
    assert given.asked_buffer_bytes == 2 * ASKED
    assert given.receive_buffer_bytes == granted_here(forced=True)
    assert bool(given.differs) == (granted_here(forced=True) < 2 * ASKED)
    assert given.applications_class == given.switch_class == f"other nice {nice}"


def test_unforced_buffers_are_those_of_an_ordinary_user(bench: Bench) -> None:
    need(("af-packet",), ("netns",))
    record = measured(bench, "socket_buffers=unforced")
    assert record.granted is not None
    assert record.granted.receive_buffer_bytes == granted_here(forced=False)
    assert record.granted.differs == []
    assert all("--unforced-buffers" in one.args for one in record.engines)
