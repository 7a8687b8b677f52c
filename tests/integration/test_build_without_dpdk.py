"""The engine builds without DPDK's headers, and reports the ports that it then cannot open."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from switchmark.engine.binary import has_dpdk

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
MESON = shutil.which("meson", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


@pytest.mark.skipif(MESON is None, reason="no meson")
def test_engine_without_dpdk_headers_opens_the_other_ports(tmp_path: Path) -> None:
    assert MESON is not None
    build, nothing = tmp_path / "build", tmp_path / "nothing"
    nothing.mkdir()
    env = os.environ | {"PKG_CONFIG_LIBDIR": str(nothing), "PKG_CONFIG_PATH": str(nothing)}
    options = ["-Dtests=disabled", "-Dpackage=false", "-Doptimization=0", "-Dwerror=true"]
    for command in (
        [MESON, "setup", str(build), *options],
        [MESON, "compile", "-C", str(build), "-j", "2", "switchmark-traffic"],
    ):
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    engine = build / "switchmark-traffic"
    assert not has_dpdk(engine)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [engine, *arguments, "--start", "now"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    refused = run("receiver", "--port", "dpdk:vhost=/tmp/x")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "built without libdpdk; install libdpdk-dev (22.11 or later)" in refused.stderr
    sent = run("sender", "--port", "null:", "--duration", "0.1")
    assert sent.returncode == 0 and '"dpdk_version":null,"page_size_kib":null' in sent.stdout
