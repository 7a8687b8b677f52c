"""The methods of many trials, by name. Each file of this folder that has a `METHOD` is a method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from switchmark.model.choices import PLAIN
from switchmark.model.trial import Trial
from switchmark.plugins import PluginRegistry, attribute_loader

if TYPE_CHECKING:
    from switchmark.method.support.method import Method

METHODS: PluginRegistry[Method] = PluginRegistry("switchmark.method", attribute_loader("METHOD"))


def method_names() -> tuple[str, ...]:
    """Return the values of `method`: `plain` (one trial), and the methods of many trials."""
    return (PLAIN, *METHODS)


def usual_time_s(trial: Trial) -> float:
    """Return the seconds of traffic: exact for a plain trial, otherwise the method's usual time."""
    if trial.method == PLAIN:
        return trial.duration_s
    usual_s = METHODS[trial.method].usual_time_s(trial)
    return usual_s if trial.budget_s is None else min(usual_s, trial.budget_s)
