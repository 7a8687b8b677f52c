"""Why SSH refused a connection, in words, and the remedy."""

from __future__ import annotations

import asyncssh

from switchmark.errors import UnavailableError
from switchmark.testbed.testbed import SshTarget

CONNECT_TIMEOUT_S = 15.0


def read_known_hosts(target: SshTarget) -> asyncssh.SSHKnownHosts:
    """The host keys that are known. Raises UnavailableError, one line with the remedy."""
    try:
        return asyncssh.read_known_hosts(str(target.known_hosts))
    except (OSError, ValueError) as error:
        raise UnavailableError(
            f"{target}: its key cannot be checked, since {target.known_hosts} cannot be read "
            f"({error})",
            remedy="name a file such as ssh's own as known_hosts",
        ) from None


def refusal(target: SshTarget, error: Exception, known: asyncssh.SSHKnownHosts) -> str:
    """Why no connection was made, and the remedy: one line for the user."""
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return _key_refusal(target, error, known)
    if isinstance(error, asyncssh.PermissionDenied):
        key = f"key {target.key}" if target.key else "your keys"
        who = target.user or "the user of the same name"
        return f"{who} is not let in with {key}; add its public half to authorized_keys there"
    if isinstance(error, asyncssh.KeyImportError):
        return f"key {target.key} cannot be used ({error}); give a private key without passphrase"
    reason = str(error) or f"no answer within {CONNECT_TIMEOUT_S:g} s"
    return f"cannot be reached on port {target.port}: {reason}; is sshd running there?"


def no_command(error: Exception) -> str:
    """Why a host that let us in runs no command for us, and the remedy: one line for the user."""
    reason = " ".join(str(error).split()) or f"no answer within {CONNECT_TIMEOUT_S:g} s"
    return (
        f"we are let in, but no command is run: {reason}; look at what sshd lets us do there "
        "(MaxSessions, command= in authorized_keys)"
    )


def _key_refusal(
    target: SshTarget, error: asyncssh.HostKeyNotVerifiable, known: asyncssh.SSHKnownHosts
) -> str:
    """An unknown key is to be compared and added. A changed or a revoked one is what somebody in
    the middle would show, and whom we reach cannot tell us otherwise."""
    where, (trusted, revoked) = target.known_hosts, _keys_of(target, known)
    if "revoked" in error.reason or (revoked and not trusted):
        return (
            f"{where} names a host key of it as revoked ({error.reason}): somebody may be in the "
            "middle. Do not connect before the host's owner has given you a new key in another way"
        )
    if trusted:
        return (
            f"its host key is not the one that {where} has for it ({error.reason}): somebody may "
            "be in the middle, or it was set up anew. Do not connect before the host's owner has "
            "told you in another way that its key is new; then replace the old one"
        )
    return (
        f"its host key is not in {where} ({error.reason}). Ask the host's owner for its key, "
        f"compare it with what ssh-keyscan -p {target.port} {target.address} prints, then add it"
    )


def _keys_of(target: SshTarget, known: asyncssh.SSHKnownHosts) -> tuple[bool, bool]:
    """Whether there are trusted keys or authorities of the host, and revoked keys. (A match for
    another port than SSH's own forgets those that are revoked where none is trusted.)"""
    names = [target.address, f"[{target.address}]:{target.port}"]
    found = [known.match(name, "", None) for name in names]
    return any(keys or authorities for keys, authorities, *_ in found), any(x[2] for x in found)
