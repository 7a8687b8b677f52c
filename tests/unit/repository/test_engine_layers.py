"""The engine's files include only what lies below them: nothing calls back into a trial's life."""

from __future__ import annotations

import re
from pathlib import Path

ENGINE = Path(__file__).parents[3] / "engine"
LAYERS = (  # from the bottom; a file includes files of the same layer and of earlier layers
    (
        "version",
        "alignment",
        "build",
        "build_facts",
        "fail",
        "options/value",
        "cache_line_bytes",
        "common_divisor",
        "threads/core_token",
        "measure/*",
        "traffic/*",
        "io/*",
        "tcp/*",
    ),
    ("role/role", "role/faults", "role/delay_line"),
    ("options/*", "trial/port_faults", "ends/queues", "trial/state"),
    (
        "report/*",
        "subcommands/list",
        "subcommands/distances",
        "control/base64",
        "control/command",
        "threads/idle",
        "confinement/*",
    ),
    ("trial/snapshot", "ends/end", "ends/probes", "ends/denied"),
    ("trial/loop", "ends/ends", "ends/links"),
    ("role/*", "trial/drain", "threads/workers"),
    ("trial/trial", "control/control", "subcommands/check"),
    ("main",),
)


def _layer(path: Path) -> int:
    stem = path.relative_to(ENGINE).with_suffix("")
    for number, patterns in enumerate(LAYERS):
        if any(stem.as_posix() == p or (p.endswith("*") and stem.match(p)) for p in patterns):
            return number
    raise AssertionError(f"engine/{stem} is in no layer: name it in LAYERS")


def _upward() -> list[str]:
    found = []
    for path in sorted(ENGINE.rglob("*.[ch]")):
        if path.parts[-2] in ("tests", "fuzz"):
            continue
        for name in re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE):
            if _layer(ENGINE / name) > _layer(path):
                found.append(f"{path.relative_to(ENGINE)} includes {name}")
    return found


def test_no_file_includes_what_lies_above_it() -> None:
    assert _upward() == []
    assert len(list(ENGINE.rglob("*.c"))) > 50


def test_minimum_and_maximum_of_dpdk_are_not_nested() -> None:
    """Since DPDK 24.11 these macros declare variables, which shadow each other if nested."""
    nested = re.compile(r"RTE_M(?:AX|IN)\((?:[^()]|\([^()]*\))*RTE_M(?:AX|IN)\(")
    assert nested.search("RTE_MAX(first(a),\n  RTE_MIN(b, c))")
    sources = [*ENGINE.rglob("*.c"), *ENGINE.rglob("*.h")]
    assert [file.name for file in sources if nested.search(file.read_text())] == []
