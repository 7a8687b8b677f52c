"""The rules of all HTTP servers of switchmark: they serve this machine only, unless they have a
certificate and a token, and no client blocks another."""

from __future__ import annotations

import base64
import hmac
import ipaddress
import re
import ssl
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from switchmark.errors import UnavailableError, UsageError

LOOPBACK = "127.0.0.1"
SILENCE_S = 30.0  # a silent client is disconnected after this time
SHORTEST_TOKEN = 16
_PLACE = re.compile(r"(?:\[?(?P<host>[^\]]+?)\]?:)?(?P<port>\d{1,5})")


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_place(text: str, option: str) -> tuple[str, int]:
    """Read `9464`, or `0.0.0.0:9464` to listen beyond this machine. Raises UsageError."""
    match = _PLACE.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise UsageError(
            f"{option} {text}: is not a port; write e.g. 9464, or ADDRESS:9464 for other machines"
        )
    host = match["host"] or LOOPBACK
    try:
        host.encode("idna")
    except UnicodeError:
        raise UsageError(f"{option} {text}: no host can be called so") from None
    return host, int(match["port"])


def shown(place: tuple[str, int]) -> str:
    """A place in the form of addresses."""
    return f"[{place[0]}]:{place[1]}" if ":" in place[0] else f"{place[0]}:{place[1]}"


def read_token(path: Path | None) -> str | None:
    """Read the token in a file. Raises UsageError where it cannot be read or is too short."""
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
    """The context for HTTPS; None without a certificate. Raises UsageError."""
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--certificate {certificate}: cannot be used ({error})") from None
    return context


def has_valid_token(authorization: str | None, token: str | None) -> bool:
    """Return True if a request's header has the token, as a bearer or as the password of basic
    authentication (https://anybody:TOKEN@host); also if no token is required."""
    if token is None:
        return True
    kind, _, given = (authorization or "").partition(" ")
    if kind.lower() == "basic":
        try:
            given = base64.b64decode(given).decode("ascii").partition(":")[2]
        except ValueError:
            return False
    elif kind.lower() != "bearer":
        return False
    return hmac.compare_digest(given.encode(), token.encode())


def is_foreign(headers: Message, token: str | None) -> bool:
    """Return True if a foreign web page may have made a browser send this request: by DNS rebinding
    to a server without a token, or with the page's origin."""
    place, origin = headers.get("Host"), headers.get("Origin")
    if origin is not None and origin.partition("://")[2] != place:
        return True
    return token is None and not _names_this_machine(place)


def _names_this_machine(host: str | None) -> bool:
    name = (host or "").strip()
    name = name.partition("]")[0].lstrip("[") if name.startswith("[") else name.partition(":")[0]
    return is_loopback(name)


def demand_guard(option: str, place: tuple[str, int], guarded: bool) -> None:
    """Raise UsageError for a place that others can reach without a certificate and a token."""
    if not is_loopback(place[0]) and not guarded:
        raise UsageError(
            f"{option} {place[0]}: others can reach it: give --certificate, --key and "
            "--token-file, or listen at 127.0.0.1"
        )


def cannot_listen(option: str, place: tuple[str, int], reason: str) -> str:
    """The message about an address that is taken, or not ours."""
    return f"{option} {shown(place)}: cannot listen there ({reason}); name another port"


class GuardedServer(ThreadingHTTPServer):
    """HTTP, or HTTPS, at one address; beyond this machine only with a certificate and a token.

    Raises UsageError, or UnavailableError where the address is taken."""

    daemon_threads = True

    def __init__(
        self,
        place: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        demand_guard("--listen", place, token is not None and tls is not None)
        self.token, self._tls = token, tls
        try:
            super().__init__(place, handler)
        except OSError as error:
            raise UnavailableError(
                cannot_listen("--listen", place, error.strerror or str(error))
            ) from None

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Shake hands in the thread of the request, so that a client that does not keeps no other
        waiting."""
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
        """Ignore a client that went away."""
