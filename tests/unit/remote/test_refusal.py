"""Messages for refused SSH connections, with a real server on this machine."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import pytest

from switchmark.cli.main import run
from switchmark.errors import UnavailableError
from switchmark.remote import survey
from switchmark.remote.connection import Connection
from switchmark.remote.survey import HostSeen
from switchmark.testbed.testbed import SshTarget

ADDRESS = "127.0.0.1"


@dataclass(frozen=True)
class Server:
    """A server that presents a host key and refuses every login."""

    port: int
    key: str  # the host key that it presents
    other: str  # another key of the same type
    other_kind: str  # a key of another type


def text_of(key: asyncssh.SSHKey) -> str:
    return key.export_public_key().decode().strip()


class RefusesSessions(asyncssh.SSHServer):
    """Accepts every login, and refuses to run commands."""

    def begin_auth(self, username: str) -> bool:
        return False


class NeverAnswers(RefusesSessions):
    """Never answers a request to run a command."""

    def __init__(self) -> None:
        self._gone = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()

    async def session_requested(self) -> asyncssh.SSHServerSession[bytes]:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._gone.wait(), 30)
        raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "too late")


class HangsUp(NeverAnswers):
    """Closes the connection when a command is requested."""

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._conn = conn

    async def session_requested(self) -> asyncssh.SSHServerSession[bytes]:
        self._conn.abort()
        return await super().session_requested()


@contextmanager
def serving(*keys: asyncssh.SSHKey, kind: type[asyncssh.SSHServer] | None = None) -> Iterator[int]:
    """Run a server of this kind with these host keys; yields its port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def listen() -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(ADDRESS, 0, server_host_keys=list(keys), server_factory=kind)

    listening = asyncio.run_coroutine_threadsafe(listen(), loop).result(30)
    yield listening.get_port()
    loop.call_soon_threadsafe(listening.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    loop.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    kinds = ("ssh-ed25519", "ssh-ed25519", "ecdsa-sha2-nistp256")
    host_key, other, other_kind = (asyncssh.generate_private_key(kind) for kind in kinds)
    with serving(host_key) as port:
        yield Server(port, text_of(host_key), text_of(other), text_of(other_kind))


def refusal_with(server: Server, folder: Path, known: str | bytes | None) -> str:
    """Return the error for this known_hosts file; HOST, KEY, OTHER and KIND are replaced by the
    server's address and keys."""
    path = folder / "known"
    if isinstance(known, str):
        host = f"[{ADDRESS}]:{server.port}"
        known = known.replace("HOST", host).replace("KIND", server.other_kind)
        known = known.replace("KEY", server.key).replace("OTHER", server.other).encode()
    if known is not None:
        path.write_bytes(known)
    target = SshTarget("far", ADDRESS, server.port, user="nobody", known_hosts=path)
    with pytest.raises(UnavailableError) as error:
        Connection(target).open()
    message = str(error.value)
    assert message.startswith(f"host far ({ADDRESS}): ") and "\n" not in message
    return message


@pytest.mark.parametrize("known", ["", "192.0.2.7 OTHER\n", f"[{ADDRESS}]:1 OTHER\n"])
def test_unknown_key_message_names_keyscan(server: Server, tmp_path: Path, known: str) -> None:
    message = refusal_with(server, tmp_path, known)
    assert f"ssh-keyscan -p {server.port} {ADDRESS}" in message and "not in" in message


@pytest.mark.parametrize(
    "known", ["HOST OTHER\n", f"{ADDRESS} OTHER\n", "HOST KIND\n", "@cert-authority HOST OTHER\n"]
)
def test_changed_key_message_warns_of_an_attack(server: Server, tmp_path: Path, known: str) -> None:
    message = refusal_with(server, tmp_path, known)
    assert "differs from the key" in message and "attack" in message and "keyscan" not in message
    assert "Host key is not trusted" in message  # the server presented its key


@pytest.mark.parametrize("known", ["@revoked HOST KEY\n", "@revoked * KEY\nHOST OTHER\n"])
def test_revoked_key_message_warns_of_an_attack(server: Server, tmp_path: Path, known: str) -> None:
    message = refusal_with(server, tmp_path, known)
    assert "revoked" in message and "attack" in message and "keyscan" not in message


@pytest.mark.parametrize("known", [None, "nonsense\n", b"\xff\xfe\n"])
def test_unreadable_known_hosts_is_one_line(
    server: Server, tmp_path: Path, known: str | bytes | None
) -> None:
    assert "cannot be read" in refusal_with(server, tmp_path, known)


def test_known_key_is_accepted(server: Server, tmp_path: Path) -> None:
    assert "nobody cannot log in" in refusal_with(server, tmp_path, "HOST OTHER\nHOST KEY\n")


def test_known_key_of_any_type_is_accepted(tmp_path: Path) -> None:
    kinds = ("ssh-ed25519", "ecdsa-sha2-nistp256")
    keys = [asyncssh.generate_private_key(kind) for kind in kinds]
    with serving(*keys) as port:
        for key in keys:
            known = Server(port, text_of(key), "", "")
            assert "nobody cannot log in" in refusal_with(known, tmp_path, "HOST KEY\n")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (RefusesSessions, "Session refused"),
        (NeverAnswers, "no answer within"),
        (HangsUp, ".*(lost|closed)"),
    ],
)
def test_login_without_commands_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[asyncssh.SSHServer], reason: str
) -> None:
    """The time is limited although such a host may answer keep-alive messages."""
    monkeypatch.setattr("switchmark.remote.connection.CONNECT_TIMEOUT_S", 3.0)
    key = asyncssh.generate_private_key("ssh-ed25519")
    with serving(key, kind=kind) as port:
        message = refusal_with(Server(port, text_of(key), "", ""), tmp_path, "HOST KEY\n")
    assert re.search(f"the login succeeds, but no command is run: {reason}", message)


@pytest.mark.parametrize(("problem", "code"), [("", 0), ("its host key is not in x", 3)])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_list_hosts_exit_code_reports_an_unusable_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str, code: int, options: list[str]
) -> None:
    hosts = [
        HostSeen("left", "", "eth1", reached=True),
        HostSeen("right", ADDRESS, "eth2", reached=False, problem=problem),
    ]
    monkeypatch.setattr(survey, "survey", lambda _: iter(hosts))
    file = tmp_path / "lab.yaml"
    file.write_text(
        f"hosts:\n  left: {{local: true}}\n  right: {{address: {ADDRESS}}}\n"
        "cables:\n  - {left: eth1, right: eth2}\n"
    )
    assert run(["list", "hosts", "--testbed", str(file), *options]) == code
