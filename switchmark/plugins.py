"""The modules of a folder by name: nothing lists them but the folder itself.

A switch, a method, an environment or a scenario is one file. Its name is the file's, with dashes;
the file is imported when it is asked for, so that names cost no imports. Folders may lie in a zip
archive, as those of the agent on another host do (remote/bundle.py).
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.resources.abc import Traversable
from types import ModuleType
from typing import Any, TypeVar

from switchmark.errors import SwitchmarkError

T = TypeVar("T")
NOT_ONE_OF_THEM = "registry"  # the file that gives out the others


class PluginRegistry(Mapping[str, T]):
    """The modules of a package by their names; `take` gets a module's value."""

    def __init__(self, package: str, take: Callable[[ModuleType, str], T]) -> None:
        self._package = package
        self._take = take
        self._names: tuple[str, ...] = ()
        self._taken: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._taken:
            if name not in self._listed():
                raise KeyError(name)
            module = import_module(f"{self._package}.{name.replace('-', '_')}")
            self._taken[name] = self._take(module, name)
        return self._taken[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed())

    def __contains__(self, name: object) -> bool:
        return name in self._listed()

    def __len__(self) -> int:
        return len(self._listed())

    @property
    def written(self) -> str:
        """The names as a list in a sentence: `a`, `b` or `c`."""
        *others, last = (f"`{name}`" for name in self)
        return f"{', '.join(others)} or {last}" if others else last

    def _listed(self) -> tuple[str, ...]:
        if not self._names:
            path = import_module(self._package).__path__
            self._names = tuple(
                one.name.replace("_", "-")
                for one in pkgutil.iter_modules(path)
                if not one.ispkg and one.name != NOT_ONE_OF_THEM
            )
        return self._names


def yaml_names(folder: Traversable) -> list[str]:
    """The YAML files of a folder by their names without the ending, in alphabetical order."""
    names = (entry.name for entry in folder.iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def attribute_loader(attribute: str) -> Callable[[ModuleType, str], Any]:
    """Return a function that reads this attribute of a module; the value's `name` is the module's.

    The function raises `SwitchmarkError` if there is no such value."""

    def take(module: ModuleType, name: str) -> Any:
        found = getattr(module, attribute, None)
        if getattr(found, "name", None) != name:
            raise SwitchmarkError(f"{module.__name__}: holds no {attribute} with name {name!r}")
        return found

    return take


def load_class(module: ModuleType, name: str) -> type:
    """The class of this module whose attribute `name` is this name.

    Raises `SwitchmarkError` when there is none, or more than one."""
    found = [
        one
        for one in vars(module).values()
        if isinstance(one, type)
        and one.__module__ == module.__name__
        and getattr(one, "name", None) == name
    ]
    if len(found) != 1:
        raise SwitchmarkError(
            f"{module.__name__}: {len(found)} classes have name = {name!r}; a file holds one, and "
            "its name is the file's, with dashes"
        )
    return found[0]
