"""The table of switches in the documentation: the ports, connect modes and manner of each."""

from __future__ import annotations

import re
from pathlib import Path

from switchmark.switch.registry import SWITCHES

PAGE = Path(__file__).parents[3] / "docs/switches.md"
ROW = re.compile(r"^\| `([\w-]+)` \| [^|]+ \| ([^|]+) \| ([^|]+) \| (yes|no|-) \|$", re.MULTILINE)
KINDS = {"VALE ports": "vale", "VFs": "vf"}


def test_the_table_of_switches_says_what_they_can() -> None:
    rows = {name: cells for name, *cells in ROW.findall(PAGE.read_text())}
    assert set(rows) == set(SWITCHES)
    for name, (ports, modes, polls) in rows.items():
        can = SWITCHES[name]().capabilities
        kinds = {KINDS.get(kind, kind) for kind in ports.split(", ")}
        assert kinds == {str(kind) for kind in can.port_kinds}, name
        assert modes.split(", ") == [str(mode) for mode in can.connect_modes], name
        assert polls == "-" or (polls == "yes") is can.polling, name
