"""The keys of a campaign as a whole: repetitions, order, trim, verification, budget.

One table, as model/trial.py has for trials; the loader, `--set` and docs/campaigns.md read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from switchmark.language import values
from switchmark.language.values import Limits
from switchmark.model.campaign import MAX_REPEATS, CampaignDefinition, TrimPolicy, VerifyPolicy
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
    unit: str = ""


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


_TRIM, _VERIFY = TrimPolicy(), VerifyPolicy()

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "name",
        "name",
        "names the campaign in results and reports",
        values.name,
        "my-campaign",
        "the file's name",
    ),
    Setting(
        "description",
        "description",
        "one line that says what the campaign is for",
        lambda text: " ".join(text.split()),
        "What does 64 B cost?",
        "empty",
    ),
    Setting(
        "repetitions",
        "repetitions",
        "how often every trial is measured; each repetition is a block of all trials. With `prove` "
        "or `budget`: so many blocks, decided or not",
        _whole(1, MAX_REPETITIONS, "a number of repetitions"),
        "3",
        str(CampaignDefinition.model_fields["repetitions"].default),
    ),
    Setting(
        "prove",
        "prove",
        "measure block after block until every comparison is decided (one is ahead, or they are "
        "the same within this share), or `budget` is spent: the smallest lead worth knowing",
        values.part,
        "5%",
        f"{PROVE:.0%} with `budget`",
    ),
    Setting(
        "budget",
        "budget_s",
        "time for all trials of a campaign that proves, with the bench's own around them",
        _time,
        "3m",
        f"{values.format_seconds(BUDGET_S)} with `prove`",
        "time",
    ),
    Setting(
        "confidence",
        "confidence",
        "that no claim about a figure at a point is wrong, however often it is looked at",
        _confidence,
        "99%",
        f"{CONFIDENCE:.0%}",
    ),
    Setting(
        "until_ci",
        "until_ci",
        "then repeat each trial until half the 95 % confidence interval of its figure is at most "
        "this share of the mean (forwarded load, median round trip, or a method's own figure)",
        values.part,
        "2%",
        "none",
    ),
    Setting(
        "max_repetitions",
        "max_repetitions",
        "with `until_ci`: the most that any trial is repeated; `time_budget` ends it, too",
        _whole(1, MAX_REPETITIONS, "a number of repetitions"),
        "20",
        str(CampaignDefinition.model_fields["max_repetitions"].default),
    ),
    Setting(
        "repeat_disturbed",
        "repeat_disturbed",
        "measure a trial that other programs disturbed again, up to so many times, and keep the "
        "least disturbed measurement; `time_budget` does not count these",
        _whole(0, MAX_REPEATS, "a number of repeats"),
        "2",
        str(CampaignDefinition.model_fields["repeat_disturbed"].default),
    ),
    Setting(
        "seed",
        "seed",
        "fixes the random order of the trials inside each block",
        _whole(0, 2**63 - 1, "a seed"),
        "42",
        str(CampaignDefinition.model_fields["seed"].default),
    ),
    Setting(
        "trim.warm_up",
        "trim.warm_up_s",
        "left out at the beginning of every trial",
        _time_from_zero,
        "1s",
        f"duration / 5, at most {values.format_seconds(_TRIM.warm_up_s)}",
        "time",
    ),
    Setting(
        "trim.cool_down",
        "trim.cool_down_s",
        "left out at the end of every trial",
        _time_from_zero,
        "500ms",
        f"duration / 12.5, at most {values.format_seconds(_TRIM.cool_down_s)}",
        "time",
    ),
    Setting(
        "verify.frames",
        "verify.frames",
        "frames sent each way before a trial, to teach addresses and to see them arrive",
        _whole(1, 10_000, "a number of frames"),
        "20",
        str(_VERIFY.frames),
        "frames",
    ),
    Setting(
        "verify.min_arrived",
        "verify.min_arrived_ratio",
        "share of these frames that must arrive, or the result is marked `unverified` (not valid)",
        values.share,
        "90%",
        f"{_VERIFY.min_arrived_ratio:.0%}",
    ),
    Setting(
        "verify.max_strays",
        "verify.max_strays",
        "frames that may show up at a port they were not meant for, once addresses are learned",
        _whole(0, 1_000_000, "a number of strays"),
        "2",
        str(_VERIFY.max_strays),
        "frames",
    ),
    Setting(
        "verify.timeout",
        "verify.timeout_s",
        "how long a switch may take until every port passes frames",
        _time,
        "10s",
        values.format_seconds(_VERIFY.timeout_s),
        "time",
    ),
    Setting(
        "mixed_connect_modes",
        "mixed_connect_modes",
        "`true`: run each switch in its own natural connect mode, although they differ",
        values.boolean,
        "true",
        "false",
    ),
    Setting(
        "skip_unavailable",
        "skip_unavailable",
        "`true`: leave out the switches that cannot do what is asked, or that this machine cannot "
        "run, each with its reason, instead of refusing the campaign",
        values.boolean,
        "true",
        "false",
    ),
    Setting(
        "tuning",
        "tuning",
        "settings of the machine for the time of the campaign, restored after it: `as-is`, "
        "`papers`, or your own, e.g. `governor:performance+turbo:off` (docs/environments.md)",
        _tuning,
        "governor:performance+thp:never",
        str(CampaignDefinition.model_fields["tuning"].default),
    ),
    Setting(
        "time_budget",
        "time_budget_s",
        "refuse the campaign if its trials measure longer than this in sum",
        _time,
        "3m",
        "none",
        "time",
    ),
)

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
