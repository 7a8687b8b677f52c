"""The engine's files include only what lies below them: nothing calls back into a trial's life."""

from __future__ import annotations

import re
from pathlib import Path

ENGINE = Path(__file__).parents[2] / "engine"
LAYERS = (  # from the bottom; a file includes its own layer and those before it
    (
        "version",
        "alignment",
        "build",
        "build_facts",
        "fail",
        "options_value",
        "memory",
        "cache_line_bytes",
        "baton",
        "measure/*",
        "traffic/*",
        "io/*",
    ),
    ("role/role", "role/faults", "role/delay_line"),
    ("options*", "port_faults", "queues", "trial_state"),
    (
        "report/*",
        "list",
        "distances",
        "command",
        "idle",
        "call_filter",
        "confinement",
        "privileges",
        "replay_file",
        "user",
    ),
    ("snapshot", "end", "probes"),
    ("trial_loop", "ends", "ends_links"),
    ("role/*", "drain", "workers"),
    ("trial", "control", "check"),
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
