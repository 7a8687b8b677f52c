"""tools/setup.sh that is killed: services may start again, and the next call continues."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
INSTALL = """
. '{root}/tools/setup.sh'
POLICY={here}/policy-rc.d
rm -f {here}/installed
may_install() {{ [ ! -e {here}/installed ] && touch {here}/installed; }}
missing_packages() {{ [ -e {here}/installed ] || echo a-package; }}
install_packages yes a-package
"""
VENV = """
. '{root}/tools/setup.sh'
source_stamp() {{ echo now; }}
find_python() {{ echo {here}/python; }}
setup_venv lock
"""
# A substitute for `python -m venv`; pip is missing in an incomplete folder.
PYTHON = """#!/bin/sh
echo "$*" >>{here}/asked
case "$*" in
"-m venv"*) mkdir -p .venv/bin; cp {here}/python .venv/bin/python; touch .venv/pip ;;
"-m pip"*) [ -e .venv/pip ] ;;
esac
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def begin(here: Path, script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", script.format(root=ROOT, here=here)],
        cwd=here, env={**os.environ, "PATH": f"{here}/bin:{os.environ['PATH']}"},
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_services_may_start_again_after_a_kill(tmp_path: Path, number: signal.Signals) -> None:
    program(tmp_path / "bin/apt-get", f"#!/bin/sh\ntouch {tmp_path}/begun\nexec sleep 60\n")
    process = begin(tmp_path, INSTALL)
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        time.sleep(0.01)
    policy = tmp_path / "policy-rc.d"
    assert os.access(policy, os.X_OK)
    os.killpg(process.pid, number)
    assert process.wait(300) != 0
    with suppress(ProcessLookupError):
        while policy.exists():  # a shell of it may end later than the first
            os.killpg(process.pid, 0)
            time.sleep(0.01)
    assert not policy.exists()


def test_leftover_policy_is_removed_and_machine_policy_stays(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    program(tmp_path / "bin/apt-get", f"#!/bin/sh\ncp {policy} {tmp_path}/kept\n")
    assert begin(tmp_path, INSTALL).wait(300) == 0 and not policy.exists()
    program(policy, (tmp_path / "kept").read_text())
    assert begin(tmp_path, INSTALL).wait(300) == 0 and not policy.exists()
    program(policy, "#!/bin/sh\nexit 101\n")
    assert begin(tmp_path, INSTALL).wait(300) == 0 and policy.exists()


def test_unfinished_venv_is_made_anew(tmp_path: Path) -> None:
    program(tmp_path / "python", PYTHON.format(here=tmp_path))
    (tmp_path / "lock").touch()
    (tmp_path / ".venv/bin").mkdir(parents=True)
    program(tmp_path / ".venv/bin/python", PYTHON.format(here=tmp_path))
    assert begin(tmp_path, VENV).wait(300) == 0
    calls = (tmp_path / "asked").read_text()
    assert calls.count("-m venv --clear .venv") == 1
    assert (tmp_path / ".venv/.stamp").read_text() == "now\n"
    assert begin(tmp_path, VENV).wait(300) == 0
    assert (tmp_path / "asked").read_text() == calls, "the environment is ready"


def test_venv_with_an_interrupted_change_is_not_current(tmp_path: Path) -> None:
    program(tmp_path / "python", PYTHON.format(here=tmp_path))
    (tmp_path / "lock").touch()
    assert begin(tmp_path, VENV).wait(300) == 0
    (tmp_path / ".venv/.stamp").write_text("before\n")
    (tmp_path / ".venv/pip").unlink()
    program(tmp_path / "python", "#!/bin/sh\nexit 1\n")  # ends here
    assert begin(tmp_path, VENV).wait(300) != 0
    assert not (tmp_path / ".venv/.stamp").exists()
