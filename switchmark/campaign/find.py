"""Finds the campaign that an argument names: a built-in campaign, a file, or a notation.

switchmark run quick
switchmark run my-campaign.yaml
switchmark run "(V=linux-bridge, P={64, 1500}, R=1M)"
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path

from switchmark.campaign import load, notation
from switchmark.errors import UsageError
from switchmark.language import values
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.parameter_type import Known
from switchmark.plugins import yaml_names

_SUFFIXES = (".yaml", ".yml")
_FOLDER = resources.files("switchmark.campaign") / "builtin"
_NOTATION = "notation"
_LONGEST_NAME = 60
PAPERS = "papers"  # folder of the items of papers, each a campaign


def builtin_names() -> list[str]:
    """Return the campaigns that come with switchmark; those of the papers' items are last."""
    return [*_names(""), *_names(PAPERS)]


def builtin_text(name: str) -> str:
    """Return the YAML of a built-in campaign."""
    folder = _FOLDER if name in _names("") else _FOLDER / PAPERS
    return (folder / f"{name}.yaml").read_text("utf-8")


@cache
def _names(folder: str) -> tuple[str, ...]:
    return tuple(yaml_names(_FOLDER / folder if folder else _FOLDER))


def find_campaign(argument: str, known: Known, overrides: Sequence[str] = ()) -> CampaignDefinition:
    """Return the campaign of an argument; `overrides` are `key=value` texts that replace its
    values.

    Raises `UsageError` if it does not exist, `CampaignError` if it has errors."""
    if argument.lstrip().startswith("("):
        settings = notation.parse_settings(argument)
        notation.pop_repetitions(settings)  # a new run has its own numbers
        campaign = load.load_settings(
            settings,
            known,
            name=_NOTATION,
            label=lambda key: f"{_NOTATION}: {key}",
            overrides=overrides,
        )
        if campaign.name != _NOTATION:  # `--set name=...`
            return campaign
        return campaign.model_copy(update={"name": _name_of(settings)})
    if argument in builtin_names():
        return load.load_text(builtin_text(argument), f"{argument}.yaml", known, overrides)
    if argument.endswith(_SUFFIXES) or "/" in argument or Path(argument).is_file():
        return load.load_file(Path(argument), known, overrides)
    raise UsageError(
        f"{values.unknown(argument, builtin_names(), 'campaign')}",
        remedy='or name a file (.yaml) or a notation such as "(V=linux-bridge, P=64, R=1M)"',
    )


def _name_of(settings: Mapping[str, str]) -> str:
    """Return the name of the campaign of a notation: its switches, `ovs-dpdk-linux-bridge`."""
    text = "".join(c if c.isascii() and c.isalnum() else "-" for c in settings.get("switch", ""))
    return re.sub("-+", "-", text)[:_LONGEST_NAME].strip("-") or _NOTATION


def source_text(argument: str) -> str:
    """Return the text to be stored with the results: a campaign's YAML, or the notation."""
    if argument in builtin_names():
        return builtin_text(argument)
    if argument.lstrip().startswith("("):
        return f"# notation\n{argument}\n"
    return Path(argument).read_text("utf-8")
