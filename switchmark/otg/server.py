"""The HTTP and HTTPS server of the API. It requires a token if other hosts can reach it."""

from __future__ import annotations

import json
import ssl
from contextlib import suppress
from http.server import BaseHTTPRequestHandler

from switchmark.http_guard import GuardedServer, has_valid_token, is_foreign
from switchmark.otg.callers import check_caller
from switchmark.otg.refusal import NOT_HERE, Refused, error_document, fault
from switchmark.otg.service import Answer, Service

MOST_BYTES = 64 << 20  # the largest request
MOST_DIGITS = 12  # the longest Content-Length
PIECE_BYTES = 1 << 16  # the read size for a body that is discarded


class OtgServer(GuardedServer):
    """The API at one address. `token`: a client must send it, as a bearer or as the password of
    basic authentication (https://otg:TOKEN@host)."""

    def __init__(
        self,
        place: tuple[str, int],
        service: Service,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.service = service
        super().__init__(place, _ApiHandler, token, tls)


class _ApiHandler(BaseHTTPRequestHandler):
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
        """Log nothing: a client that polls would fill the screen."""

    def _answer(self, method: str) -> None:
        try:
            try:
                self._send(200, self._result(method))
            except Refused as refused:
                self._send(refused.code, error_document(refused.code, refused.errors))
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _result(self, method: str) -> Answer:
        try:
            self._check_caller()
        except Refused:
            self._discard_body()
            raise
        body = self.rfile.read(self._length())
        route = self.server.service.routes.get((method, self.path.partition("?")[0]))
        if route is None:
            raise Refused(f"{method} {self.path}: {NOT_HERE}", code=501)
        try:
            return route(body)
        except Refused:
            raise
        except Exception as error:
            raise fault(f"{method} {self.path}", error) from None

    def _check_caller(self) -> None:
        """Raise `Refused` for an unauthorised request, or for a request that a page of another site
        may have made a browser send. Such a page cannot send JSON with its content type unless the
        server permits it beforehand."""
        token = self.server.token
        if not has_valid_token(self.headers.get("Authorization"), token):
            raise Refused("the token is missing or wrong", code=401)
        if is_foreign(self.headers, token):
            raise Refused("Host or Origin: names another server; use this one's address", code=403)
        if self.command != "GET" and self.headers.get_content_type() != "application/json":
            raise Refused("Content-Type: must be application/json", code=415)
        check_caller(self.client_address, self.connection.getsockname(), token)

    def _length(self) -> int:
        """Return the length of the request's body. Raises `Refused`."""
        text = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not (text.isascii() and text.isdecimal()):
            self.close_connection = True
            raise Refused("Content-Length: must be the number of bytes of the body", code=411)
        if len(text) > MOST_DIGITS or int(text) > MOST_BYTES:
            self.close_connection = True
            raise Refused(
                f"Content-Length: {text[:MOST_DIGITS]} is too long; send at most {MOST_BYTES} "
                "bytes",
                code=413,
            )
        return int(text)

    def _discard_body(self) -> None:
        """Read and discard the body of a refused request: a client that still sends would not read
        the response."""
        with suppress(Refused):  # the length is invalid, and the connection will be closed
            left = self._length()
            while left and (piece := self.rfile.read(min(left, PIECE_BYTES))):
                left -= len(piece)

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
