"""The parts of docs/ about records and trust marks, made from the code that defines them.

`python -m switchmark.record.schema` writes docs/record.schema.json and the table of marks
in docs/results.md; `--check` only reports whether they are up to date (exit code 1 if not).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from switchmark.record import Record
from switchmark.record.marks import markdown_table

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA_FILE = "record.schema.json"
RESULTS_FILE = "results.md"
_BEGIN, _END = "<!-- marks: from switchmark/record/marks.py -->\n", "\n<!-- end of marks -->"


def schema_text() -> str:
    """The JSON schema of `Record` as the file in docs/ must hold it."""
    schema = Record.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def results_text(current: str) -> str:
    """docs/results.md with today's table of marks in its place."""
    before, found, rest = current.partition(_BEGIN)
    _, closed, after = rest.partition(_END)
    if not found or not closed:
        raise ValueError(f"{RESULTS_FILE}: the comments around the table of marks are gone")
    return f"{before}{_BEGIN}{markdown_table()}{_END}{after}"


def main(arguments: list[str], docs: Path = DOCS) -> int:
    """Write the two files, or check them."""
    due = {
        docs / SCHEMA_FILE: schema_text(),
        docs / RESULTS_FILE: results_text((docs / RESULTS_FILE).read_text()),
    }
    stale = [path for path, text in due.items() if not path.exists() or path.read_text() != text]
    if "--check" not in arguments:
        for path in stale:
            path.write_text(due[path])
        return 0
    for path in stale:
        print(
            f"{path}: differs from the code; run: python -m switchmark.record.schema",
            file=sys.stderr,
        )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
