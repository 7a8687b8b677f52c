"""Whom SSH does not let us reach: an unknown host key is to be compared and added, a changed or a
revoked one is a warning. The server is a real one, on this machine."""

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
    """Shows a host key to whoever asks, and lets nobody in."""

    port: int
    key: str  # what it shows
    other: str  # another one of the same kind
    other_kind: str


def text_of(key: asyncssh.SSHKey) -> str:
    return key.export_public_key().decode().strip()


class LetsIn(asyncssh.SSHServer):
    """Lets everybody in, and refuses to run anything."""

    def begin_auth(self, username: str) -> bool:
        return False


class FallsSilent(LetsIn):
    """Never answers who wants to run something."""

    def __init__(self) -> None:
        self._gone = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()

    async def session_requested(self) -> asyncssh.SSHServerSession[bytes]:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._gone.wait(), 30)
        raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "too late")


class HangsUp(FallsSilent):
    """Ends the connection of who wants to run something."""

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._conn = conn

    async def session_requested(self) -> asyncssh.SSHServerSession[bytes]:
        self._conn.abort()
        return await super().session_requested()


@contextmanager
def serving(*keys: asyncssh.SSHKey, kind: type[asyncssh.SSHServer] | None = None) -> Iterator[int]:
    """A server of this kind with these host keys; gives its port."""
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
    own, other, other_kind = (asyncssh.generate_private_key(kind) for kind in kinds)
    with serving(own) as port:
        yield Server(port, text_of(own), text_of(other), text_of(other_kind))


def refused(server: Server, folder: Path, known: str | bytes | None) -> str:
    """What is said with these known hosts, in which HOST and KEY stand for the server's."""
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
    said = str(error.value)
    assert said.startswith(f"host far ({ADDRESS}): ") and "\n" not in said
    return said


@pytest.mark.parametrize("known", ["", "192.0.2.7 OTHER\n", f"[{ADDRESS}]:1 OTHER\n"])
def test_an_unknown_key_is_to_be_compared_and_added(
    server: Server, tmp_path: Path, known: str
) -> None:
    said = refused(server, tmp_path, known)
    assert f"ssh-keyscan -p {server.port} {ADDRESS}" in said and "not in" in said


@pytest.mark.parametrize(
    "known", ["HOST OTHER\n", f"{ADDRESS} OTHER\n", "HOST KIND\n", "@cert-authority HOST OTHER\n"]
)
def test_a_changed_key_is_refused_as_such(server: Server, tmp_path: Path, known: str) -> None:
    said = refused(server, tmp_path, known)
    assert "is not the one" in said and "in the middle" in said and "keyscan" not in said
    assert "Host key is not trusted" in said  # it was shown, whatever kinds are known


@pytest.mark.parametrize("known", ["@revoked HOST KEY\n", "@revoked * KEY\nHOST OTHER\n"])
def test_a_revoked_key_is_refused_as_such(server: Server, tmp_path: Path, known: str) -> None:
    said = refused(server, tmp_path, known)
    assert "revoked" in said and "in the middle" in said and "keyscan" not in said


@pytest.mark.parametrize("known", [None, "nonsense\n", b"\xff\xfe\n"])
def test_known_hosts_that_cannot_be_read_are_a_line(
    server: Server, tmp_path: Path, known: str | bytes | None
) -> None:
    assert "cannot be read" in refused(server, tmp_path, known)


def test_a_known_key_is_taken(server: Server, tmp_path: Path) -> None:
    assert "nobody is not let in" in refused(server, tmp_path, "HOST OTHER\nHOST KEY\n")


def test_a_key_of_any_kind_is_taken_if_it_is_known(tmp_path: Path) -> None:
    kinds = ("ssh-ed25519", "ecdsa-sha2-nistp256")
    keys = [asyncssh.generate_private_key(kind) for kind in kinds]
    with serving(*keys) as port:
        for key in keys:
            known = Server(port, text_of(key), "", "")
            assert "nobody is not let in" in refused(known, tmp_path, "HOST KEY\n")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(LetsIn, "Session refused"), (FallsSilent, "no answer within"), (HangsUp, ".*(lost|closed)")],
)
def test_a_host_that_lets_us_in_and_runs_nothing_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[asyncssh.SSHServer], reason: str
) -> None:
    """In time, too: such a host may well answer what keeps the connection alive."""
    monkeypatch.setattr("switchmark.remote.connection.CONNECT_TIMEOUT_S", 3.0)
    key = asyncssh.generate_private_key("ssh-ed25519")
    with serving(key, kind=kind) as port:
        said = refused(Server(port, text_of(key), "", ""), tmp_path, "HOST KEY\n")
    assert re.search(f"we are let in, but no command is run: {reason}", said)


@pytest.mark.parametrize(("problem", "code"), [("", 0), ("its host key is not in x", 3)])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_list_hosts_says_by_its_exit_code_that_one_cannot_be_used(
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
