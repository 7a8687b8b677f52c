"""The packages in remedies contain the needed programs, and the test command installs them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from switchmark.switch.testpmd import Testpmd

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
TOLD = {
    **dict.fromkeys(Testpmd.programs, Testpmd.obtain.removeprefix("apt install ")),
    "bridge": "iproute2",
    "tc": "iproute2",
    "taskset": "util-linux",
}


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="no dpkg here to ask")
@pytest.mark.parametrize(("program", "package"), TOLD.items())
def test_package_contains_the_program(program: str, package: str) -> None:
    listed = subprocess.run(
        ["dpkg-query", "-L", package], capture_output=True, text=True, check=False
    )
    assert listed.returncode == 0, f"{package} is not installed: {listed.stderr}"
    assert program in {Path(line).name for line in listed.stdout.splitlines()}


def test_test_command_installs_the_packages() -> None:
    text = (ROOT / "check").read_text() + (ROOT / "tools/setup.sh").read_text()
    lists = re.findall(r"_PACKAGES=\((.*?)\n\)", text, re.DOTALL)
    installed = set(" ".join(lists).split())
    assert set(TOLD.values()) - {"util-linux"} <= installed  # every Debian has util-linux
