"""Messages for refused SSH connections: the reason and the remedy."""

from __future__ import annotations

import asyncssh

from switchmark.errors import UnavailableError
from switchmark.testbed.testbed import SshTarget

CONNECT_TIMEOUT_S = 15.0


def read_known_hosts(target: SshTarget) -> asyncssh.SSHKnownHosts:
    """Read the known host keys. Raises UnavailableError, one line with the remedy."""
    try:
        return asyncssh.read_known_hosts(str(target.known_hosts))
    except (OSError, ValueError) as error:
        raise UnavailableError(
            f"{target}: its key cannot be checked, since {target.known_hosts} cannot be read "
            f"({error})",
            remedy="name a file such as ssh's own as known_hosts",
        ) from None


def refusal(target: SshTarget, error: Exception, known_hosts: asyncssh.SSHKnownHosts) -> str:
    """Return one line for the user: the reason why no connection was made, and the remedy."""
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return _key_refusal(target, error, known_hosts)
    if isinstance(error, asyncssh.PermissionDenied):
        key = f"key {target.key}" if target.key else "your keys"
        user = target.user or "the user of the same name"
        return f"{user} cannot log in with {key}; add the public key to authorized_keys there"
    if isinstance(error, asyncssh.KeyImportError):
        return f"key {target.key} cannot be used ({error}); give a private key without passphrase"
    reason = str(error) or f"no answer within {CONNECT_TIMEOUT_S:g} s"
    return f"cannot be reached on port {target.port}: {reason}; is sshd running there?"


def no_command(error: Exception) -> str:
    """Return one line for the user: the reason why the host runs no command after the login, and
    the remedy."""
    reason = " ".join(str(error).split()) or f"no answer within {CONNECT_TIMEOUT_S:g} s"
    return (
        f"the login succeeds, but no command is run: {reason}; check the limits of sshd there "
        "(MaxSessions, command= in authorized_keys)"
    )


def _key_refusal(
    target: SshTarget, error: asyncssh.HostKeyNotVerifiable, known_hosts: asyncssh.SSHKnownHosts
) -> str:
    """Return the message for a host key that is not trusted. The user can compare and add an
    unknown key. A changed or revoked key can be an attack: only the host's owner can clear it."""
    path, (trusted, revoked) = target.known_hosts, _keys_of(target, known_hosts)
    if "revoked" in error.reason or (revoked and not trusted):
        return (
            f"{path} lists its host key as revoked ({error.reason}): this can be an attack. Do not "
            "connect before the host's owner has given you a new key over another channel"
        )
    if trusted:
        return (
            f"its host key differs from the key in {path} ({error.reason}): this can be an attack, "
            "or the host was installed again. Do not connect before the host's owner has confirmed "
            "the new key over another channel; then replace the old key"
        )
    return (
        f"its host key is not in {path} ({error.reason}). Ask the host's owner for its key, "
        f"compare it with the output of ssh-keyscan -p {target.port} {target.address}, then add it"
    )


def _keys_of(target: SshTarget, known_hosts: asyncssh.SSHKnownHosts) -> tuple[bool, bool]:
    """Return whether there are trusted keys or authorities of the host, and revoked keys. A match
    by a port other than 22 loses revoked keys if no key is trusted, hence both names."""
    names = [target.address, f"[{target.address}]:{target.port}"]
    matches = [known_hosts.match(name, "", None) for name in names]
    return any(keys or authorities for keys, authorities, *_ in matches), any(
        match[2] for match in matches
    )
