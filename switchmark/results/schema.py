"""The record's JSON schema, for programs that read results without this package.

`python -m switchmark.results.schema` writes docs/record.schema.json; `--check` only says
whether the file still tells the truth (exit 1 when it does not).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from switchmark.results.record import Record

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "record.schema.json"


def schema_text() -> str:
    """The JSON schema of `Record` as the file in docs/ must hold it."""
    schema = Record.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def main(arguments: list[str]) -> int:
    """Write the schema file, or check it."""
    if "--check" in arguments:
        if SCHEMA_FILE.read_text() == schema_text():
            return 0
        print(
            f"{SCHEMA_FILE}: differs from switchmark/results/record.py; "
            "run: python -m switchmark.results.schema",
            file=sys.stderr,
        )
        return 1
    SCHEMA_FILE.write_text(schema_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
