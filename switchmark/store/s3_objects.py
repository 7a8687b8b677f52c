"""Record files as objects of an S3 bucket, at Amazon or on another server with this protocol.

Credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or from the
machine's role; so do endpoint and region (AWS_ENDPOINT_URL, AWS_REGION) if the address does not
contain them. A put is conditional (`If-None-Match: *`): it never replaces an object.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from switchmark.errors import UnavailableError, UsageError
from switchmark.store.errors import (
    EXTRA_MISSING,
    EXTRA_REMEDY,
    CorruptStoreError,
    StoreAwayError,
    StoreConflictError,
)

_RETRY_S = 20  # a longer absence is an error, which the caller may retry
_REQUEST_S = 60


class S3Objects:
    """Objects below a prefix of a bucket."""

    def __init__(self, address: str) -> None:
        try:
            from obstore.store import S3Store
        except ImportError as error:
            raise UnavailableError(EXTRA_MISSING, remedy=EXTRA_REMEDY) from error
        parts = urlsplit(address)
        query = dict(parse_qsl(parts.query))
        endpoint = query.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL")
        settings: dict[str, Any] = {}
        if endpoint:
            settings |= {"endpoint": endpoint, "virtual_hosted_style_request": False}
        if "region" in query:
            settings["region"] = query["region"]
        self._shown = f"s3://{parts.netloc}{parts.path}"
        self._store = S3Store(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            client_options={
                "allow_http": bool(endpoint and endpoint.startswith("http://")),
                "timeout": timedelta(seconds=_REQUEST_S),
                "connect_timeout": timedelta(seconds=10),
            },
            retry_config={"max_retries": 5, "retry_timeout": timedelta(seconds=_RETRY_S)},
            **settings,
        )

    def __str__(self) -> str:
        return self._shown

    def put(self, name: str, content: bytes) -> None:
        """See `Objects.put`."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self._in_one_line(name):
            try:
                obstore.put(self._store, name, content, mode="create", use_multipart=False)
                return
            except (AlreadyExistsError, PreconditionError):  # servers return one or the other
                pass
        if self.get(name, len(content)) != content:
            raise StoreConflictError(f"{self._shown}/{name}: exists with another content")

    def get(self, name: str, size_bytes: int) -> bytes:
        """See `Objects.get`."""
        import obstore

        with self._in_one_line(name):
            try:
                response = obstore.get(self._store, name)
            except FileNotFoundError as error:
                raise CorruptStoreError(f"{self._shown}/{name}: is missing") from error
            size = response.meta["size"]
            if size != size_bytes:
                raise CorruptStoreError(
                    f"{self._shown}/{name}: {size} bytes, but {size_bytes} were stored"
                )
            return bytes(response.bytes())

    def names(self, prefix: str) -> Iterator[tuple[str, int]]:
        """See `Objects.names`."""
        import obstore

        with self._in_one_line(prefix):
            for chunk in obstore.list(self._store, prefix or None):
                for entry in chunk:
                    yield entry["path"], entry["size"]

    def check(self) -> None:
        """See `Objects.check`.

        A server that replaces objects would lose records silently: some servers ignore
        `If-None-Match`."""
        import obstore

        name = f"switchmark-writes-once-{uuid.uuid4().hex}"
        with self._in_one_line(name):
            try:
                self.put(name, b"one")
                self.put(name, b"two")
            except StoreConflictError:
                return
            finally:
                obstore.delete(self._store, name)
        raise UsageError(
            f"{self._shown}: this server ignores `If-None-Match: *` and replaces existing objects",
            remedy="use a server that supports it, or a shared directory",
        )

    @contextmanager
    def _in_one_line(self, name: str) -> Iterator[None]:
        """Turn the client's errors into errors of one line, without the request."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise StoreAwayError(
                f"{self._shown}/{name}: no permission",
                remedy="check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            ) from error
        except (BaseError, OSError, ValueError) as error:
            raise StoreAwayError(f"{self._shown}/{name}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Return the first line of a client's error; debug text follows it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
