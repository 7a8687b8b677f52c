"""Options that several commands share, with one name and one help text."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from switchmark.cli import complete
from switchmark.errors import UsageError
from switchmark.language import values


def seconds_of(option: str, text: str, low_s: float, high_s: float) -> float:
    """The time in seconds that an option gives. Raises UsageError, which names the option."""
    try:
        return values.seconds(text, low_s, high_s)
    except values.BadValueError as error:
        raise UsageError(f"{option}: {error}") from None


def read_threshold(text: str) -> float:
    """What `--threshold` says, as `prove` of a campaign does: `2%` or `0.02`. Raises UsageError
    where it is no share that a figure can change by."""
    try:
        threshold = values.share(text)
    except values.BadValueError as error:
        raise UsageError(f"--threshold: {error}") from None
    if threshold == 1:
        raise UsageError(f"--threshold: {text} is all of a figure; use less, such as 2%")
    return threshold


def takes(group: type) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Decorate a command: the fields of a dataclass become options of it, after its own, and it
    gets them as one object, its first argument.

    So options that belong together are described once, whatever command takes them."""
    hints = get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(one.name, kind, default=one.default, annotation=hints[one.name])
        for one in fields(group)
    ]

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

        @wraps(command)
        def with_group(*args: Any, **given: Any) -> int:
            of_group = {one.name: given.pop(one.name, one.default) for one in options}
            return command(group(**of_group), *args, **given)

        whole = [one.replace(kind=kind) for one in own] + options
        described: Any = with_group  # Typer reads what a command takes from these two
        described.__signature__ = inspect.Signature(whole)
        described.__annotations__ = {one.name: one.annotation for one in whole} | {"return": int}
        return with_group

    return decorate


CampaignName = Annotated[
    str,
    typer.Argument(
        help="A built-in campaign, a YAML file, or a notation in quotes.",
        autocompletion=complete.campaigns,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the file; may be repeated."),
]
ResultsIn = Annotated[
    Path, typer.Option("--results", metavar="DIR", help="Where results are kept.")
]


def store_option(use: str, envvar: str | None = None) -> Any:
    """The option `--store`, with the help of the command that takes it."""
    words = f"{use}: postgresql://host/database (docs/store.md)."
    return typer.Option("--store", metavar="ADDRESS", envvar=envvar, help=words)


StoreAt = Annotated[str | None, store_option("A store")]
Listen = Annotated[
    str,
    typer.Option(
        "--listen",
        metavar="[ADDRESS:]PORT",
        help="Where clients connect; without ADDRESS, from this machine alone.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="Holds the token that clients must send."),
]
HttpsCertificate = Annotated[
    Path | None, typer.Option("--certificate", metavar="FILE", help="For HTTPS: PEM chain.")
]
HttpsKey = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Its private key.")]
NoBaseline = Annotated[
    bool, typer.Option("--no-baseline", help="Do not measure the bare wire first.")
]
Recalibrate = Annotated[
    bool,
    typer.Option(
        "--recalibrate", help="Forget what is kept of the bare wire, and measure it again."
    ),
]
TestbedFile = Annotated[
    Path | None,
    typer.Option(
        "--testbed", metavar="FILE", help="The hosts of location: remote (docs/testbed.md)."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RecordsAsJson = Annotated[bool, typer.Option("--json", help="Print the records as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print a line for each trial.")]
