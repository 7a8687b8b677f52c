"""Scripts for another generator run against this server with only the address changed.

`SWITCHMARK_OTG_EXAMPLES` names a checkout of github.com/open-traffic-generator/otg-examples,
`SWITCHMARK_OTG_CONFORMANCE` one of .../conformance, and `SWITCHMARK_OTG_CONFORMANCE_PYTHON` a
Python with their imports (snappi, pytest). The ports have the locations that the scripts name."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.otg_server import packets, serve
from tests.integration.test_otg_conformance import FOLDER as CONFORMANCE
from tests.integration.test_otg_conformance import PYTHON, offered

EXAMPLES = "SWITCHMARK_OTG_EXAMPLES"
LOCATIONS = ("eth1", "localhost:5555", "veth-a"), ("eth2", "localhost:5556")
ADDRESS = re.compile(r"https://(?:localhost|clab-ixcb2b-ixia-c):8443")

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from serve(tmp_path_factory.mktemp("script"), *offered(*LOCATIONS))


@pytest.mark.parametrize(
    ("place", "name", "more"),
    [
        (EXAMPLES, "snappi/otg-flows.py", ["-m", "port"]),
        (EXAMPLES, "snappi/otg-flows.py", ["-m", "flow"]),
        (EXAMPLES, "clab/ixia-c-b2b/otg.py", []),
        (CONFORMANCE, "examples/test_quickstart.py", ["-m", "pytest"]),
    ],
)
def test_script_for_another_generator_runs(
    place: Any, name: Any, more: Any, server: Any, tmp_path: Path
) -> None:
    folder, python = (os.environ.get(one) for one in (place, PYTHON))
    if not folder or not python:
        pytest.skip(f"no scripts of others are named; set {place} and {PYTHON}")
    text, changes = ADDRESS.subn(server.location, Path(folder, name).read_text())
    assert changes == 1
    script = tmp_path / Path(name).name
    script.write_text(text)
    command = (
        [python, *more, str(script)] if more == ["-m", "pytest"] else [python, str(script), *more]
    )
    done = subprocess.run(
        ["ip", "netns", "exec", server.netns, *command],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    for capture in tmp_path.glob("*.pcap"):
        with capture.open("rb") as data:
            assert sum(1 for _ in packets(data)) == 1000, capture.name
    assert name != "clab/ixia-c-b2b/otg.py" or len(list(tmp_path.glob("*.pcap"))) == 2
