"""Reads the settings of the whole campaign, from the file and from `--set`.

It also refuses keys that the language does not have, and files of other programs.
"""

from __future__ import annotations

from typing import Any

from switchmark.campaign import contenders, settings, sweeps
from switchmark.campaign.layers import IN_SECTIONS
from switchmark.language import values
from switchmark.language.source import (
    Bad,
    CampaignError,
    Node,
    Problem,
    Problems,
    SourcePlace,
    Text,
    YamlMapping,
)
from switchmark.model.parameter_table import BY_NAME

_FOREIGN_FROM = 4  # unknown keys


def _top_keys() -> list[str]:
    """The keys that may stand at the top of a campaign file."""
    tops = [name for name in settings.BY_NAME if "." not in name]
    return [*BY_NAME, *tops, *settings.GROUPS, *settings.STRUCTURE]


class SettingsReader:
    """Reads settings and collects the problems on the way."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems

    def read(self, table: YamlMapping) -> dict[str, Any]:
        """The settings of a file, by their fields."""
        found: dict[str, Any] = {}
        for name, node in table.entries.items():
            if name in settings.BY_NAME:
                self._option(name, name, node, found)
            elif name in settings.GROUPS:
                self._group(name, node, found)
        return found

    def overridden(self, overrides: dict[str, Text]) -> dict[str, Any]:
        """Read the settings that `--set` gives."""
        found: dict[str, Any] = {}
        for name, node in overrides.items():
            if name in settings.BY_NAME:
                self._option(name, "", node, found)
            elif not (name in BY_NAME or name in IN_SECTIONS or contenders.is_inside(name)):
                allowed = [*BY_NAME, *settings.BY_NAME]
                message = sweeps.unknown_key(name, allowed)
                if name in settings.STRUCTURE or name in settings.GROUPS:
                    message = f"cannot be set as a whole; set a key in it, e.g. {_inside(name)}"
                self.problems.note(node.place, "", message)
        return found

    def refuse_unknown(self, table: YamlMapping) -> None:
        """Add a problem for each key of a file that is not in the language."""
        allowed = _top_keys()
        for name, place in table.key_places.items():
            if name not in allowed:
                self.problems.note(place, name, sweeps.unknown_key(name, allowed))

    @staticmethod
    def refuse_foreign(table: YamlMapping, where: str) -> None:
        """Raise `CampaignError` with one line for a file of another program, which is recognised
        by its keys: four or more are unknown, and more than are known."""
        allowed = set(_top_keys())
        unknown = [name for name in table.key_places if name not in allowed]
        if len(unknown) < _FOREIGN_FROM or 2 * len(unknown) <= len(table.key_places):
            return
        examples = ", ".join(values.shorten(name) for name in unknown[:3])
        message = (
            f"is not a campaign: {len(unknown)} of its {len(table.key_places)} keys are unknown "
            f"({examples}, ...); a campaign has keys such as switch and packet_size "
            "(docs/campaigns.md)"
        )
        raise CampaignError([Problem(SourcePlace(where), "", message)])

    def _group(self, name: str, node: Node, found: dict[str, Any]) -> None:
        inner = [key.split(".")[1] for key in settings.BY_NAME if key.startswith(f"{name}.")]
        if isinstance(node, Bad):
            return
        if not isinstance(node, YamlMapping):
            example = settings.BY_NAME[f"{name}.{inner[0]}"].example
            self.problems.note(
                node.place, name, f"holds other keys; write e.g. {name}: {{{inner[0]}: {example}}}"
            )
            return
        for key, value in node.entries.items():
            if key in inner:
                self._option(f"{name}.{key}", f"{name}.{key}", value, found)
            else:
                place = node.key_places.get(key, value.place)
                self.problems.note(place, f"{name}.{key}", sweeps.unknown_key(key, inner))

    def _option(self, name: str, shown: str, node: Node, found: dict[str, Any]) -> None:
        setting = settings.BY_NAME[name]
        try:
            found[setting.field] = setting.read(sweeps.text_of(node, f"{name}: {setting.example}"))
        except values.BadValueError as error:
            for message in error.messages:
                self.problems.note(node.place, shown, message)


def _inside(name: str) -> str:
    if name == contenders.SECTION:
        return f"{name}.NAME.program"
    if name in settings.GROUPS:
        return next(key for key in settings.BY_NAME if key.startswith(f"{name}."))
    return f"{name}.rate" if name in sweeps.SECTIONS else "packet_size"
