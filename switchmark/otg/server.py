"""HTTP and HTTPS in front of the service, with a token where others could reach it."""

from __future__ import annotations

import json
import ssl
from contextlib import suppress
from http.server import BaseHTTPRequestHandler

from switchmark.http_guard import GuardedServer, is_foreign, says_token
from switchmark.otg.callers import check_caller
from switchmark.otg.refusal import NOT_HERE, Refused, error_document, fault
from switchmark.otg.service import Answer, Service

MOST_BYTES = 64 << 20  # of a request
MOST_DIGITS = 12  # of a length
PIECE_BYTES = 1 << 16  # of a body that nobody will read


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
                self._send(200, self._answered(method))
            except Refused as refused:
                self._send(refused.code, error_document(refused.code, refused.errors))
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _answered(self, method: str) -> Answer:
        try:
            self._check_caller()
        except Refused:
            self._pass_over()
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
        """Raise `Refused` for a request of who may not ask, or that a browser may have been made
        to send: no page of elsewhere can send JSON as such without asking beforehand."""
        token = self.server.token
        if not says_token(self.headers.get("Authorization"), token):
            raise Refused("the token is missing or wrong", code=401)
        if is_foreign(self.headers, token):
            raise Refused("Host and Origin: name another place than this server", code=403)
        if self.command != "GET" and self.headers.get_content_type() != "application/json":
            raise Refused("Content-Type: must be application/json", code=415)
        check_caller(self.client_address, self.connection.getsockname(), token)

    def _length(self) -> int:
        """How long the request's body is. Raises `Refused`."""
        text = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not (text.isascii() and text.isdecimal()):
            self.close_connection = True
            raise Refused("Content-Length: must be the number of bytes of the body", code=411)
        if len(text) > MOST_DIGITS or int(text) > MOST_BYTES:
            self.close_connection = True
            raise Refused(f"{MOST_BYTES} bytes at most, not {text[:MOST_DIGITS]}", code=413)
        return int(text)

    def _pass_over(self) -> None:
        """Read the body of a request that is refused, and keep nothing of it: a client that still
        sends would not see the answer."""
        with suppress(Refused):  # of no known length: the connection is closed
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
