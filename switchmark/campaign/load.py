"""From a campaign file, flags or a notation to its definition; reports all errors at once.

The functions are pure: `Known` lists the switches and environments that exist. An error is
one line with file, line, key, value and remedy, for example
`campaign.yaml:7: packet_size: 40 is below the smallest Ethernet frame (64 with FCS); use 64
or more`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from switchmark.campaign import contenders, sweeps
from switchmark.campaign.expectations import read_expectations
from switchmark.campaign.findings import note_unmatched_findings, read_findings
from switchmark.campaign.layers import Layers
from switchmark.campaign.published import note_unmatched, read_published
from switchmark.campaign.read_settings import SettingsReader
from switchmark.campaign.rules.times import stops_when_decided, time_refusals
from switchmark.campaign.rules.traffic import traffic_refusals
from switchmark.campaign.rules.workload import workload_refusals
from switchmark.campaign.sweeps import Block, Entry
from switchmark.language import source, values
from switchmark.language.source import (
    CampaignError,
    Problem,
    Problems,
    SourcePlace,
    Text,
    YamlMapping,
)
from switchmark.model.campaign import (
    CampaignDefinition,
    FirstAvailable,
    TrimPolicy,
    VerifyPolicy,
)
from switchmark.model.parameter_type import Known
from switchmark.statistics.defaults import BUDGET_S


def load_file(path: Path, known: Known, overrides: Sequence[str] = ()) -> CampaignDefinition:
    """Read the campaign in a YAML file. Raises `CampaignError` with one line for each problem.

    `overrides` are `key=value` texts (`--set`), which replace values in the file."""
    return load_text(source.read_file(path), str(path), known, overrides)


def load_text(
    text: str, where: str, known: Known, overrides: Sequence[str] = ()
) -> CampaignDefinition:
    """Read the campaign in a text; `where` names its source in messages. Without its suffix it is
    also the name of the campaign."""
    problems = Problems()
    table = source.parse(text, where, problems)
    SettingsReader.refuse_foreign(table, where)
    return _campaign(table, _split(overrides, problems), where, known, problems)


def load_settings(
    given: Mapping[str, str],
    known: Known,
    *,
    name: str,
    label: Callable[[str], str] = lambda key: f"--{key.replace('_', '-')}",
    overrides: Sequence[str] = (),
) -> CampaignDefinition:
    """Make a campaign from keys and values, for example the flags of `switchmark trial`.

    `label` names the place of a key in messages, by default `--packet-size: 40 is ...`."""
    problems = Problems()
    nodes = {key: Text(text, SourcePlace(label(key))) for key, text in given.items()}
    nodes |= _split(overrides, problems)
    table = YamlMapping({}, SourcePlace(name))
    return _campaign(table, nodes, name, known, problems)


def _split(overrides: Sequence[str], problems: Problems) -> dict[str, Text]:
    nodes: dict[str, Text] = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key.strip():
            message = f"'{values.shorten(override)}' is not key=value; write e.g. duration=2s"
            problems.note(SourcePlace("--set"), "", message)
            continue
        nodes[source.canonical(key.strip())] = Text(
            text.strip() or None, SourcePlace(f"--set {key.strip()}")
        )
    return nodes


def _campaign(
    table: YamlMapping, overrides: dict[str, Text], where: str, known: Known, problems: Problems
) -> CampaignDefinition:
    """Read the campaign in a table, with the values of `--set`. All problems are raised
    together."""
    layers, reader = Layers(known, problems), SettingsReader(problems)
    top = sweeps.read_block(table.entries, "", known, problems)
    over = layers.overriding(overrides)
    section = table.entries.get(contenders.SECTION)
    named = contenders.read_contenders(section, overrides, known, problems)
    options = reader.read(table) | reader.overridden(overrides)
    reader.refuse_unknown(table)
    grids = layers.grids(table, top, over, named, SourcePlace(where))
    published = read_published(table.entries.get("published"), known, problems)
    findings = read_findings(table.entries.get("findings"), known, problems)
    measured = {dimension for grid in grids for dimension in grid["dimension"].values}
    expect = read_expectations(table.entries.get("expect"), measured, problems)
    if not problems:
        _check(grids, options, where, problems)
        if published or findings:  # a trial that only `--set` removes still counts
            as_written = Layers(known, Problems())
            written = as_written.grids(table, top, Block(), named, SourcePlace(where))
            note_unmatched(published, written, problems)
            note_unmatched_findings(findings, written, problems)
    if problems:
        raise CampaignError(
            sorted(problems, key=lambda p: (p.place.source != where, p.place.line or 0))
        )
    literature: dict[str, Any] = {
        "published": tuple(figure for figure, _ in published),
        "findings": tuple(finding for finding, _ in findings),
    }
    return _build(grids, options, literature, expect, where)


def _check(
    grids: list[dict[str, Entry]], options: dict[str, Any], where: str, problems: Problems
) -> None:
    """Note combinations of valid values that are impossible."""
    if too_many := sweeps.too_many(grids, options.get("repetitions", 1)):
        problems.note(SourcePlace(where), "", too_many)
        return
    trim = _part(TrimPolicy, "trim", options)
    unique: dict[Problem, None] = {}
    for grid in grids:
        sweep = sweeps.to_sweep(grid)
        for refusal in (*workload_refusals(sweep), *traffic_refusals(sweep, trim)):
            entry = grid[refusal.key]
            unique[Problem(entry.place, entry.path, str(refusal))] = None
    problems += unique
    for refusal in time_refusals(grids, options, trim):
        problems.note(SourcePlace(where), refusal.key, str(refusal))


def _part(kind: Any, prefix: str, options: Mapping[str, Any]) -> Any:
    start = f"{prefix}."
    return kind(**{k.removeprefix(start): v for k, v in options.items() if k.startswith(start)})


def _build(
    grids: list[dict[str, Entry]],
    options: dict[str, Any],
    literature: Mapping[str, Any],
    expect: Sequence[Any],
    where: str,
) -> CampaignDefinition:
    plain = {field: value for field, value in options.items() if "." not in field}
    plain.setdefault("name", _name_from(where))
    if stops_when_decided(options):
        plain.setdefault("budget_s", BUDGET_S)
    else:
        plain.pop("budget_s", None)  # the number of blocks is set
    return CampaignDefinition(
        **plain,
        sweeps=tuple(sweeps.to_sweep(grid) for grid in grids),
        trim=_part(TrimPolicy, "trim", options),
        verify=_part(VerifyPolicy, "verify", options),
        first_available=_part(FirstAvailable, "first_available", options),
        **literature,
        expect=tuple(expect),
    )


def _name_from(where: str) -> str:
    stem = Path(where).stem
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._+-") else "-" for c in stem)
    return name.strip("-._+") or "campaign"
