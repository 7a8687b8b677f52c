"""Completion of arguments in the shell (Tab): names of this installation.

Each Tab starts a process, so only the registries are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from switchmark.model.choices import Dimension
from switchmark.model.io import Io


def switches(incomplete: str) -> list[str]:
    """Return the switches, and `direct`."""
    from switchmark.campaign.installed import installed

    return _begin(installed().known.switches or (), incomplete)


def environments(incomplete: str) -> list[str]:
    """The environments."""
    from switchmark.environment.registry import ENVIRONMENTS

    return _begin(ENVIRONMENTS, incomplete)


def methods(incomplete: str) -> list[str]:
    """The values of `method`."""
    from switchmark.method.registry import method_names

    return _begin(method_names(), incomplete)


def dimensions(incomplete: str) -> list[str]:
    """The dimensions."""
    return _begin(Dimension, incomplete)


def ios(incomplete: str) -> list[str]:
    """The kinds of I/O."""
    return _begin(Io, incomplete)


def campaigns(incomplete: str) -> list[str]:
    """The built-in campaigns, and the campaign files and folders that complete the path."""
    from switchmark.campaign.find import builtin_names

    head, slash, begun = incomplete.rpartition("/")
    inside = Path(f"{head}{slash}")
    files = [
        f"{head}{slash}{entry.name}{'/' if entry.is_dir() else ''}"
        for entry in (sorted(inside.iterdir()) if inside.is_dir() else [])
        if entry.is_dir() or entry.suffix in (".yaml", ".yml")
        if begun or not entry.name.startswith(".")
    ]
    return _begin([*builtin_names(), *files], incomplete)


def papers(incomplete: str) -> list[str]:
    """The papers whose items can be run."""
    from switchmark.reproduction.paper import paper_names

    return _begin([*paper_names(), "all"], incomplete)


def targets(incomplete: str) -> list[str]:
    """The described machines; the option also accepts the path of a file."""
    from switchmark.testbed.target import target_names

    return _begin(target_names(), incomplete)


def _begin(names: Iterable[str], incomplete: str) -> list[str]:
    return [str(name) for name in names if str(name).startswith(incomplete)]
