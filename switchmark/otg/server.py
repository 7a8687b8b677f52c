"""HTTP and HTTPS in front of the service, with a token where others could reach it."""

from __future__ import annotations

import base64
import hmac
import ipaddress
import json
import ssl
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from switchmark.errors import UnavailableError, UsageError
from switchmark.otg.refusal import Refused
from switchmark.otg.service import Answer, Service

MOST_BYTES = 64 << 20  # of a request
SILENCE_S = 30.0  # after which a client that says nothing is left
SHORTEST_TOKEN = 16


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(path: Path | None) -> str | None:
    """The token in a file. Raises UsageError for one that is no secret."""
    if path is None:
        return None
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file {path}: cannot be read ({error})") from None
    if len(token) < SHORTEST_TOKEN:
        raise UsageError(
            f"--token-file {path}: holds fewer than {SHORTEST_TOKEN} characters; write e.g. "
            f"openssl rand -hex 32 > {path}"
        )
    return token


def tls_context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """For HTTPS; None without a certificate. Raises UsageError."""
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--certificate {certificate}: cannot be used ({error})") from None
    return context


class OtgServer(ThreadingHTTPServer):
    """The API at one address. `token`: what a client must say, as a bearer or as the password of
    basic authentication (https://otg:TOKEN@host)."""

    daemon_threads = True

    def __init__(
        self,
        place: tuple[str, int],
        service: Service,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if not is_loopback(place[0]) and (token is None or tls is None):
            raise UsageError(
                f"--listen {place[0]}: others can reach it: give --certificate, --key and "
                "--token-file, or listen at 127.0.0.1"
            )
        self.service, self.token, self._tls = service, token, tls
        try:
            super().__init__(place, _Handler)
        except OSError as error:
            raise UnavailableError(
                f"--listen {place[0]}:{place[1]}: cannot listen there ({error.strerror or error}); "
                "name another port"
            ) from None

    def finish_request(self, request: Any, client_address: Any) -> None:
        """In the thread of the request: a client that does not shake hands keeps no other."""
        request.settimeout(SILENCE_S)
        if self._tls is not None:
            try:
                request = self._tls.wrap_socket(request, server_side=True)
            except OSError:
                return
        super().finish_request(request, client_address)
        if self._tls is not None:
            request.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: OtgServer
    server_version = "switchmark"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_PATCH(self) -> None:
        self._answer("PATCH")

    def log_message(self, *_: object) -> None:
        """Nothing: a client that polls would fill the screen."""

    def _answer(self, method: str) -> None:
        try:
            body = self._body()
            if not self._is_known():
                self._send(401, _error(401, ["the token is missing or wrong"]))
                return
            route = self.server.service.routes.get((method, self.path.partition("?")[0]))
            if route is None:
                told = f"{method} {self.path}: is not supported here (docs/interfaces.md)"
                self._send(501, _error(501, [told]))
                return
            self._send(200, route(body))
        except Refused as refused:
            self._send(refused.code, _error(refused.code, refused.errors))
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        except Exception as error:
            traceback.print_exc()
            self._send(500, _error(500, [f"{type(error).__name__}: {error}"]))

    def _body(self) -> bytes:
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 <= length <= MOST_BYTES:
            self.close_connection = True
            raise Refused(f"{length} bytes cannot be; {MOST_BYTES} at most", code=413)
        return self.rfile.read(length)

    def _is_known(self) -> bool:
        token = self.server.token
        if token is None:
            return True
        kind, _, given = (self.headers.get("Authorization") or "").partition(" ")
        if kind.lower() == "basic":
            try:
                given = base64.b64decode(given).decode("ascii").partition(":")[2]
            except ValueError:
                return False
        elif kind.lower() != "bearer":
            return False
        return hmac.compare_digest(given.encode(), token.encode())

    def _send(self, code: int, answer: Answer) -> None:
        is_file = isinstance(answer, bytes)
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(code)
        if code == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="switchmark"')
        kind = "application/octet-stream" if is_file else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _error(code: int, errors: list[str]) -> Answer:
    kind = "internal" if code >= 500 else "validation"
    return {"code": code, "kind": kind, "errors": errors}
