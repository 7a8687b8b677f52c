"""Why SSH refused a connection, in words, and the remedy."""

from __future__ import annotations

import asyncssh

from switchmark.testbed.testbed import SshTarget

CONNECT_TIMEOUT_S = 15.0


def refusal(target: SshTarget, error: Exception) -> str:
    """Why no connection was made, and the remedy: one line for the user."""
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        where = target.known_hosts
        return (
            f"its host key is not in {where} ({error.reason}). Ask the host's owner for its key, "
            f"compare it with what ssh-keyscan -p {target.port} {target.address} prints, then add "
            "it; if another key of this host is there already, or it is revoked, somebody may be "
            "in the middle"
        )
    if isinstance(error, asyncssh.PermissionDenied):
        key = f"key {target.key}" if target.key else "your keys"
        who = target.user or "the user of the same name"
        return f"{who} is not let in with {key}; add its public half to authorized_keys there"
    if isinstance(error, asyncssh.KeyImportError):
        return f"key {target.key} cannot be used ({error}); give a private key without passphrase"
    reason = str(error) or f"no answer within {CONNECT_TIMEOUT_S:g} s"
    return f"cannot be reached on port {target.port}: {reason}; is sshd running there?"
