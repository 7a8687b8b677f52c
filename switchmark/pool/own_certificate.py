"""The certificate of a pool on one machine: whoever can read its key is the user whose pool it is.

The first program of the pool makes it, in a folder of the state directory that is closed to all
others; the rest find it there. It is its own authority, and holds at any time, so that no clock
that is set can part a pool.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from switchmark.errors import UnavailableError
from switchmark.host.state import own_folder, state_folder

_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "switchmark pool of one user")])
_FROM, _UNTIL = datetime(2000, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)


def pool_folder() -> Path:
    """The folder of the pool's programs on this machine, closed to other users.

    Raises UnavailableError, UsageError."""
    trust = "who has its key runs code in agents"
    return own_folder(state_folder() / "pool", "SWITCHMARK_STATE_DIR", trust, mode=0o700)


def own_certificate() -> Path:
    """The file with this user's certificate and key, made now if need be.

    Raises UnavailableError, UsageError."""
    try:
        path = pool_folder() / "own.pem"
    except UnavailableError as error:
        raise UnavailableError(
            f"{error}; or give --authority, --certificate and --key, as pools of several users "
            "need them (see docs/pool.md)"
        ) from None
    if not path.exists():
        with NamedTemporaryFile(dir=path.parent, prefix=".own-") as made:  # (its mode is 0600)
            made.write(new_certificate())
            made.flush()
            with suppress(FileExistsError):  # another program of the pool was faster
                os.link(made.name, path)
    return path


def new_certificate() -> bytes:
    """A certificate that is its own authority, and its key (PEM)."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder(_NAME, _NAME, key.public_key(), x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
