"""Finds the campaign a user means: a built-in name, a file, or a notation.

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
PAPERS = "papers"  # the items of the papers, a campaign each


def builtin_names() -> list[str]:
    """The campaigns that come with switchmark; those of the papers' items are last."""
    return [*_names(""), *_names(PAPERS)]


def builtin_text(name: str) -> str:
    """The YAML of a built-in campaign, a good start for one's own."""
    folder = _FOLDER if name in _names("") else _FOLDER / PAPERS
    return (folder / f"{name}.yaml").read_text("utf-8")


@cache
def _names(folder: str) -> tuple[str, ...]:
    return tuple(yaml_names(_FOLDER / folder if folder else _FOLDER))


def find_campaign(what: str, known: Known, overrides: Sequence[str] = ()) -> CampaignDefinition:
    """The campaign called `what`; `overrides` are `key=value` texts that win over it.

    Raises `UsageError` when there is none, `CampaignError` when it is wrong."""
    if what.lstrip().startswith("("):
        settings = notation.parse_settings(what)
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
    if what in builtin_names():
        return load.load_text(builtin_text(what), f"{what}.yaml", known, overrides)
    if what.endswith(_SUFFIXES) or "/" in what or Path(what).is_file():
        return load.load_file(Path(what), known, overrides)
    raise UsageError(
        f"{values.unknown(what, builtin_names(), 'campaign')}",
        remedy='or name a file (.yaml) or a notation such as "(V=linux-bridge, P=64, R=1M)"',
    )


def _name_of(settings: Mapping[str, str]) -> str:
    """The name of the campaign that a notation describes: its switches, `ovs-dpdk-linux-bridge`."""
    words = "".join(c if c.isascii() and c.isalnum() else "-" for c in settings.get("switch", ""))
    return re.sub("-+", "-", words)[:_LONGEST_NAME].strip("-") or _NOTATION


def source_text(what: str) -> str:
    """The text that the user gave, to be kept with the results: a campaign's YAML, or the
    notation."""
    if what in builtin_names():
        return builtin_text(what)
    if what.lstrip().startswith("("):
        return f"# notation\n{what}\n"
    return Path(what).read_text("utf-8")
