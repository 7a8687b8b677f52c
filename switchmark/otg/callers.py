"""The clients that a server without a token serves: programs of root, of the server's user, and of
the user that started the server by sudo. Every program on the machine can connect to the server,
which sends its traffic with the privileges of root."""

from __future__ import annotations

import os

from switchmark.host.kernel.connections import Endpoint, owner_uid
from switchmark.otg.refusal import Refused


def check_caller(client: Endpoint, server: Endpoint, token: str | None) -> None:
    """Raise `Refused` for the client of another user, unless the server requires a token."""
    if token is not None:
        return
    uid = owner_uid(client, server)
    if uid is None or uid not in _allowed_uids():
        owner = "an unknown user" if uid is None else f"another user (uid {uid})"
        raise Refused(
            f"the connection belongs to {owner}: run the client as the user of `switchmark otg` "
            f"(uid {os.geteuid()}), or start the server with --token-file and send the token",
            code=403,
        )


def _allowed_uids() -> set[int]:
    sudo = os.environ.get("SUDO_UID", "")
    return {0, os.geteuid(), *([int(sudo)] if sudo.isdecimal() else [])}
