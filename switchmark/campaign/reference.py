"""The tables of docs/campaigns.md and docs/switch-options.md, generated from the tables of the
loader.

    python -m switchmark.campaign.reference

prints them; a test compares the page with them, so the two cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from switchmark.campaign import settings
from switchmark.model.choices import Dimension
from switchmark.model.parameter_table import KEYS, OF_CONTENDERS
from switchmark.model.parameter_type import Kind, Parameter
from switchmark.switch.registry import SWITCHES


def trial_keys() -> str:
    """The keys that describe trials."""
    rows = [
        (
            f"`{key.name}`",
            key.letter or "",
            key.meaning,
            key.unit,
            _default(key),
            f"`{key.example}`",
        )
        for key in KEYS
    ]
    return table(("key", "letter", "meaning", "unit", "default", "example"), rows)


def contender_keys() -> str:
    """The keys that an entry of `contenders` may hold."""
    kinds = {
        "the switch and its traffic path": Kind.CONTENDER,
        "the cores": Kind.CORES,
        "the place of the applications": Kind.PLACE,
    }
    rows = [
        (what, ", ".join(f"`{one.name}`" for one in OF_CONTENDERS.values() if one.kind is kind))
        for what, kind in kinds.items()
    ]
    return table(("describes", "keys"), rows)


def campaign_keys() -> str:
    """The keys that describe the campaign as a whole."""
    rows = [
        (f"`{s.name}`", s.meaning, s.unit, s.default, f"`{s.example}`") for s in settings.SETTINGS
    ]
    return table(("key", "meaning", "unit", "default", "example"), rows)


def structure_keys() -> str:
    """The keys that hold other keys."""
    rows = [(f"`{name}`", meaning) for name, meaning in settings.STRUCTURE.items()]
    return table(("key", "meaning"), rows)


def switch_options() -> str:
    """The options that each switch has."""
    rows = [
        (f"`{name}`", f"`{o.name}`", o.meaning, o.allowed, f"`{o.default}`")
        for name, make in SWITCHES.items()
        for o in make().capabilities.options
    ]
    return table(("switch", "option", "meaning", "values", "default"), rows)


def _default(key: Parameter) -> str:
    if key.name == "dimension":
        return "the sections in the file, otherwise `throughput`"
    try:
        shown = {d: f"`{key.text(key.usual_for(d))}`" for d in Dimension}
    except KeyError:
        return "must be given"
    if len(set(shown.values())) == 1:
        return next(iter(shown.values()))
    return ", ".join(f"{text} for {dimension}" for dimension, text in shown.items())


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    print(
        "\n\n".join(
            [contender_keys(), trial_keys(), campaign_keys(), structure_keys(), switch_options()]
        )
    )
