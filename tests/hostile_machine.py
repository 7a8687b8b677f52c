"""Readers of the output of the kernel and of container engines about groups and processes, of files
that stay on this machine between runs, and of requests to a server."""

from __future__ import annotations

import io
import os
import re
from http.client import HTTPException, parse_headers
from pathlib import Path
from types import SimpleNamespace

from hypothesis import strategies as st

from switchmark.environment.vm import accelerator
from switchmark.environment.vm.command import EMULATED
from switchmark.host.containers import in_container, lxc_remains
from switchmark.host.kernel import cgroups
from switchmark.host.session import _refusal
from switchmark.http_guard import has_valid_token, is_foreign, parse_place, read_token
from switchmark.results.documents import read_resumption
from switchmark.testbed.target import read_target
from tests.hostile_inputs import BAD, Reader, answers, edited, from_file

CONTAINER = "smabc123tx0"
ACCELERATOR = {"name": "kvm", "reason": "a guest was started on it"}
OWNER = {
    "session": "abc123", "pid": 1, "start_ticks": 0, "boot_id": "x", "command": "c",
    "opened_at": "2026-01-01T00:00:00+00:00",
}  # fmt: skip
RESUMPTION = {
    "resumed_at": "2026-01-01T00:00:00Z", "switchmark_version": "1", "campaign_sha256": "0",
    "campaign_changed": False, "settings": {}, "host": {},
}  # fmt: skip
TARGET = """
description: the rack's third server
sockets: 2
cores: 12
threads: 2
isolated: 2-11
switches: [ovs-dpdk, vpp]
environments: [netns, lxc]
nics: [eth2, "0000:03:00.0"]
hosts: 2
"""
HEADERS = "Host: 127.0.0.1:8088\r\nOrigin: http://127.0.0.1:8088\r\nAuthorization: {}\r\n\r\n"


def _group(name: bytes) -> None:
    """The owner of a group chooses its name; the kernel refuses only the end of a line."""
    content = b"4:cpu,cpuacct:/user/%s\n1:name=systemd:/\n0::/%s (deleted)\n" % (name, name)
    first, _, last = cgroups.memberships(content=content)
    assert first.controllers == ("cpu", "cpuacct") and last.hierarchy == "0"
    assert os.fsencode(first.path) == b"user/" + name.rstrip(b"/")
    assert os.fsencode(last.path) == name + b" (deleted)"


def _lxc_group(name: str) -> None:
    is_of_bench = lxc_remains.is_of(name, CONTAINER)
    assert not is_of_bench or re.sub("-[0-9]+$", "", name).rpartition(".")[2] == CONTAINER


def _container_pid(text: str) -> None:
    host = SimpleNamespace(run=lambda *_, **__: SimpleNamespace(exit_code=0, stdout=text))
    pid = in_container._query_pid(host, ["lxc-info"])
    assert pid is None or 0 < pid < 1 << 31  # a signal can be sent to it


def _accelerator(text: str) -> None:
    found = accelerator.parse_outcome(text.encode(errors="surrogatepass"))
    assert found is None or (found.name in ("kvm", EMULATED) and found.reason.encode)


def _lock(path: Path) -> str:
    fd = os.open(path, os.O_RDONLY)
    try:
        return _refusal(fd)
    finally:
        os.close(fd)


def _headers(text: str) -> object:
    headers = parse_headers(io.BytesIO(text.encode(errors="replace")))
    token = "0123456789abcdef"
    return (
        has_valid_token(headers.get("Authorization"), token),
        is_foreign(headers, token),
        is_foreign(headers, None),
    )


MACHINE: dict[str, Reader] = {
    "names of control groups": Reader(
        _group,
        st.binary(min_size=1, max_size=30).filter(
            lambda name: not set(name) & set(b"\n/\0") and name not in (b".", b"..")
        )),
    "groups of a process": Reader(
        lambda text: cgroups.memberships(content=text.encode(errors="surrogatepass")),
        edited(["4:cpu,cpuacct:/a\n1:name=systemd:/\n0::/b/c\n"])),
    "names of LXC's groups": Reader(
        _lxc_group, edited([f"lxc.payload.{CONTAINER}-1", f"lxc.pivot.{CONTAINER}"])),
    "process of a container": Reader(_container_pid, edited(["4711\n", "0\n", "²", "9999999"])),
    "accelerator's file": Reader(_accelerator, answers(ACCELERATOR)),
    "lock": Reader(from_file("measuring.lock", _lock), answers(OWNER)),
    "resumption": Reader(from_file("resumed-1.json", read_resumption), answers(RESUMPTION), BAD),
    "target": Reader(lambda text: read_target(text, "target.yaml"), edited([TARGET]), BAD),
    "place to listen at": Reader(
        lambda text: parse_place(text, "--listen")[0].encode("idna"),
        edited(["0.0.0.0:8443", "[::1]:80"]), BAD),
    "token": Reader(from_file("token", read_token), edited(["0123456789abcdef\n"]), BAD),
    "headers of a request": Reader(
        _headers,
        edited([HEADERS.format("Basic eDphYmNk"), HEADERS.format("Bearer 0123456789abcdef")]),
        (HTTPException,)),
}  # fmt: skip
