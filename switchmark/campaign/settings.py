"""The keys of a campaign as a whole: repetitions, order, trim, verification, budget.

One table, as model/trial.py has for trials; the loader, `--set` and docs/campaigns.md read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from switchmark.language import values
from switchmark.language.values import Limits
from switchmark.model.campaign import MAX_REPEATS, CampaignDefinition
from switchmark.model.choices import MAX_REPETITIONS, MAX_TIME_S, MIN_TIME_S
from switchmark.statistics.defaults import BUDGET_S, CONFIDENCE, PROVE
from switchmark.testbed import tuning


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of a campaign; a dot means a key inside a mapping (`trim.warm_up`)."""

    name: str
    field: str  # of CampaignDefinition, or of its part: `trim.warm_up_s`
    meaning: str
    read: Callable[[str], Any]
    example: str
    default: str
    unit: str


def _time_from_zero(text: str) -> float:
    return values.seconds(text, 0.0, MAX_TIME_S)


def _time(text: str) -> float:
    return values.seconds(text, MIN_TIME_S, MAX_TIME_S)


def _whole(low: int, high: int, what: str) -> Callable[[str], int]:
    limits = Limits(low, high, f"not {what}", f"too large for {what}")
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


_USUAL = CampaignDefinition.model_construct()  # (without a name and trials)


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
        "names the campaign in results and reports", "the file's name"),
    _row("description", lambda text: " ".join(text.split()), "What does 64 B cost?",
        "one line that says what the campaign is for", "empty"),
    _row("repetitions", _whole(1, MAX_REPETITIONS, "a number of repetitions"), "3",
        "how often every trial is measured; each repetition is a block of all trials. With `prove` "
        "or `budget`: so many blocks, decided or not"),
    _row("prove", values.part, "5%",
        "measure block after block until every comparison is decided (one is ahead, or they are "
        "the same within this share), or `budget` is spent: the smallest lead worth knowing",
        f"{PROVE:.0%} with `budget`"),
    _row("budget", _time, "3m",
        "time for all trials of a campaign that proves, with the bench's own around them",
        f"{values.format_seconds(BUDGET_S)} with `prove`", "time", "budget_s"),
    _row("confidence", _confidence, "99%",
        "that no claim about a figure at a point is wrong, however often it is looked at",
        f"{CONFIDENCE:.0%}"),
    _row("until_ci", values.part, "2%",
        "then repeat each trial until half the 95 % confidence interval of its figure is at most "
        "this share of the mean (forwarded load, median round trip, or a method's own figure)",
        "none"),
    _row("max_repetitions", _whole(1, MAX_REPETITIONS, "a number of repetitions"), "20",
        "with `until_ci`: the most that any trial is repeated; `time_budget` ends it, too"),
    _row("repeat_disturbed", _whole(0, MAX_REPEATS, "a number of repeats"), "2",
        "measure a trial that other programs disturbed again, up to so many times, and keep the "
        "least disturbed measurement; `time_budget` does not count these"),
    _row("seed", _whole(0, 2**63 - 1, "a seed"), "42",
        "fixes the random order of the trials inside each block"),
    _row("trim.warm_up", _time_from_zero, "1s", "left out at the beginning of every trial",
        f"duration / 5, at most {values.format_seconds(_USUAL.trim.warm_up_s)}",
        "time", "trim.warm_up_s"),
    _row("trim.cool_down", _time_from_zero, "500ms", "left out at the end of every trial",
        f"duration / 12.5, at most {values.format_seconds(_USUAL.trim.cool_down_s)}",
        "time", "trim.cool_down_s"),
    _row("verify.frames", _whole(1, 10_000, "a number of frames"), "20",
        "frames sent each way before a trial, to teach addresses and to see them arrive",
        unit="frames"),
    _row("verify.min_arrived", values.share, "90%",
        "share of these frames that must arrive, or the result is marked `unverified` (not valid)",
        f"{_USUAL.verify.min_arrived_ratio:.0%}", field="verify.min_arrived_ratio"),
    _row("verify.max_strays", _whole(0, 1_000_000, "a number of strays"), "2",
        "frames that may show up at a port they were not meant for, once addresses are learned",
        unit="frames"),
    _row("verify.timeout", _time, "10s",
        "how long a switch may take until every port passes frames",
        values.format_seconds(_USUAL.verify.timeout_s), "time", "verify.timeout_s"),
    _row("mixed_connect_modes", values.boolean, "true",
        "`true`: run each switch in its own natural connect mode, although they differ", "false"),
    _row("skip_unavailable", values.boolean, "true",
        "`true`: leave out the switches that cannot do what is asked, or that this machine cannot "
        "run, each with its reason, instead of refusing the campaign", "false"),
    _row("first_available.switch", _whole(1, 100, "a number of switches"), "3",
        "`switch` lists switches in order of preference; so many are measured, the first ones that "
        "can run here, and the run says which were left out and why", "all of them"),
    _row("first_available.environment", _whole(1, 100, "a number of environments"), "1",
        "the same of `environment`", "all of them"),
    _row("tuning", _tuning, "governor:performance+thp:never",
        "settings of the machine for the time of the campaign, restored after it: `as-is`, "
        "`papers`, or your own, e.g. `governor:performance+turbo:off` (docs/environments.md)"),
    _row("time_budget", _time, "3m",
        "refuse the campaign if its trials measure longer than this in sum",
        "none", "time", "time_budget_s"),
)
# fmt: on

# Keys that hold other keys, and what they are for.
STRUCTURE: dict[str, str] = {
    "throughput": "values that apply to throughput trials only",
    "latency": "values that apply to latency trials only",
    "contenders": "what is compared, by the names that results use; each holds the means that are "
    "its own: `switch`, `program`, `switch_options`, cores ... (below)",
    "sweeps": "a list of blocks; each is a sweep of its own, on top of the keys outside",
    "published": "figures from the literature, printed beside the measured ones",
    "expect": "what the figures should be, judged at the end of a run (docs/ci.md)",
}

BY_NAME: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}
GROUPS: tuple[str, ...] = tuple(
    dict.fromkeys(setting.name.split(".")[0] for setting in SETTINGS if "." in setting.name)
)
