"""The keys of a campaign as a whole: repetitions, order, trim, verification, budget.

One table, as model/trial.py has for trials; the loader, `--set` and docs/campaigns.md read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from switchmark.host import tuning
from switchmark.language import values
from switchmark.language.values import Limits
from switchmark.model.campaign import MAX_REPEATS, CampaignDefinition
from switchmark.model.choices import MAX_REPETITIONS, MAX_TIME_S, MIN_TIME_S
from switchmark.statistics.defaults import BUDGET_S, CONFIDENCE, PROVE


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of a campaign; a dot means a key inside a mapping (`trim.warm_up`)."""

    name: str
    field: str  # in CampaignDefinition, or in its part: `trim.warm_up_s`
    meaning: str
    read: Callable[[str], Any]
    example: str
    default: str
    unit: str


def _time_from_zero(text: str) -> float:
    return values.seconds(text, 0.0, MAX_TIME_S)


def _time(text: str) -> float:
    return values.seconds(text, MIN_TIME_S, MAX_TIME_S)


def _whole(low: int, high: int, noun: str) -> Callable[[str], int]:
    limits = Limits(low, high, f"not {noun}", f"too large for {noun}")
    return lambda text: values.whole(text, limits)


def _confidence(text: str) -> float:
    confidence = values.part(text)
    if confidence <= 0.5:
        raise values.BadValueError(
            f"confidence must be above 50% and below 100%, not {text}; e.g. 95%"
        )
    return confidence


def _tuning(text: str) -> str:
    try:
        tuning.parse(text)
    except ValueError as error:
        raise values.BadValueError(str(error)) from None
    return text


_USUAL = CampaignDefinition.model_construct()  # without a name and trials


def _row(
    name: str,
    read: Callable[[str], Any],
    example: str,
    meaning: str,
    default: str = "",
    unit: str = "",
    field: str = "",
) -> Setting:
    """A setting whose field has its name, and the default of that field, unless they are given."""
    field = field or name
    usual = default or str(attrgetter(field)(_USUAL))
    return Setting(name, field, meaning, read, example, usual, unit)


# fmt: off
SETTINGS: tuple[Setting, ...] = (
    _row("name", values.name, "my-campaign",
        "name of the campaign in results and reports", "the name of the file"),
    _row("description", lambda text: " ".join(text.split()), "What does 64 B cost?",
        "purpose of the campaign, in one line", "empty"),
    _row("repetitions", _whole(1, MAX_REPETITIONS, "a number of repetitions"), "3",
        "number of times that every trial is measured; each repetition is a block of all trials. "
        "With `prove` or `budget`: exactly this number of blocks, decided or not. It applies to "
        "the whole campaign and is refused inside `sweeps`",
        "1; with `prove` or `budget`: as many as are needed"),
    _row("prove", values.part, "5%",
        "smallest difference that matters to you. The bench measures block after block until every "
        "comparison is decided (one contender leads, or they are equal within this share), or "
        "until `budget` is spent",
        f"{PROVE:.0%} with `budget`"),
    _row("budget", _time, "3m",
        "time for all trials of a campaign with `prove`, including the overhead of the bench",
        f"{values.format_seconds(BUDGET_S)} with `prove`", "time", "budget_s"),
    _row("confidence", _confidence, "99%",
        "probability that all statements about a figure at a test point are right, although the "
        "data are tested several times during the run",
        f"{CONFIDENCE:.0%}"),
    _row("until_ci", values.part, "2%",
        "repeat each trial until half the 95 % confidence interval of its figure is at most this "
        "share of the mean (of the forwarded load, the median round trip, or the figure of a "
        "method)",
        "none"),
    _row("max_repetitions", _whole(1, MAX_REPETITIONS, "a number of repetitions"), "20",
        "with `until_ci`: the largest number of repetitions of a trial"),
    _row("repeat_disturbed", _whole(0, MAX_REPEATS, "a number of repeats"), "2",
        "how often to repeat a trial that other programs disturbed; the least disturbed "
        "measurement counts. `time_budget` does not include these repetitions"),
    _row("seed", _whole(0, 2**63 - 1, "a seed"), "42",
        "seed of the random order of the trials inside each block"),
    _row("trim.warm_up", _time_from_zero, "1s",
        "time at the beginning of every trial that does not count",
        f"duration / 5, at most {values.format_seconds(_USUAL.trim.warm_up_s)}",
        "time", "trim.warm_up_s"),
    _row("trim.cool_down", _time_from_zero, "500ms",
        "time at the end of every trial that does not count",
        f"duration / 12.5, at most {values.format_seconds(_USUAL.trim.cool_down_s)}",
        "time", "trim.cool_down_s"),
    _row("verify.frames", _whole(1, 10_000, "a number of frames"), "20",
        "frames sent in each direction before a trial; the switch learns addresses from them",
        unit="frames"),
    _row("verify.min_arrived", values.share, "90%",
        "share of these frames that must arrive; otherwise the result is marked `unverified`",
        f"{_USUAL.verify.min_arrived_ratio:.0%}", field="verify.min_arrived_ratio"),
    _row("verify.max_strays", _whole(0, 1_000_000, "a number of strays"), "2",
        "frames that may arrive at a wrong port after the switch has learned the addresses",
        unit="frames"),
    _row("verify.timeout", _time, "10s",
        "longest time until every port of a switch forwards frames",
        values.format_seconds(_USUAL.verify.timeout_s), "time", "verify.timeout_s"),
    _row("mixed_connect_modes", values.boolean, "true",
        "`true`: run each switch in its default connect mode, which `switchmark list switches` "
        "prints, although the modes differ", "false"),
    _row("skip_unavailable", values.boolean, "true",
        "`true`: instead of refusing the campaign, leave out switches that cannot do a sweep or "
        "cannot run on this machine, and trials that need more than the limits of the place. The "
        "run prints each reason", "false"),
    _row("first_available.switch", _whole(1, 100, "a number of switches"), "3",
        "number of switches to measure: the first ones of the list `switch` that can run here. If "
        "an earlier one cannot run, the run prints why", "all of them"),
    _row("first_available.environment", _whole(1, 100, "a number of environments"), "1",
        "the same for `environment`", "all of them"),
    _row("tuning", _tuning, "governor:performance+thp:never",
        "settings of the machine during the campaign, which are restored after it: `as-is`, "
        "`papers`, or a list, e.g. `governor:performance+turbo:off` (docs/environments.md)"),
    _row("time_budget", _time, "3m",
        "refuse the campaign if the durations of its trials add up to more than this; with "
        "`until_ci`, start no further repetition after this time. `budget` belongs to `prove`",
        "none", "time", "time_budget_s"),
)
# fmt: on

# Keys that hold other keys, and what they are for.
STRUCTURE: dict[str, str] = {
    "throughput": "values that apply to throughput trials only",
    "latency": "values that apply to latency trials only",
    "contenders": "the contenders by name; each entry has the keys in which it differs: `switch`, "
    "`program`, `switch_options`, cores and others (see above)",
    "sweeps": "a list of sweeps; each adds its keys to the keys outside",
    "published": "figures from the literature, printed beside the measured figures",
    "findings": "statements of the literature, which a run judges by its own ratios",
    "expect": "expected figures, which are judged at the end of a run (docs/ci.md)",
}

BY_NAME: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}
GROUPS: tuple[str, ...] = tuple(
    dict.fromkeys(setting.name.split(".")[0] for setting in SETTINGS if "." in setting.name)
)
