"""The cost of a network function: the figure at each scale as a ratio to the contender's own
baseline, from pairs of trials in the same block.

The baseline of an access control list is the same trial without rules; of a routing table, one
route; of other functions, the base alone. A share is computed if the run has this baseline.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

from switchmark.formatting import ratios
from switchmark.function.registry import FUNCTIONS
from switchmark.model.functions import ROUTE, FunctionList
from switchmark.model.parameter_table import BY_NAME, PARAMETERS, of_kinds, point_of
from switchmark.model.parameter_type import Kind, counted
from switchmark.model.trial import Trial
from switchmark.record.metric import Metric
from switchmark.record.page_sizes import Point
from switchmark.results.answer import observed_in
from switchmark.results.blocks import Observed, as_block_trials
from switchmark.results.groups import differing
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import Run
from switchmark.statistics.paired import PairedRatio, pairs_of, ratio_of
from switchmark.statistics.states import state_figures

_RATES = ("forwarded", "goodput", "transactions")  # figures that are called the rate


@dataclass(frozen=True, slots=True)
class FunctionShare:
    """The figure of a contender with a function, divided by the figure of its baseline."""

    contender: str
    trial: Trial  # with the function
    baseline: Trial
    metric: Metric
    value: float  # the ratio; below three pairs, the median of the pairs
    pairs: int
    ratio: PairedRatio | None  # with its interval; None below three pairs

    @property
    def scale(self) -> tuple[int, str] | None:
        """The number of entries and their unit; None for a function without a scale."""
        return scale_of(self.trial)


def scale_of(trial: Trial) -> tuple[int, str] | None:
    """Return the number of entries of the last function that has a scale, and their unit."""
    for name in reversed(trial.function.names):
        key = FUNCTIONS[name].scale_key if name in FUNCTIONS else None
        if key is not None:
            return getattr(trial, BY_NAME[key].field), FUNCTIONS[name].unit
    return None


def scale_key_of(trial: Trial) -> str:
    """Return the field of the trial that `scale_of` reads; empty if there is none."""
    named = (name for name in reversed(trial.function.names) if name in FUNCTIONS)
    keys = (FUNCTIONS[name].scale_key for name in named)
    return next((BY_NAME[key].field for key in keys if key is not None), "")


def baselines_of(trial: Trial) -> Iterator[Trial]:
    """Yield the trials that can be the baseline of a trial, the closest one first."""
    function = trial.function
    if function.is_plain:
        return
    if "acl" in function.added:
        if trial.rules == 0:
            return
        without = {"rules": 0}
        usual = {name: BY_NAME[name].default for name in ("rule_hit", "masks")}
        yield trial.changed(without)
        yield trial.changed(without | usual)
        yield _reduced(trial, [name for name in function.added if name != "acl"])
    elif function.added:
        yield _reduced(trial, [])
    elif function.base == ROUTE and trial.routes > 1:
        yield trial.changed({"routes": 1})


def _reduced(trial: Trial, added: Sequence[str]) -> Trial:
    """Return the trial with fewer functions; keys that no function reads get their defaults."""
    function = FunctionList.of("+".join([trial.function.base, *added]))
    read = {
        BY_NAME[key].field
        for name in function.names
        if name in FUNCTIONS
        for key in FUNCTIONS[name].keys
    }
    usual: dict[str, Any] = {
        row.field: row.default
        for row in of_kinds(Kind.FUNCTION)
        if row.field not in read and row.field != "function"
    }
    return trial.changed(usual | {"function": function})


def shares_of(run: Run, rows: Sequence[SummaryRow]) -> list[FunctionShare]:
    """Return the shares of a run's rows; none if the rows have no function."""
    if all(row.trial.function.is_plain for row in rows):
        return []
    names = {row.trial.id: row.contender for row in rows if not row.is_baseline}
    return function_shares(observed_in(run), names)


def function_shares(observed: Iterable[Observed], names: Mapping[str, str]) -> list[FunctionShare]:
    """Return the share of each contender at each scale, in the order of the trials. `names` gives
    the name of a contender by the id of its trial."""
    by_trial: dict[str, list[Observed]] = {}
    for item in observed:
        by_trial.setdefault(item.trial.id, []).append(item)
    shares = []
    for identity, items in by_trial.items():
        trial = items[0].trial
        if identity not in names:
            continue
        baseline = next((b for b in baselines_of(trial) if b.id in by_trial), None)
        if baseline is None:
            continue
        figures = dict.fromkeys(m for item in items for m in item.figures)
        for metric in (one for one in figures if not one.is_bound):
            share = _share(items, by_trial[baseline.id], metric, names[identity])
            if share is not None:
                shares.append(share)
            break  # the first figure decides
    return shares


