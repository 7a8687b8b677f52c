"""Every method of many trials, by name: a file of this folder that holds a `METHOD`."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from switchmark.errors import SwitchmarkError
from switchmark.folder import Folder
from switchmark.model.choices import PLAIN
from switchmark.model.trial import Trial

if TYPE_CHECKING:
    from switchmark.method.support.method import Method


def _method(module: ModuleType, name: str) -> Method:
    from switchmark.method.support.method import Method  # names alone do not wait for it

    found = getattr(module, "METHOD", None)
    if not isinstance(found, Method) or found.name != name:
        raise SwitchmarkError(f"{module.__name__}: holds no METHOD with name {name!r}")
    return found


METHODS: Folder[Method] = Folder("switchmark.method", _method)


def method_names() -> tuple[str, ...]:
    """The values of `method`: `plain` (one run), and the methods of many trials."""
    return (PLAIN, *METHODS)


def usual_time_s(trial: Trial) -> float:
    """Seconds of traffic: exact for a plain trial, the usual time for a method of many trials."""
    if trial.method == PLAIN:
        return trial.duration_s
    usual_s = METHODS[trial.method].usual_time_s(trial)
    return usual_s if trial.budget_s is None else min(usual_s, trial.budget_s)
