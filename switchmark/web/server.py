"""HTTP in front of the pages: GET and HEAD alone, and a policy that no page can leave.

Without a token it answers only requests that name this machine, so that foreign web pages cannot
read results by DNS rebinding.
"""

from __future__ import annotations

import ssl
import traceback
from http.server import BaseHTTPRequestHandler

from switchmark.http_guard import GuardedServer, has_valid_token, is_foreign
from switchmark.report.page import page_policy
from switchmark.web.site import TEXT, Shown, WebSite

METHODS = "GET, HEAD"


class SiteServer(GuardedServer):
    """Serves the pages at one address."""

    def __init__(
        self,
        place: tuple[str, int],
        site: WebSite,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.site = site
        super().__init__(place, _PageHandler, token, tls)


class _PageHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: SiteServer
    server_version = "switchmark"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        """Log nothing: a team that reads would fill the screen."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what the library refuses, such as other methods, in one line and without the
        library's words."""
        del message, explain
        self.close_connection = True
        code = 405 if code == 501 else code
        self._send(Shown(code, b"this is read with GET and HEAD\n", TEXT))

    def _answer(self) -> None:
        try:
            if self.headers.get("Content-Length") or self.headers.get("Transfer-Encoding"):
                self.close_connection = True  # the body would be read as a request
            self._send(self._shown())
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _shown(self) -> Shown:
        if not has_valid_token(self.headers.get("Authorization"), self.server.token):
            return Shown(401, b"the token is missing or wrong\n", TEXT)
        if is_foreign(self.headers, self.server.token):
            return Shown(403, b"without a token this is served to this machine alone\n", TEXT)
        try:
            return self.server.site.show(self.path)
        except Exception:  # the page is lost, not the server
            traceback.print_exc()
            return Shown(500, b"this page could not be made; the server says why\n", TEXT)

    def _send(self, shown: Shown) -> None:
        self.send_response(shown.status)
        if shown.status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="switchmark"')
        if shown.status == 405:
            self.send_header("Allow", METHODS)
        self.send_header("Content-Type", shown.kind)
        self.send_header("Content-Length", str(len(shown.body)))
        self.send_header("Content-Security-Policy", f"{page_policy()}; frame-ancestors 'none'")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cache-Control", "no-store")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(shown.body)
