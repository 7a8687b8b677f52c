"""Starting programs with chosen capabilities, by every user and from every thread."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from switchmark.host.host import Session, Spawned
from switchmark.host.kernel.capabilities import NEEDED
from switchmark.model.rights import Rights
from tests.integration.machine import needs_root
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, needs_root]

NOBODY = 65534
SLEEP = ["/bin/sleep", "60"]
NET_ADMIN, DAC_OVERRIDE = 1 << NEEDED["net_admin"], 1 << NEEDED["dac_override"]
# A bench that starts a program and prints its process id.
BENCH = """
import sys, time
from switchmark.model.rights import Rights
from switchmark.host.kernel import capabilities
from switchmark.host.session import open_session
capabilities.make_ambient()
with open_session(measuring=False) as session:
    process = session.host.spawn(["/bin/sleep", "60"], rights=Rights(("net_admin", "ipc_lock")))
    print(process.pid, flush=True)
    sys.stdin.readline()
"""


def status(pid: int) -> dict[str, int]:
    text = Path(f"/proc/{pid}/status").read_text()
    return {
        key: int(value, 16)
        for key, value in re.findall(r"^(Cap\w+|NoNewPrivs):\t(\w+)$", text, re.M)
    }


def running(pid: int, program: str) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == program
    except OSError:
        return False


def test_any_thread_can_start_a_program(session: Session) -> None:
    def start() -> Spawned:
        return session.host.spawn(SLEEP, rights=Rights(("net_admin",)))

    with ThreadPoolExecutor(1) as elsewhere:
        process = elsewhere.submit(start).result()
    until(lambda: running(process.pid, "sleep"), "the program")
    has = status(process.pid)
    assert has["CapEff"] == has["CapPrm"] == has["CapBnd"] == NET_ADMIN
    assert has["CapInh"] == has["CapAmb"] == 0 and has["NoNewPrivs"] == 1


def test_program_in_a_closed_folder_of_another_user(session: Session, tmp_path: Path) -> None:
    """A user has built a switch in a home that is closed to others."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    program = folder / "sleep"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o700)
    for path in (program, folder):
        os.chown(path, NOBODY, NOBODY)
    process = session.host.spawn(["/usr/bin/stdbuf", "-oL", str(program), "60"], rights=Rights())
    until(lambda: running(process.pid, "sleep"), "the program")
    assert status(process.pid)["CapBnd"] == DAC_OVERRIDE


@pytest.mark.usefixtures("state_dir")
def test_program_ends_with_its_bench() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BENCH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as bench:
        assert bench.stdout is not None
        pid = int(bench.stdout.readline())
        until(lambda: running(pid, "sleep"), "the program")
        bench.kill()
    until(lambda: not running(pid, "sleep"), "its end")


def test_account_passes_on_its_own_capabilities(tmp_path: Path) -> None:
    """It cannot reduce the bounding set; without new privileges nothing comes from there."""
    state = Path(f"/tmp/smr{os.getpid()}")
    state.mkdir(mode=0o755)
    os.chown(state, NOBODY, NOBODY)
    ambient = ",".join(["-all", *(f"+{name}" for name in NEEDED)])
    try:
        with subprocess.Popen(
            ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
             "--inh-caps", ambient, "--ambient-caps", ambient, sys.executable, "-c", BENCH],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"SWITCHMARK_STATE_DIR": str(state)},
        ) as bench:  # fmt: skip
            assert bench.stdout is not None
            pid = int(bench.stdout.readline())
            until(lambda: running(pid, "sleep"), "the program")
            has = status(pid)
            bench.communicate("\n")
    finally:
        for path in state.iterdir():
            path.unlink()
        state.rmdir()
    assert has["CapEff"] == has["CapPrm"] == has["CapAmb"] == NET_ADMIN
    assert has["NoNewPrivs"] == 1
