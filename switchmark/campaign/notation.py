"""Reads and writes the (D, L, S, V, P, R, B) notation of Ara et al. (2021).

`(D=throughput, L=local, S=1vs1, V=linux-bridge, P=64, R=1M, B=64)` names a trial. Other keys with a
value other than the default follow inside the parentheses as `key=value`. `V ∈ {ovs, vpp}` or
`P={64, 1500}` means several trials.
"""

from __future__ import annotations

import re

from switchmark.campaign import sweeps
from switchmark.campaign.expand import trials_of
from switchmark.errors import UsageError
from switchmark.language.source import CampaignError, Problems, SourcePlace, Text, canonical
from switchmark.language.values import BadValueError, shorten, unknown
from switchmark.model.parameter_table import BY_LETTER, BY_NAME, KEYS, PARAMETERS
from switchmark.model.parameter_type import Known, Parameter
from switchmark.model.trial import Trial

_KEY = re.compile(r"(?<![\w:+./*-])([A-Za-z_]\w*)\s*[=∈]")  # not the = inside a value
_SEPARATORS = " \t\r\n,;"


def to_notation(trial: Trial) -> str:
    """Write the trial's notation: the seven letters, then values other than the default."""
    parts = [f"{letter}={_shown(key, trial)}" for letter, key in BY_LETTER.items()]
    for key in KEYS:
        if key.letter is None and getattr(trial, key.field) != key.default:
            parts.append(f"{key.name}={_shown(key, trial)}")
    if trial.repetition:
        parts.append(f"repetition={trial.repetition}")
    return f"({', '.join(parts)})"


def _shown(key: Parameter, trial: Trial) -> str:
    return key.text(getattr(trial, key.field))


def from_notation(text: str, known: Known | None = None) -> Trial:
    """Read a notation that names one trial; the inverse of `to_notation`. Raises `UsageError` if
    the text is wrong or means several trials."""
    trials = expand_notation(text, known)
    if len(trials) != 1:
        raise UsageError(
            f"notation: '{shorten(text)}' means {len(trials)} trials",
            remedy="write one value for each key",
        )
    return trials[0]


def expand_notation(text: str, known: Known | None = None) -> list[Trial]:
    """Read all trials of the notation, in the order of its values.

    Letters and key names may be mixed, in any order, with any spacing. Keys that are left out have
    the default; V is required. `known=None` accepts any well-formed names."""
    settings = parse_settings(text)
    repetitions = pop_repetitions(settings)
    problems = Problems()
    nodes = {name: Text(value, SourcePlace("notation")) for name, value in settings.items()}
    block = sweeps.read_block(nodes, "", known or Known(scenarios=None), problems)
    grids = sweeps.grids([block], SourcePlace("notation"), problems)
    too_many = sweeps.too_many(grids, len(repetitions))
    if too_many:
        problems.note(SourcePlace("notation"), "", too_many)
    if problems:
        raise CampaignError(problems)
    grid = dict.fromkeys(trial for g in grids for trial in trials_of(sweeps.to_sweep(g)))
    return [t.model_copy(update={"repetition": r}) for r in repetitions for t in grid]


def pop_repetitions(settings: dict[str, str]) -> list[int]:
    """Remove the repetitions from the notation's settings, and return them. Raises `UsageError`."""
    try:
        return PARAMETERS["repetition"].parse(settings.pop("repetition", "0"), Known())
    except BadValueError as error:
        raise UsageError(f"notation: repetition: {error}") from None


def parse_settings(text: str) -> dict[str, str]:
    """Split the notation into the keys of campaign files and the texts of their values."""
    before, *pairs = _KEY.split(_without_parentheses(text))
    if before.strip(_SEPARATORS) or not pairs:
        wrong = shorten(before if pairs else text)
        raise UsageError(
            f"notation: '{wrong}' is not key=value", remedy="write e.g. (V=ovs, P=64, R=1M)"
        )
    settings: dict[str, str] = {}
    names = [*BY_LETTER, *BY_NAME, "repetition"]
    for written, value in zip(pairs[::2], pairs[1::2], strict=True):
        name = BY_LETTER[written].name if written in BY_LETTER else canonical(written)
        if name not in names:
            raise UsageError(f"notation: {unknown(written, names, 'key')}")
        if name in settings:
            raise UsageError(f"notation: {written} is given twice", remedy="keep one")
        if not value.strip(_SEPARATORS):
            raise UsageError(
                f"notation: {written} has no value", remedy=f"write e.g. {written}={_example(name)}"
            )
        settings[name] = value.strip(_SEPARATORS)
    return settings


def _example(name: str) -> str:
    return BY_NAME[name].example if name in BY_NAME else "1"


def _without_parentheses(text: str) -> str:
    body = text.strip()
    if body.startswith("(") and body.count("(") == body.count(")") == 1:
        return body[1:].replace(")", " ")
    if "(" in body or ")" in body:
        raise UsageError(
            f"notation: '{shorten(text)}' needs one '(' before it and one ')' after it"
        )
    return body
