"""Other users of a pool's machine can connect to its ports but do not belong to it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from switchmark.cli import main
from switchmark.pool.security import new_certificate
from tests.places import needs_another_user
from tests.pool_rig import ROOT, PoolRig, pool_rig, wait_for

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    needs_another_user,
]
NOBODY = 65534

# A program that can run this in an agent is root. All imports happen while they can be read.
INTRUDE = f"""
import os, ssl, sys
from distributed import Client
from distributed.security import Security
import asyncio, tornado.platform.asyncio, distributed.comm.tcp
pem, address = sys.stdin.read(), sys.argv[1]
roles = {{f"tls_{{role}}_{{part}}": pem for role in ("client", "scheduler", "worker")
         for part in ("cert", "key")}} if pem else {{}}
security = Security(tls_ca_file=pem, **roles) if pem else None
os.setgroups([]); os.setresgid(*[{NOBODY}] * 3); os.setresuid(*[{NOBODY}] * 3)
with Client(address, security=security, timeout="3s") as client:
    print("ran as", client.submit(os.getuid).result(timeout=8))
"""


class OneUser(PoolRig):
    """All programs share a state directory and name no credentials, as on one machine."""

    @property
    def credentials(self) -> list[str]:
        """None: the programs find their own."""
        return []

    def state_of(self, place: str) -> Path:
        """The state directory of all programs."""
        return Path(os.environ["SWITCHMARK_STATE_DIR"])


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[PoolRig]:
    with pool_rig(kind=OneUser) as new_rig:
        new_rig.folder.chmod(0o755)
        monkeypatch.setenv("SWITCHMARK_STATE_DIR", str(new_rig.folder / "state"))
        new_rig.serve()
        new_rig.agent("lab1")
        new_rig.client("client", 1)
        new_rig.wait_finished()
        wait_for(lambda: "is with the pool" in new_rig.output("lab1") or None, "the agent", new_rig)
        yield new_rig


def ports(rig: PoolRig) -> list[int]:
    """Return the ports on which the scheduler and the agent listen."""
    return [
        entry.laddr.port
        for name in ("serve", "lab1")
        for entry in psutil.Process(rig.running[name].pid).net_connections("tcp")
        if entry.status == psutil.CONN_LISTEN
    ]


def intrude(scheme: str, port: int, pem: str) -> str:
    """Return the output of another user with this certificate."""
    done = subprocess.run(
        ["timeout", "10", sys.executable, "-c", INTRUDE, f"{scheme}://127.0.0.1:{port}"],
        input=pem, capture_output=True, text=True, check=False, cwd="/",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return done.stdout + done.stderr


def test_another_user_cannot_run_code_in_the_pool(rig: PoolRig) -> None:
    scheduler = int(rig.pool.rpartition(":")[2])
    key = rig.state_of("lab1") / "pool/own.pem"
    assert "ran as 0" in intrude("tls", scheduler, key.read_text())  # the key allows this
    assert (key.parent.stat().st_mode & 0o777, key.stat().st_mode & 0o777) == (0o700, 0o600)
    strangers = new_certificate().decode()
    for port in ports(rig):
        for scheme, pem in (("tcp", ""), ("tls", strangers)):
            output = intrude(scheme, port, pem)
            assert "ran as" not in output, (port, scheme, output)


def test_owner_needs_no_credentials(
    rig: PoolRig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main.run(["pool", "status", "--pool", rig.pool]) == 0
    assert "lab1" in capsys.readouterr().out
    monkeypatch.setenv("SWITCHMARK_STATE_DIR", str(rig.folder / "other"))
    assert main.run(["pool", "status", "--pool", rig.pool]) == 1
    assert "no pool of yours answers" in capsys.readouterr().err


def test_key_that_others_could_read_is_refused(
    rig: PoolRig, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = rig.state_of("lab1") / "pool"
    for mode, problem in ((0o770, "others may write it"), (0o755, "others may read it")):
        folder.chmod(mode)
        assert main.run(["pool", "status", "--pool", rig.pool]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"{folder}: {problem} (mode {mode:o})" in line and "run code in agents" in line
    folder.chmod(0o700)
    os.chown(folder, NOBODY, -1)
    assert main.run(["pool", "status", "--pool", rig.pool]) == 2
    assert f"belongs to another user (uid {NOBODY})" in capsys.readouterr().err
