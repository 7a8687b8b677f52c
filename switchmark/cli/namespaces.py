"""Commands that start again in private namespaces, and the conditions (`host/private`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from switchmark.cli.grouped_help import MACHINE
from switchmark.cli.rights import paths_of
from switchmark.errors import UnavailableError, UsageError

OPTION = "--private"
# Options that need the network outside, and what to do in their place.
NEEDS_NETWORK = {
    "--store": "push the results afterwards (switchmark store push)",
    "--metrics": "leave it out",
    "--testbed": "hosts can be reached by root only (sudo)",
}

Private = Annotated[
    bool,
    typer.Option(
        OPTION,
        help="Measure in private namespaces, as runs of an ordinary user always do.",
        rich_help_panel=MACHINE,
    ),
]


class Namespaces(StrEnum):
    """The condition under which a command runs in private namespaces."""

    NEVER = "never"
    IF_NEEDED = "if needed"  # if network namespaces can only be made there
    ON_REQUEST = "on request"  # the same, and with --private


def start_again_if_needed(when: Namespaces, args: Sequence[str]) -> None:
    """Continue in private namespaces if the command needs them; see `start_again`. Raises
    UnavailableError, UsageError."""
    if when is Namespaces.NEVER or _only_help(args):
        return
    from switchmark.host import place

    is_requested, needed = when is Namespaces.ON_REQUEST and OPTION in args, _needed(args)
    if not is_requested and not needed:
        return
    _refuse_network(args, is_requested)
    if is_requested:
        place.require(OPTION, place.Facility.USER_NAMESPACE)
    from switchmark.host.private.start import Reason, start_again

    try:
        program_paths = map(Path, (sys.executable, sys.prefix, sys.base_prefix))
        start_again([*program_paths, *paths_of(args)], Reason.NEED if needed else Reason.CHOICE)
    except OSError as error:
        raise UnavailableError(f"private namespaces: {error.strerror or error}") from error
    place.forget()


def _only_help(args: Sequence[str]) -> bool:
    return not {"--help", "-h"}.isdisjoint(args)


def _needed(args: Sequence[str]) -> bool:
    """Return True if network namespaces can be made in a user namespace, and only there."""
    if any(_option(argument) == "--pool" for argument in args):
        return False  # other machines measure
    from switchmark.host import place

    return (
        not place.can(place.Facility.NETWORK_NAMESPACE).available
        and place.can(place.Facility.USER_NAMESPACE).available
    )


def _refuse_network(args: Sequence[str], is_requested: bool) -> None:
    for argument in args:
        if (option := _option(argument)) in NEEDS_NETWORK:
            why = (
                f"{OPTION} leaves no way to it"
                if is_requested
                else "an ordinary user's run has none"
            )
            raise UsageError(f"{option}: needs the network, and {why}; {NEEDS_NETWORK[option]}")


def _option(word: str) -> str:
    return word.partition("=")[0]
