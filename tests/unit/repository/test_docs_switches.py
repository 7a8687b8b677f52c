"""The table of switches in the documentation: ports, connect modes and kind of each switch."""

from __future__ import annotations

import re
from pathlib import Path

from switchmark.switch.registry import SWITCHES

PAGE = Path(__file__).parents[3] / "docs/switches.md"
ROW = re.compile(r"^\| `([\w-]+)` \| [^|]+ \| ([^|]+) \| ([^|]+) \| (yes|no|-) \|$", re.MULTILINE)
KINDS = {"VALE ports": "vale", "VFs": "vf"}


def test_table_of_switches_has_their_capabilities() -> None:
    rows = {name: cells for name, *cells in ROW.findall(PAGE.read_text())}
    assert set(rows) == set(SWITCHES)
    for name, (ports, modes, polls) in rows.items():
        capabilities = SWITCHES[name]().capabilities
        kinds = {KINDS.get(kind, kind) for kind in ports.split(", ")}
        assert kinds == {str(kind) for kind in capabilities.port_kinds}, name
        assert modes.split(", ") == [str(mode) for mode in capabilities.connect_modes], name
        assert polls == "-" or (polls == "yes") is capabilities.polling, name