def _share(
    items: Sequence[Observed], baseline: Sequence[Observed], metric: Metric, name: str
) -> FunctionShare | None:
    trials = as_block_trials([*items, *baseline], metric)
    trial, without = items[0].trial, baseline[0].trial
    pairs = pairs_of(trials, state_figures(trials), trial.id, without.id)
    if not pairs:
        return None
    ratio = ratio_of(pairs)
    value = ratio.value if ratio else exp(statistics.median(pair.log_ratio for pair in pairs))
    return FunctionShare(name, trial, without, metric, value, len(pairs), ratio)


def share_sentences(shares: Sequence[FunctionShare]) -> list[str]:
    """Return a sentence for each figure and scale: the share of each contender, the best first.
    Rates come first."""
    groups: dict[tuple[Any, ...], list[FunctionShare]] = {}
    for share in shares:
        groups.setdefault(group_of(share), []).append(share)

    def order(group: Sequence[FunctionShare]) -> tuple[Any, ...]:
        metric = group[0].metric
        return not metric.higher_is_better, metric.name, group[0].scale or (0, "")

    ordered = sorted(groups.values(), key=order)
    more = differing_words([group[0] for group in ordered], lambda share: _where(share.trial))
    return [_sentence(group, place) for group, place in zip(ordered, more, strict=True)]


def differing_words(
    shares: Sequence[FunctionShare], title_of: Callable[[FunctionShare], str]
) -> list[str]:
    """Return for each share the values that distinguish it from shares with the same figure and
    title: `CIR 1Gbit/s`. They are empty for a unique title."""
    points: dict[tuple[Any, ...], list[Point]] = defaultdict(list)
    keys = [(share.metric, share.baseline.function, title_of(share)) for share in shares]
    for key, share in zip(keys, shares, strict=True):
        points[key].append(point_of(share.trial))
    texts = []
    for key, share in zip(keys, shares, strict=True):
        scale_key = scale_key_of(share.trial)
        varying = [name for name in differing(points[key]) if name != scale_key]
        texts.append(
            ", ".join(PARAMETERS[name].words(getattr(share.trial, name)) for name in varying)
        )
    return texts


def group_of(share: FunctionShare, *, with_scale: bool = True) -> tuple[Any, ...]:
    """Return a key that is equal for shares that are put beside each other: those of one figure at
    one test point, or at points that differ in the scale alone if `with_scale` is False."""
    trial = share.trial
    left_out = "" if with_scale else scale_key_of(trial)
    return (
        share.metric,
        share.baseline.function,
        *(value for value in point_of(trial) if value[0] != left_out),
    )


def _sentence(group: Sequence[FunctionShare], place: str) -> str:
    first = group[0]
    rate = first.metric.higher_is_better
    ordered = sorted(group, key=lambda share: share.value, reverse=rate)
    parts = [f"{share.contender} {_value(share)}" for share in ordered]
    is_rate = rate and first.metric.name in _RATES
    figure = "rate" if is_rate else first.metric.name
    ratio = f"{figure} of each contender divided by its {figure} {_without(first)}"
    more = f", {place}" if place else ""
    return f"{_where(first.trial)}{more}, {ratio}: {', '.join(parts)}"


def _value(share: FunctionShare) -> str:
    if share.ratio is None:
        plural = "pair" if share.pairs == 1 else "pairs"
        value = ratios(share.value)[0]
        return f"{value} ({share.pairs} {plural} of trials, no interval)"
    value, low, high = ratios(share.value, share.ratio.low, share.ratio.high)
    return f"{value} ({low} to {high})"


def _without(share: FunctionShare) -> str:
    if "acl" in share.trial.function.added and share.baseline.function == share.trial.function:
        return "without rules"
    if share.baseline.function == share.trial.function:
        return "with one route"
    return f"with function {share.baseline.function}"


def _where(trial: Trial) -> str:
    scale = scale_of(trial)
    number_of_flows = f"{int(trial.flows):,}" if trial.flows.isdigit() else trial.flows
    flows = "" if trial.flows == "1" else f", {number_of_flows} flows"
    size = f" of {trial.packet_size_bytes} B" if scale is None else ""
    if scale is None:
        return f"With {trial.function}, frames{size}{flows}"
    number, unit = scale
    return f"At {counted(unit.removesuffix('s'))(number)} ({trial.function}{flows})"
