"""The flow tests of the public OTG conformance suite, unchanged, against our server.

`SWITCHMARK_OTG_CONFORMANCE` names a checkout of github.com/open-traffic-generator/conformance, and
`SWITCHMARK_OTG_CONFORMANCE_PYTHON` a Python with its requirements.txt. The protocols that the suite
also tests, our server refuses (docs/otg.md)."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.otg_server import serve

FOLDER, PYTHON = "SWITCHMARK_OTG_CONFORMANCE", "SWITCHMARK_OTG_CONFORMANCE_PYTHON"
TESTS = "feature/b2b/packet/udp"

pytestmark = pytest.mark.integration


@pytest.fixture
def suite():
    folder, python = (os.environ.get(name) for name in (FOLDER, PYTHON))
    if not folder or not python:
        pytest.skip(f"no conformance suite is named; set {FOLDER} and {PYTHON}")
    if not Path(folder, TESTS).is_dir():
        pytest.skip(f"{FOLDER}={folder}: no {TESTS} in it")
    return Path(folder).resolve(), python


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_its_udp_tests_pass_unchanged(suite, transport, tmp_path):
    folder, python = suite
    run = tmp_path / "run"
    run.mkdir()
    for server in serve(tmp_path):
        host = server.location if transport == "http" else server.grpc
        (run / "test-config.yaml").write_text(
            f"otg_host: {host}\notg_ports: [{server.a}, {server.b}]\notg_iterations: 2\n"
            f"otg_grpc_transport: {'true' if transport == 'grpc' else 'false'}\n"
        )
        done = subprocess.run(
            ["ip", "netns", "exec", server.netns, python, "-m", "pytest", "-p", "no:cacheprovider",
             "-c", str(folder / "pytest.ini"), f"--rootdir={folder}", str(folder / TESTS)],
            cwd=run, env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        told = done.stdout[-4000:] + done.stderr[-2000:]
        assert done.returncode == 0, told
        assert " 4 passed" in done.stdout, told
