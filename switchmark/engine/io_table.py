"""Makes the bench's table of I/O from the engine's own rows (`engine/io/*.c`), so that a backend is
described once:

    python -m switchmark.engine.io_table [ENGINE]   # writes them in switchmark/model/io.py

A campaign can be read and planned where no engine is, so the table is kept; a test holds it to the
engine that it finds, and so the list of ports in docs/engine-protocol.md.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from switchmark.engine.binary import find_engine
from switchmark.host.process_output import stdout_of

MODULE = Path(__file__).parents[1] / "model" / "io.py"


def listing(engine: Path) -> dict[str, Any]:
    """The capabilities that the engine prints. Raises ValueError where it prints none."""
    return dict(json.loads(stdout_of([engine, "list", "--json"]) or ""))


def table(listed: dict[str, Any]) -> str:
    """The text of the module `switchmark.model.io` with these names and rows."""
    names, rows = "", ""
    for backend in _all(listed):
        for word in backend["io"]:
            name = word["name"].upper().replace("-", "_")
            names += f"    {name} = {_quoted(word['name'])}\n"
            container = ", ".join(map(_quoted, filter(None, word["container"].split(","))))
            rows += (
                f"    Io.{name}: IoRow(\n"
                f"        {_quoted(backend['name'])},\n"
                f"        {_quoted(word['meaning'])},\n"
                f"        {_quoted(word['arguments'])},\n"
                f"        {_quoted(word['timed'])},\n"
                f"        ({container}{',' * (container.count(',') == 0 < len(container))}),\n"
            )
            rows += "        datagrams=True,\n" if backend["datagrams"] else ""
            rows += "        blocks=True,\n" if "block" in backend["keys"].split(", ") else ""
            rows += "    ),\n"
    text = _between(MODULE.read_text(), '    AUTO = "auto"\n', "\n\n@dataclass", names)
    return _between(text, "IO_ROWS: dict[Io, IoRow] = {\n", "}\n\n\ndef ", rows)


def _between(text: str, before: str, after: str, new: str) -> str:
    """The text with `new` between these two, whatever was there."""
    start = text.index(before) + len(before)
    return text[:start] + new + text[text.index(after, start) :]


def ports_page(listed: dict[str, Any]) -> str:
    """The rows of the table of port specifications in docs/engine-protocol.md."""
    lines = []
    for backend in _all(listed):
        keys = re.sub(r"(?<![\w(])([a-z]+(-[a-z]+)*=[^\s,;:()]+)", r"`\1`", backend["keys"])
        lines.append(f"| `{backend['name']}` | {keys.replace('|', chr(92) + '|')} |\n")
    return "".join(lines)


def _all(listed: dict[str, Any]) -> list[dict[str, Any]]:
    """All backends, including those that this build of the engine lacks."""
    return sorted([*listed["backends"], *listed["missing"]], key=lambda one: str(one["name"]))


def _quoted(text: str | None) -> str:
    return "None" if text is None else json.dumps(text)


if __name__ == "__main__":
    text = table(listing(Path(sys.argv[1]) if sys.argv[1:] else find_engine()))
    MODULE.write_text(text)
