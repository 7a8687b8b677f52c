"""Every method of many trials, by name: a file of this folder that holds a `METHOD`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from switchmark.model.choices import PLAIN
from switchmark.model.trial import Trial
from switchmark.plugins import PluginRegistry, attribute_loader

if TYPE_CHECKING:
    from switchmark.method.support.method import Method

METHODS: PluginRegistry[Method] = PluginRegistry("switchmark.method", attribute_loader("METHOD"))


def method_names() -> tuple[str, ...]:
    """The values of `method`: `plain` (one run), and the methods of many trials."""
    return (PLAIN, *METHODS)


def usual_time_s(trial: Trial) -> float:
    """Seconds of traffic: exact for a plain trial, the usual time for a method of many trials."""
    if trial.method == PLAIN:
        return trial.duration_s
    usual_s = METHODS[trial.method].usual_time_s(trial)
    return usual_s if trial.budget_s is None else min(usual_s, trial.budget_s)
