"""The bench's table of I/O kinds, which is made from the rows of the engine's backends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from switchmark.engine.io_table import MODULE, ports_page, table
from switchmark.model.io import IO_ROWS, Io
from tests.extending import ROOT, bench_in, copy_with, run_in

LOOP = {
    "name": "loop",
    "summary": "memory",
    "keys": "turns=N (1 to 9), way=there|back",
    "datagrams": False,
    "io": [
        {"name": "loop-back", "meaning": "memory, both ways", "arguments": "on=DEVICE,way=back",
         "timed": "turns=1", "container": "net_raw"},
    ],
}  # fmt: skip


def as_listed() -> list[dict[str, object]]:
    """Return the present table in the form in which the engine lists its backends."""
    backends: dict[str, dict[str, object]] = {}
    for io, row in IO_ROWS.items():
        kind = {"name": io.value, "meaning": row.meaning, "arguments": row.arguments,
                "timed": row.timed, "container": ",".join(row.container)}  # fmt: skip
        backend: dict[str, Any] = {
            "name": row.backend,
            "keys": "block" if row.blocks else "",
            "datagrams": row.datagrams,
            "io": [],
        }
        kinds = backends.setdefault(row.backend, backend)["io"]
        assert isinstance(kinds, list)
        kinds.append(kind)
    return list(backends.values())


def test_table_depends_on_the_rows_alone() -> None:
    assert table({"backends": as_listed(), "missing": []}) == MODULE.read_text()
    assert table({"backends": [], "missing": as_listed()}) == MODULE.read_text(), (
        "the same in every build"
    )


@pytest.fixture(scope="module")
def with_loop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package whose engine has one more backend."""
    module = table({"backends": [*as_listed(), LOOP], "missing": []})
    package = copy_with(tmp_path_factory.mktemp("copy"), "none.py", "")
    (package / "model" / "io.py").write_text(module)
    return package


def test_new_backend_is_listed(with_loop: Path) -> None:
    rows = json.loads(bench_in(with_loop, "list", "ios", "--json"))["ios"]
    assert {"name": "loop-back", "description": "memory, both ways"} in rows


def test_campaign_with_the_new_backend_is_planned(with_loop: Path) -> None:
    file = with_loop.parent / "loop.yaml"
    file.write_text("switch: linux-bridge\nio: loop-back\n")
    assert "loop-back" in bench_in(with_loop, "plan", str(file))


def test_engine_options_include_the_new_backend(with_loop: Path) -> None:
    script = (
        "from switchmark.engine.arguments import needed_capabilities, port_spec\n"
        "from switchmark.model.io import Io\n"
        "from switchmark.model.ports import PortKind\n"
        "from switchmark.model.node import NodePort\n"
        "port = NodePort(PortKind.VETH, 'm', 'i', 1500, device_inside='eth0')\n"
        "print(port_spec(port, Io('loop-back'), timed=True), port_spec(port, Io('loop-back')))\n"
        "print(*needed_capabilities(Io('loop-back'), PortKind.VETH))\n"
    )
    expected = "loop:on=eth0,way=back,turns=1 loop:on=eth0,way=back\nnet_raw\n"
    assert run_in(with_loop, "-c", script) == expected


def test_keys_become_a_row_of_the_page() -> None:
    row = "| `loop` | `turns=N` (1 to 9), `way=there\\|back` |\n"
    assert ports_page({"backends": [LOOP], "missing": []}) == row


def test_names_have_hyphens_as_in_campaigns() -> None:
    assert Io.RAW_MMSG.value == "raw-mmsg" and all("_" not in io for io in Io)


def test_backend_of_the_page_equals_that_of_the_c_tests() -> None:
    page = (ROOT / "docs" / "extending-backend.md").read_text()
    assert f"```c\n{(ROOT / 'engine/tests/loop.c').read_text()}```\n" in page
