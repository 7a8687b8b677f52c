"""The help of a command, with its options in groups."""

from __future__ import annotations

import textwrap
from typing import Any

from typer.core import TyperCommand

MEASURE = "Campaign and trials"
MACHINE = "The machine"
RESULTS = "Results"
OUTPUT = "Output"
POOL = "Pool of testbeds"
SERVING = "Access"
_OTHER = "Options"


class WithWrittenEpilog:
    """The help of a command or a group, with its examples line by line."""

    epilog: str | None

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the examples line by line, and prose as paragraphs. A line that is wider than the
        screen breaks between words."""
        formatter.write("\n")
        for line in _joined((self.epilog or "").replace("\b\n", "").splitlines()):
            own_indent = len(line) - len(line.lstrip())
            indent = " " * (own_indent + 4 if own_indent else 0)
            parts = textwrap.wrap(
                line, formatter.width, subsequent_indent=indent, break_on_hyphens=False,
                break_long_words=False,
            )  # fmt: skip
            formatter.write("".join(f"  {part}\n" for part in parts) or "\n")


class GroupedCommand(WithWrittenEpilog, TyperCommand):
    """A command whose options are listed under the names of their groups (`rich_help_panel`)."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line as in man pages: `RUN...` is required, `[RUN]` not."""
        pieces = super().collect_usage_pieces(ctx)
        return [piece.replace("{", "").replace("}", "").upper() for piece in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the groups in the order of their first options."""
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                panel = getattr(parameter, "rich_help_panel", None)
                group = "Arguments" if is_argument else panel or _OTHER
                if is_argument:  # the help has the values
                    record = (record[0].partition(" <")[0].upper(), record[1])
                groups.setdefault(group, []).append(record)
        others = groups.pop(_OTHER, [])
        for group, records in [*groups.items(), (_OTHER, others)]:
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)


def _joined(lines: list[str]) -> list[str]:
    """The lines, with the lines of a paragraph as one; examples are indented, so they stay."""
    found: list[str] = []
    for line in lines:
        previous = found[-1] if found else ""
        if line[:1].strip() and previous[:1].strip() and not previous.endswith(":"):
            found[-1] = f"{previous} {line}"
        else:
            found.append(line)
    return found
