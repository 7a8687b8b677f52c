"""HTTP and HTTPS in front of the service, with a token where others could reach it."""

from __future__ import annotations

import json
import ssl
import traceback
from http.server import BaseHTTPRequestHandler

from switchmark.listening import GuardedServer, says_token
from switchmark.otg.refusal import NOT_HERE, Refused, error_document
from switchmark.otg.service import Answer, Service

MOST_BYTES = 64 << 20  # of a request


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
            body = self._body()
            if not says_token(self.headers.get("Authorization"), self.server.token):
                self._send(401, error_document(401, ["the token is missing or wrong"]))
                return
            route = self.server.service.routes.get((method, self.path.partition("?")[0]))
            if route is None:
                raise Refused(f"{method} {self.path}: {NOT_HERE}", code=501)
            self._send(200, route(body))
        except Refused as refused:
            self._send(refused.code, error_document(refused.code, refused.errors))
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        except Exception as error:
            traceback.print_exc()
            self._send(500, error_document(500, [f"{type(error).__name__}: {error}"]))

    def _body(self) -> bytes:
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 <= length <= MOST_BYTES:
            self.close_connection = True
            raise Refused(f"{length} bytes cannot be; {MOST_BYTES} at most", code=413)
        return self.rfile.read(length)

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
