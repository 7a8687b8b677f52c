"""The fields of a testbed file: texts, numbers and paths, and what is wrong with one."""

from __future__ import annotations

import math
from pathlib import Path

from switchmark.language.source import Problem, SourcePlace, Text, YamlMapping


class FileFields:
    """Reads single fields; a field that is wrong is noted in `problems`, and read as None."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems

    def text(self, table: YamlMapping, key: str, name: str) -> str | None:
        """Read a text that is not empty."""
        node = table.entries.get(name)
        if node is None:
            return None
        if not isinstance(node, Text) or not node.text:
            self.note(node.place, f"{key}.{name}", "has no value; write one, or leave the key out")
            return None
        return node.text

    def number(self, table: YamlMapping, key: str, name: str, least: float) -> float | None:
        """Read a number greater than `least`."""
        if (text := self.text(table, key, name)) is None:
            return None
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number > least):
            place = table.key_places[name]
            self.note(place, f"{key}.{name}", f"'{text}' is no number greater than {least:g}")
            return None
        return number

    def file(self, table: YamlMapping, key: str, name: str, what: str) -> Path | None:
        """Read the path of a file; a relative one begins at the testbed file's folder."""
        text = self.text(table, key, name)
        if text is None:
            return None
        path = self.path.resolve().parent / Path(text).expanduser()
        if not path.is_file():
            place = table.key_places[name]
            self.note(place, f"{key}.{name}", f"{path} is no file; give that of {what}")
            return None
        return path

    def only_keys(self, table: YamlMapping, known: tuple[str, ...], key: str = "") -> None:
        """Note every key of the mapping `key` (empty: the whole file) that is not known."""
        for name in table.entries:
            if name not in known:
                whole = f"{key}.{name}" if key else name
                text = f"is no key here; there are: {', '.join(known)}"
                self.note(table.key_places[name], whole, text)

    def note(self, place: SourcePlace, key: str, message: str) -> None:
        """Note a problem with the field `key` at this place of the file."""
        self.problems.append(Problem(place, key, message))
