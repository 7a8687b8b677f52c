"""Who is refused by `switchmark otg` on loopback, where anybody can connect: other users of the
machine, and pages that a browser shows there."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from switchmark.otg import callers
from switchmark.otg import server as otg_server
from switchmark.otg.grpc_server import GrpcServer
from switchmark.otg.server import OtgServer
from switchmark.otg.service import Service
from tests.places import needs_another_user

NOBODY = 65534
as_another = needs_another_user
by_ipv6 = pytest.mark.skipif(
    not Path("/proc/sys/net/ipv6/conf/lo/disable_ipv6").exists()
    or Path("/proc/sys/net/ipv6/conf/lo/disable_ipv6").read_text() != "0\n",
    reason="no IPv6 here",
)
Json = {"Content-Type": "application/json"}


@pytest.fixture
def asked() -> list[bytes]:
    """The bodies that reached the service."""
    return []


@pytest.fixture
def service(asked: list[bytes]) -> Service:
    def take(body: bytes) -> dict[str, Any]:
        asked.append(body)
        return {"taken": 1 / len(body)}

    routes: dict[tuple[str, str], Callable[[bytes], Any]] = {
        ("POST", "/config"): take,
        ("GET", "/capabilities/version"): take,
    }
    return cast(Service, SimpleNamespace(routes=routes))


@contextmanager
def answering(service: Service, token: str | None = None) -> Iterator[int]:
    with OtgServer(("127.0.0.1", 0), service, token) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield made.server_port
        made.shutdown()
        thread.join()


@pytest.fixture
def port(service: Service) -> Iterator[int]:
    with answering(service) as one:
        yield one


def post(port: int, body: bytes = b"{}", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request("POST", "/config", body, named)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_client_of_our_own_is_answered(port: int, asked: list[bytes]) -> None:
    assert post(port, **Json)[0] == 200
    assert post(port, Content_Type="application/json; charset=utf-8")[0] == 200
    assert post(port, Origin=f"http://127.0.0.1:{port}", **Json)[0] == 200
    assert asked == [b"{}"] * 3


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content_Type": "text/plain"}, 415),  # what a page may send without asking
        ({}, 415),
        ({"Host": "evil.example:8080", **Json}, 403),
        ({"Origin": "http://evil.example", **Json}, 403),
        ({"Origin": "null", **Json}, 403),
        ({"Origin": "http://127.0.0.1:1", **Json}, 403),
        ({"Content_Length": "many", **Json}, 411),
        ({"Content_Length": "-1", **Json}, 411),
        ({"Content_Length": "9" * 5000, **Json}, 413),
        ({"Transfer_Encoding": "chunked", **Json}, 411),
    ],
)
def test_a_page_and_a_malformed_request_are_refused(
    port: int, asked: list[bytes], headers: dict[str, str], status: int, capfd: Any
) -> None:
    found, said = post(port, **headers)
    assert (found, asked) == (status, []), said
    assert capfd.readouterr().err == ""


LARGE = b"x" * (8 << 20)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of bodies, or of their pieces, as they are read."""
    sizes: list[int] = []
    real = otg_server._ApiHandler.setup

    def setup(handler: Any) -> None:
        real(handler)
        whole = handler.rfile.read

        def read(size: int) -> Any:
            sizes.append(size)
            return whole(size)

        handler.rfile.read = read

    monkeypatch.setattr(otg_server._ApiHandler, "setup", setup)
    return sizes


@pytest.mark.parametrize(
    ("token", "headers", "status"),
    [("a token of theirs", Json, 401), (None, {"Origin": "http://evil.example", **Json}, 403)],
)
def test_who_is_refused_reads_so_and_no_body_of_his_is_held(
    service: Service, asked: list[bytes], reads: list[int],
    token: str | None, headers: dict[str, str], status: int,
) -> None:  # fmt: skip
    with answering(service, token) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        for body in (LARGE, b"{}"):  # (and the connection is as good as before)
            connection.request("POST", "/config", body, headers)
            answer = connection.getresponse()
            assert (answer.status, asked) == (status, [])
            assert answer.read()
        connection.close()
    assert sum(reads) >= len(LARGE)
    assert max(reads) <= otg_server.PIECE_BYTES


def test_who_is_refused_and_gives_no_length_is_told_why_he_is_refused(service: Service) -> None:
    with answering(service, "a token of theirs") as port:
        assert post(port, Content_Length="many", **Json)[0] == 401


def test_a_fault_of_ours_is_a_line(port: int, capfd: Any) -> None:
    status, said = post(port, b"", **Json)
    assert status == 500 and "division by zero" in said
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("switchmark: POST /config: ZeroDivisionError: division by zero (")


def nobody_posts(port: int, then: str) -> str:
    """What another user of the machine is answered, who does this after the request."""
    request = r"POST /config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    request += r"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    script = f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf '{request}' >&3; {then}"
    done = subprocess.run(
        ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups",
         "bash", "-c", script],
        capture_output=True, text=True, check=True, timeout=300, cwd="/",
    )  # fmt: skip
    return done.stdout


@as_another
def test_another_user_is_refused_with_a_remedy(port: int, asked: list[bytes]) -> None:
    said = nobody_posts(port, "cat <&3")
    assert said.startswith("HTTP/1.1 403 ") and asked == []
    assert f"of another user (uid {NOBODY})" in said and "--token-file" in said


@as_another
def test_who_closes_the_connection_is_not_taken_for_root(port: int, asked: list[bytes]) -> None:
    """Of a socket that is closed the kernel says user 0."""
    for _ in range(20):
        nobody_posts(port, "exec 3>&-")
    assert post(port, b"after", **Json)[0] == 200
    assert asked == [b"after"]


@as_another
def test_who_started_it_by_sudo_is_no_other_user(
    port: int, asked: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    assert nobody_posts(port, "cat <&3").startswith("HTTP/1.1 200 ")
    assert asked == [b"{}"]


# All is imported while it may be read.
GRPC = f"""
import os, sys, grpc, grpc._channel
from snappi import otg_pb2, otg_pb2_grpc
if sys.argv[2] == "nobody":
    os.setgroups([]); os.setresgid(*[{NOBODY}] * 3); os.setresuid(*[{NOBODY}] * 3)
stub = otg_pb2_grpc.OpenapiStub(grpc.insecure_channel(sys.argv[1]))
try:
    print(stub.GetVersion(otg_pb2.google_dot_protobuf_dot_empty__pb2.Empty(), timeout=120))
except grpc.RpcError as error:
    print(error.code().name, error.details())
"""


@as_another
@pytest.mark.parametrize("address", ["127.0.0.1", pytest.param("::1", marks=by_ipv6), "localhost"])
def test_another_user_is_refused_by_grpc(
    service: Service, asked: list[bytes], address: str
) -> None:
    pytest.importorskip("grpc")
    server = GrpcServer((address, 0), service)
    shown = f"[{address}]" if ":" in address else address

    def said(user: str) -> str:
        words = [sys.executable, "-c", GRPC, f"{shown}:{server.port}", user]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
        return done.stdout + done.stderr

    try:
        refused = said("nobody")
        assert refused.startswith("PERMISSION_DENIED") and "--token-file" in refused
        assert asked == []
        said("root")
        assert len(asked) == 1
    finally:
        server.close()


def test_with_a_token_no_user_is_another() -> None:
    callers.check_caller(("127.0.0.1", 1), ("127.0.0.1", 2), "token")
