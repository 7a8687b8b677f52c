"""Who may ask a server that has no token: programs of root, of its own user, and of the user who
started it by sudo. The traffic it makes is root's, and anybody on the machine can connect to it."""

from __future__ import annotations

import os

from switchmark.host.kernel.connections import Endpoint, owner_uid
from switchmark.otg.refusal import Refused


def check_caller(client: Endpoint, server: Endpoint, token: str | None) -> None:
    """Raise `Refused` where the client is another user's, unless a token is asked for."""
    if token is not None:
        return
    uid = owner_uid(client, server)
    if uid is None or uid not in _allowed():
        whose = "of nobody" if uid is None else f"of another user (uid {uid})"
        raise Refused(
            f"the connection is {whose}: run the client as the user of `switchmark otg` (uid "
            f"{os.geteuid()}), or start the server with --token-file and say the token",
            code=403,
        )


def _allowed() -> set[int]:
    sudo = os.environ.get("SUDO_UID", "")
    return {0, os.geteuid(), *([int(sudo)] if sudo.isdecimal() else [])}
