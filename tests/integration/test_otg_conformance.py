"""The flow tests of the public OTG conformance suite, unchanged, against this server.

`SWITCHMARK_OTG_CONFORMANCE` names a checkout of github.com/open-traffic-generator/conformance,
`SWITCHMARK_OTG_CONFORMANCE_PYTHON` a Python with its requirements.txt, and
`SWITCHMARK_OTG_CONFORMANCE_GO` the program of the same tests in Go, built there with `go test -c
-tags dp ./feature/b2b/packet/udp/`. The server refuses the protocols that the suite also tests
(docs/otg.md)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.otg_server import serve

FOLDER, PYTHON = "SWITCHMARK_OTG_CONFORMANCE", "SWITCHMARK_OTG_CONFORMANCE_PYTHON"
GO = "SWITCHMARK_OTG_CONFORMANCE_GO"
TESTS = "feature/b2b/packet/udp"

pytestmark = pytest.mark.integration


@pytest.fixture
def suite() -> Any:
    folder, python = (os.environ.get(name) for name in (FOLDER, PYTHON))
    if not folder or not python:
        pytest.skip(f"no conformance suite is named; set {FOLDER} and {PYTHON}")
    if not Path(folder, TESTS).is_dir():
        pytest.skip(f"{FOLDER}={folder}: no {TESTS} in it")
    return Path(folder).resolve(), python


def offered(*ends: Any) -> Any:
    """Return the server's options for ports with other names, those of each end of the pair."""
    listen = ["--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    named = zip(ends, ("otga", "otgb"), strict=True)
    ports = [f"{name}=raw:dev={device},mmsg" for names, device in named for name in names]
    return [*listen, *(word for port in ports for word in ("--port", port))]


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_udp_tests_pass_unchanged(suite: Any, transport: Any, tmp_path: Path) -> None:
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
        output = done.stdout[-4000:] + done.stderr[-2000:]
        assert done.returncode == 0, output
        assert " 4 passed" in done.stdout, output


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_go_versions_of_udp_tests_pass_unchanged(transport: Any, tmp_path: Path) -> None:
    """They use the suite's default ports. One test looks for frames by the signature that ixia-c
    writes into them, which is not part of the API: a setting of the suite leaves that out."""
    program = os.environ.get(GO)
    if not program:
        pytest.skip(f"no program of the conformance suite is named; set {GO}")
    run = tmp_path / "run"
    run.mkdir()
    for server in serve(tmp_path, *offered(["localhost:5555"], ["localhost:5556"])):
        named = {"OTG_HOST": server.location, "OTG_ITERATIONS": "2"}
        if transport == "grpc":
            named |= {"OTG_HOST": server.grpc, "OTG_GRPC_TRANSPORT": "true"}
        for chosen, looks, count in (("skip", "true", 4), ("run", "false", 1)):
            command = [str(Path(program).resolve()), "-test.v", f"-test.{chosen}", "Eth0"]
            done = subprocess.run(
                ["ip", "netns", "exec", server.netns, *command],
                cwd=run, env={**os.environ, **named, "OTG_CAPTURE_CHECK": looks},
                capture_output=True, text=True, timeout=600, check=False,
            )  # fmt: skip
            output = done.stdout[-4000:] + done.stderr[-2000:]
            assert done.returncode == 0, output
            assert done.stdout.count("--- PASS: ") == count, output
