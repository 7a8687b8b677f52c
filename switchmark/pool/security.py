"""Who may join a pool: on one machine its user, beyond it holders of a certificate.

Dask's messages are Python objects: who can send one can run code. So both sides show a certificate
of the pool's own authority (mutual TLS), which also authorises them; on loopback, too, where every
user of the machine can connect, and agents are root.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from distributed.security import Security

from switchmark.errors import UsageError
from switchmark.http_guard import is_loopback, shown
from switchmark.pool.own_certificate import own_certificate


@dataclass(frozen=True, slots=True)
class Credentials:
    """The files by which a program proves that it belongs to the pool, and recognises the
    others."""

    authority: Path  # whose certificates are believed: the pool's own, and no public one
    certificate: Path
    key: Path

    def security(self) -> Security:
        """The credentials as Dask takes them. Raises UsageError for files that cannot be used."""
        for path in (self.authority, self.certificate, self.key):
            try:
                path.read_bytes()
            except OSError as error:
                raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
        self._check()
        files = {"cert": str(self.certificate), "key": str(self.key)}
        return Security(
            tls_ca_file=str(self.authority),
            require_encryption=True,
            **{
                f"tls_{role}_{part}": path
                for role in ("scheduler", "worker", "client")
                for part, path in files.items()
            },
        )

    def _check(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(self.authority)
        except ssl.SSLError:
            raise UsageError(f"--authority {self.authority}: holds no certificate (PEM)") from None
        try:
            context.load_cert_chain(self.certificate, self.key, password="")
        except (ssl.SSLError, ValueError):
            raise UsageError(
                f"--certificate {self.certificate}, --key {self.key}: are no certificate and its "
                "key (PEM, without a password)"
            ) from None


def credentials_of(
    authority: Path | None, certificate: Path | None, key: Path | None
) -> Credentials | None:
    """The credentials: all three files, or None without any. Raises UsageError."""
    if authority is None and certificate is None and key is None:
        return None
    if authority is None or certificate is None or key is None:
        raise UsageError("--authority, --certificate and --key belong together: give all three")
    return Credentials(authority, certificate, key)


def contact(address: str, given: Credentials | None) -> tuple[str, Security]:
    """The address in Dask's form, and the credentials: those that were given, or the user's own on
    this machine. Raises UsageError for an address that others can reach, without any."""
    place = _host_and_port(address)
    if given is None and not is_loopback(place[0]):
        raise UsageError(
            f"{address}: others can reach it: give --authority, --certificate and --key (see "
            "docs/pool.md), or use 127.0.0.1"
        )
    credentials = given or _own()
    return f"tls://{shown(place)}", credentials.security()


def _own() -> Credentials:
    path = own_certificate()
    return Credentials(path, path, path)


def _host_and_port(address: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{address.partition('://')[2] or address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port is None:
        raise UsageError(f"{address}: is no address of a pool; write HOST:PORT")
    return host, port
