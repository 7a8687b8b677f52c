"""Certificates of a pool: they decide which programs may take part.

Dask's messages are Python objects, so a program that can send one can run code. Both sides
therefore show a certificate that the pool's own authority has signed (mutual TLS), on loopback
also, where every user of the machine can connect while agents run as root.

`make_pool_files` writes the certificates of a pool that several machines or users share. Programs
of one user on one machine share a certificate that the first of them makes.
"""

from __future__ import annotations

import ipaddress
import os
import re
import shlex
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from distributed.security import Security

from switchmark.errors import UnavailableError, UsageError
from switchmark.host.state import own_folder, state_folder
from switchmark.http_guard import is_loopback, shown

# No expiry: a wrong clock must not split a pool. A pool is ended by making new certificates.
_FROM, _UNTIL = datetime(2000, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
_OWN_NAME = "switchmark pool of one user"
AUTHORITY, AUTHORITY_KEY = "ca.pem", "ca.key"
SERVER = "server"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The files with which a program shows that it belongs to the pool, and checks the others."""

    authority: Path  # the pool's own authority, not a public one
    certificate: Path
    key: Path

    def security(self) -> Security:
        """Return the credentials in Dask's form. Raises `UsageError` for unusable files."""
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
            raise UsageError(
                f"--authority {self.authority}: does not contain a certificate (PEM)"
            ) from None
        try:
            context.load_cert_chain(self.certificate, self.key, password="")
        except (ssl.SSLError, ValueError):
            raise UsageError(
                f"--certificate {self.certificate}, --key {self.key}: are not a certificate and "
                "its key (PEM, without a password)"
            ) from None


def credentials_of(
    authority: Path | None, certificate: Path | None, key: Path | None
) -> Credentials | None:
    """Return the credentials of three files, or None without any. Raises `UsageError`."""
    if authority is None and certificate is None and key is None:
        return None
    if authority is None or certificate is None or key is None:
        raise UsageError(
            "--authority, --certificate and --key belong together", remedy="give all three"
        )
    return Credentials(authority, certificate, key)


def contact(address: str, credentials: Credentials | None) -> tuple[str, Security]:
    """Return the address in Dask's form, and the credentials; by default this user's own.

    Raises `UsageError` for an address that others can reach, without credentials."""
    place = _host_and_port(address)
    if credentials is None and not is_loopback(place[0]):
        raise UsageError(
            f"{address}: others can reach it",
            remedy="make certificates with `switchmark pool init DIRECTORY` and give --authority, "
            "--certificate and --key, or use 127.0.0.1",
        )
    if credentials is None:
        path = own_certificate()
        credentials = Credentials(path, path, path)
    return f"tls://{shown(place)}", credentials.security()


def _host_and_port(address: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{address.partition('://')[2] or address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port is None:
        raise UsageError(f"{address}: is not the address of a pool", remedy="write HOST:PORT")
    return host, port


def pool_folder() -> Path:
    """Return the folder of the pool's programs on this machine, closed to other users.

    Raises `UnavailableError`, `UsageError`."""
    trust = "its key allows to run code in agents"
    return own_folder(state_folder() / "pool", "SWITCHMARK_STATE_DIR", trust, mode=0o700)


def own_certificate() -> Path:
    """Return the file with this user's certificate and key; make it if there is none.

    Raises `UnavailableError`, `UsageError`."""
    try:
        path = pool_folder() / "own.pem"
    except UnavailableError as error:
        raise UnavailableError(
            f"{error}; or make certificates with `switchmark pool init DIRECTORY`, and give "
            "--authority, --certificate and --key"
        ) from None
    if not path.exists():
        with NamedTemporaryFile(dir=path.parent, prefix=".own-") as file:  # its mode is 0600
            file.write(new_certificate())
            file.flush()
            with suppress(FileExistsError):  # another program of the pool made it meanwhile
                os.link(file.name, path)
    return path


def new_certificate() -> bytes:
    """Return a certificate that is its own authority, and its key (PEM)."""
    authority = _Authority.new(_OWN_NAME)
    return _pem(authority.certificate) + _key_pem(authority.key)


def make_pool_files(directory: Path, names: Sequence[str]) -> list[Path]:
    """Write an authority, and a certificate and key for the scheduler and each name, into the
    directory; return the new files.

    Existing files are not changed, so that members can be added later. Raises `UsageError` for a
    name that cannot be a file's, or a directory that contains only a part of an authority."""
    for name in (SERVER, *names):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or name == "ca":
            raise UsageError(
                f"{name}: is not a name for a certificate",
                remedy="use letters, digits, '.', '-' and '_'",
            )
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _write_pool_files(directory, [SERVER, *names])
    except OSError as error:
        raise UsageError(f"{error.filename or directory}: {error.strerror}") from None


def member_commands(directory: Path, members: Sequence[str], listen: str) -> list[str]:
    """Return the commands that use the files of `make_pool_files`. Raises `UsageError`."""
    host, port = _host_and_port(listen)
    address = shown((host, port))

    def options(name: str, folder: Path) -> str:
        files = {"authority": AUTHORITY, "certificate": f"{name}.pem", "key": f"{name}.key"}
        return " ".join(f"--{key} {shlex.quote(str(folder / file))}" for key, file in files.items())

    lines = [
        "On this machine:",
        f"  switchmark pool serve --store postgresql://HOST/DATABASE --listen {address} "
        + options(SERVER, directory),
    ]
    for name in members:
        files = f"{AUTHORITY}, {name}.pem and {name}.key"
        lines += [
            f"With a copy of {files}, as an agent or as a client:",
            f"  switchmark agent --testbed {name}.yaml --pool {address} {options(name, Path())}",
            f"  switchmark run CAMPAIGN --pool {address} {options(name, Path())}",
        ]
    return lines


def dashboard_address(address: str) -> str:
    """Return the address of the dashboard. It has no certificate: it must be of this machine.

    Raises `UsageError`, and `UnavailableError` if its library is not installed."""
    place = _host_and_port(address)
    if not is_loopback(place[0]):
        raise UsageError(
            f"--dashboard {address}: others can reach it without a certificate",
            remedy="use 127.0.0.1, and a tunnel (ssh -L) from elsewhere",
        )
    if find_spec("bokeh") is None:
        raise UnavailableError("--dashboard needs bokeh", remedy="run: pip install bokeh")
    return shown(place)


def _write_pool_files(directory: Path, names: Sequence[str]) -> list[Path]:
    certificate, key = directory / AUTHORITY, directory / AUTHORITY_KEY
    written = []
    if not certificate.exists() and not key.exists():
        authority = _Authority.new("switchmark pool")
        _write_private(key, _key_pem(authority.key))
        certificate.write_bytes(_pem(authority.certificate))
        written += [certificate, key]
    else:
        authority = _Authority.read(certificate, key)
    for name in names:
        path = directory / f"{name}.pem"
        if path.exists():
            continue
        member, member_key = authority.sign(name)
        _write_private(path.with_suffix(".key"), member_key)
        path.write_bytes(member)
        written += [path, path.with_suffix(".key")]
    return written


@dataclass(frozen=True)
class _Authority:
    """A certificate that signs others, and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls, common_name: str) -> _Authority:
        key, name = ec.generate_private_key(ec.SECP256R1()), _name(common_name)
        builder = _builder(name, name, key)
        basic = x509.BasicConstraints(ca=True, path_length=0)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        signed = (
            builder.add_extension(basic, critical=True)
            .add_extension(_key_usage(signs=True), critical=True)
            .add_extension(identifier, critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(signed, key)

    @classmethod
    def read(cls, certificate: Path, key: Path) -> _Authority:
        try:
            private = serialization.load_pem_private_key(key.read_bytes(), None)
            public = x509.load_pem_x509_certificate(certificate.read_bytes())
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(
                f"{certificate.parent}: {AUTHORITY} and {AUTHORITY_KEY} are not the authority of a "
                f"pool ({error})",
                remedy="use an empty directory, or restore both files",
            ) from None
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise UsageError(f"{key}: is not a key that `switchmark pool init` made")
        return cls(public, private)

    def sign(self, member: str) -> tuple[bytes, bytes]:
        """Return a certificate for a member of the pool, and its key (PEM)."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(member), self.certificate.subject, key)
        basic = x509.BasicConstraints(ca=False, path_length=None)
        signed = (
            builder.add_extension(basic, critical=True)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(x509.SubjectAlternativeName([_alternative_name(member)]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )
        return _pem(signed), _key_pem(key)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative_name(member: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(member))
    except ValueError:
        return x509.DNSName(member)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
    )


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    """Return the uses of a key: in TLS, and for the authority to sign certificates."""
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=signs, crl_sign=False, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as file:
        os.fchmod(fd, 0o600)
        file.write(content)
