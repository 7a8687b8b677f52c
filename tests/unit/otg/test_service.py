"""Requests that `switchmark otg` refuses on loopback, where every program can connect: those of
other users of the machine, and of pages in a browser."""

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
def bodies() -> list[bytes]:
    """The bodies that the service received."""
    return []


@pytest.fixture
def service(bodies: list[bytes]) -> Service:
    def take(body: bytes) -> dict[str, Any]:
        bodies.append(body)
        return {"taken": 1 / len(body)}

    routes: dict[tuple[str, str], Callable[[bytes], Any]] = {
        ("POST", "/config"): take,
        ("GET", "/capabilities/version"): take,
    }
    return cast(Service, SimpleNamespace(routes=routes))


@contextmanager
def answering(service: Service, token: str | None = None) -> Iterator[int]:
    with OtgServer(("127.0.0.1", 0), service, token) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def port(service: Service) -> Iterator[int]:
    with answering(service) as number:
        yield number


def post(port: int, body: bytes = b"{}", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request("POST", "/config", body, named)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_client_of_the_same_user_is_served(port: int, bodies: list[bytes]) -> None:
    assert post(port, **Json)[0] == 200
    assert post(port, Content_Type="application/json; charset=utf-8")[0] == 200
    assert post(port, Origin=f"http://127.0.0.1:{port}", **Json)[0] == 200
    assert bodies == [b"{}"] * 3


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content_Type": "text/plain"}, 415),  # a page can send this without permission
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
def test_page_and_malformed_request_are_refused(
    port: int, bodies: list[bytes], headers: dict[str, str], status: int, capfd: Any
) -> None:
    code, response = post(port, **headers)
    assert (code, bodies) == (status, []), response
    assert capfd.readouterr().err == ""


LARGE = b"x" * (8 << 20)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the reads of request bodies."""
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
    [("another token", Json, 401), (None, {"Origin": "http://evil.example", **Json}, 403)],
)
def test_refused_request_gets_a_response_and_is_not_stored(
    service: Service, bodies: list[bytes], reads: list[int],
    token: str | None, headers: dict[str, str], status: int,
) -> None:  # fmt: skip
    with answering(service, token) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        for body in (LARGE, b"{}"):  # the connection still works after the large body
            connection.request("POST", "/config", body, headers)
            answer = connection.getresponse()
            assert (answer.status, bodies) == (status, [])
            assert answer.read()
        connection.close()
    assert sum(reads) >= len(LARGE)
    assert max(reads) <= otg_server.PIECE_BYTES


def test_unauthorised_request_without_length_gets_401(service: Service) -> None:
    with answering(service, "another token") as port:
        assert post(port, Content_Length="many", **Json)[0] == 401


def test_fault_of_the_server_is_printed_as_one_line(port: int, capfd: Any) -> None:
    status, response = post(port, b"", **Json)
    assert status == 500 and "division by zero" in response
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("switchmark: POST /config: ZeroDivisionError: division by zero (")


def post_as_another_user(port: int, then: str) -> str:
    """Return the response to another user of the machine, whose shell runs `then` after the
    request."""
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
def test_another_user_is_refused_with_a_remedy(port: int, bodies: list[bytes]) -> None:
    response = post_as_another_user(port, "cat <&3")
    assert response.startswith("HTTP/1.1 403 ") and bodies == []
    assert f"to another user (uid {NOBODY})" in response and "--token-file" in response


@as_another
def test_closed_connection_does_not_count_as_root(port: int, bodies: list[bytes]) -> None:
    """The kernel reports user 0 for a closed socket."""
    for _ in range(20):
        post_as_another_user(port, "exec 3>&-")
    assert post(port, b"after", **Json)[0] == 200
    assert bodies == [b"after"]


@as_another
def test_user_of_sudo_is_served(
    port: int, bodies: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    assert post_as_another_user(port, "cat <&3").startswith("HTTP/1.1 200 ")
    assert bodies == [b"{}"]


# The imports come first: another user may not be able to read the files.
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
    service: Service, bodies: list[bytes], address: str
) -> None:
    pytest.importorskip("grpc")
    server = GrpcServer((address, 0), service)
    shown = f"[{address}]" if ":" in address else address

    def output(user: str) -> str:
        command = [sys.executable, "-c", GRPC, f"{shown}:{server.port}", user]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        return done.stdout + done.stderr

    try:
        refused = output("nobody")
        assert refused.startswith("PERMISSION_DENIED") and "--token-file" in refused
        assert bodies == []
        output("root")
        assert len(bodies) == 1
    finally:
        server.close()


def test_token_permits_clients_of_all_users() -> None:
    callers.check_caller(("127.0.0.1", 1), ("127.0.0.1", 2), "token")
