"""The certificates of a pool, made by one command."""

from __future__ import annotations

import shlex
import ssl
import stat
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("distributed")

from switchmark.cli import main
from switchmark.pool.security import Credentials, make_pool_files


def shake_hands(server: tuple[Path, str], client: tuple[Path, str]) -> None:
    """Let two members of pools check each other's certificates, as Dask does."""
    ends = []
    for (folder, name), purpose, is_server in (
        (server, ssl.Purpose.CLIENT_AUTH, True),
        (client, ssl.Purpose.SERVER_AUTH, False),
    ):
        context = ssl.create_default_context(purpose, cafile=str(folder / "ca.pem"))
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
        ends.append((context, ssl.MemoryBIO(), ssl.MemoryBIO(), is_server))
    links = [
        context.wrap_bio(read, write, server_side=is_server)
        for context, read, write, is_server in ends
    ]
    for _ in range(8):
        for link, (_, _, write, _), (_, read, _, _) in zip(links, ends, ends[::-1], strict=True):
            with suppress(ssl.SSLWantReadError):
                link.do_handshake()
            read.write(write.read())


def test_init_makes_files_that_members_accept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "certs"
    assert main.run(["pool", "init", str(folder), "lab1", "client"]) == 0
    output = capsys.readouterr().out
    shake_hands((folder, "server"), (folder, "lab1"))
    shake_hands((folder, "server"), (folder, "client"))
    for path in folder.glob("*.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert f"--certificate {shlex.quote(str(folder / 'server.pem'))}" in output
    assert "switchmark agent --testbed lab1.yaml --pool 127.0.0.1:8786" in output
    Credentials(folder / "ca.pem", folder / "lab1.pem", folder / "lab1.key").security()


def test_members_of_another_pool_are_refused(tmp_path: Path) -> None:
    for name in ("one", "another"):
        make_pool_files(tmp_path / name, ["lab1"])
    with pytest.raises(ssl.SSLError):
        shake_hands((tmp_path / "one", "server"), (tmp_path / "another", "lab1"))


def test_init_adds_members_and_changes_no_file(tmp_path: Path) -> None:
    make_pool_files(tmp_path, ["lab1"])
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    written = make_pool_files(tmp_path, ["lab1", "lab2"])
    assert sorted(path.name for path in written) == ["lab2.key", "lab2.pem"]
    assert {path: path.read_bytes() for path in before} == before
    shake_hands((tmp_path, "lab1"), (tmp_path, "lab2"))


@pytest.mark.parametrize("name", ["../x", "ca", "", "a b"])
def test_init_refuses_a_name_that_is_not_a_file_name(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["pool", "init", str(tmp_path / "certs"), name]) == 2
    assert "is not a name for a certificate" in capsys.readouterr().err
    assert not (tmp_path / "certs").exists()


def test_init_refuses_a_damaged_authority(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_pool_files(tmp_path, ["lab1"])
    (tmp_path / "ca.key").unlink()
    assert main.run(["pool", "init", str(tmp_path), "lab2"]) == 2
    assert "ca.key" in capsys.readouterr().err
    assert not (tmp_path / "lab2.pem").exists()


def test_dashboard_beyond_this_machine_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--store", "postgresql://127.0.0.1:1/x", "--dashboard", "192.0.2.1:8787"]
    assert main.run(["pool", "serve", *arguments]) == 2
    assert "others can reach it without a certificate" in capsys.readouterr().err
