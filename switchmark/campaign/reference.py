"""The tables of docs/campaigns.md, docs/switch-options.md and docs/functions.md, generated from
the tables of the loader and the capabilities of switches.

    python -m switchmark.campaign.reference

prints them; a test compares the page with them, so the two cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from switchmark.campaign import settings
from switchmark.function.registry import FUNCTIONS
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import Dimension
from switchmark.model.functions import FORWARD, function_names
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
        "the cores, the memory pages and other load": Kind.CORES,
        "the place of the applications": Kind.PLACE,
        "the work of the switch": Kind.FUNCTION,
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


def function_cells() -> str:
    """The network functions of each switch: the largest scale, the IP versions if not both, and the
    version of the switch for which the cell was tried."""
    names = [name for name in function_names() if name != FORWARD]
    rows = []
    for switch, make in SWITCHES.items():
        declared = make().capabilities
        if declared.functions or declared.functions_not_built:
            cells = [_function_cell(declared, name) for name in names]
            rows.append((f"`{switch}`", *cells))
    return table(("switch", *(f"`{name}`" for name in names)), rows)


def function_limits() -> str:
    """The reasons for largest scales, and for functions that are not built."""
    rows = []
    for switch, make in SWITCHES.items():
        declared = make().capabilities
        for name, support in declared.functions.items():
            if support.scale is not None and support.limit:
                unit = FUNCTIONS[name].unit
                rows.append(
                    (f"`{switch}`", f"`{name}`", f"at most {support.scale:,} {unit}", support.limit)
                )
            for option, (scale, reason) in support.scale_by_option.items():
                value = option.replace(":", ": ")
                rows.append((f"`{switch}`", f"`{name}`", f"{value}: at most {scale:,}", reason))
        for name, reason in declared.functions_not_built.items():
            rows.append((f"`{switch}`", f"`{name}`", "not built", reason))
    return table(("switch", "function", "limit", "reason"), rows)


def _function_cell(declared: Capabilities, name: str) -> str:
    if name in declared.functions_not_built:
        return "not built"
    support = declared.functions.get(name)
    if support is None:
        return "-"
    scale = "yes" if support.scale is None else f"{support.scale:,}"
    versions = "" if len(support.ip_versions) == 2 else f", IPv{support.ip_versions[0]} only"
    return f"{scale}{versions}" + (f" ({support.version})" if support.version else "")


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
            [
                contender_keys(),
                trial_keys(),
                campaign_keys(),
                structure_keys(),
                switch_options(),
                function_cells(),
                function_limits(),
            ]
        )
    )
