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
from switchmark.cli.grouped_help import MACHINE, MEASURE, OUTPUT, RESULTS, SERVING
from switchmark.errors import UsageError
from switchmark.language import values


def seconds_of(option: str, text: str, low_s: float, high_s: float) -> float:
    """Return the time in seconds that an option gives. Raises UsageError with the option."""
    try:
        return values.seconds(text, low_s, high_s)
    except values.BadValueError as error:
        raise UsageError(f"{option}: {error}") from None


def read_threshold(text: str) -> float:
    """Return the share that `--threshold` gives, as `2%` or `0.02`. Raises UsageError if no figure
    can change by this share."""
    try:
        threshold = values.share(text)
    except values.BadValueError as error:
        raise UsageError(f"--threshold: {error}") from None
    if threshold == 1:
        raise UsageError(f"--threshold: {text} is a whole figure; use a smaller share, such as 2%")
    return threshold


def takes(group: type) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Decorate a command so that the fields of a dataclass become options of it. The command gets
    them as one object, its first argument.

    Options that belong together are thus described once for all commands."""
    hints = get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(one.name, kind, default=one.default, annotation=hints[one.name])
        for one in fields(group)
    ]

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        parameters = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

        @wraps(command)
        def with_group(*args: Any, **given: Any) -> int:
            of_group = {one.name: given.pop(one.name, one.default) for one in options}
            return command(group(**of_group), *args, **given)

        whole = [one.replace(kind=kind) for one in parameters] + options
        described: Any = with_group  # Typer reads what a command takes from these two
        described.__signature__ = inspect.Signature(whole)
        described.__annotations__ = {one.name: one.annotation for one in whole} | {"return": int}
        return with_group

    return decorate


RunName = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN",
        help="The folder of a run, the name of a campaign (its latest run), a run in a store as "
        "postgresql://host/database/RUN, or `latest` (the default).",
    ),
]
CampaignName = Annotated[
    str,
    typer.Argument(
        metavar="CAMPAIGN",
        help="The name of a built-in campaign, a YAML file, or one trial in the short notation of "
        'docs/campaigns.md, for example "(V=ovs-dpdk, P=64)".',
        autocompletion=complete.campaigns,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key of the campaign; can be repeated.",
        rich_help_panel=MEASURE,
    ),
]
ResultsIn = Annotated[
    Path,
    typer.Option(
        "--results", metavar="DIR", help="The folder with the runs.", rich_help_panel=RESULTS
    ),
]


def store_option(use: str, envvar: str | None = None) -> Any:
    """Return the option `--store`, with the help text of the command that takes it."""
    text = f"{use}: postgresql://host/database (docs/store.md)."
    return typer.Option(
        "--store", metavar="ADDRESS", envvar=envvar, help=text, rich_help_panel=RESULTS
    )


StoreAt = Annotated[str | None, store_option("A store of results")]
Listen = Annotated[
    str,
    typer.Option(
        "--listen",
        metavar="[ADDRESS:]PORT",
        help="The address for clients; without ADDRESS, only this machine can connect.",
        rich_help_panel=SERVING,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="A file with the token that clients must send.",
        rich_help_panel=SERVING,
    ),
]
HttpsCertificate = Annotated[
    Path | None,
    typer.Option(
        "--certificate",
        metavar="FILE",
        help="The certificate chain for HTTPS (PEM).",
        rich_help_panel=SERVING,
    ),
]
HttpsKey = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help="The private key of the certificate.",
        rich_help_panel=SERVING,
    ),
]
NoBaseline = Annotated[
    bool,
    typer.Option(
        "--no-baseline",
        help="Do not measure the baselines (trials without a switch).",
        rich_help_panel=MEASURE,
    ),
]
ThisNetwork = Annotated[
    list[str] | None,
    typer.Option(
        "--yes-this-network",
        metavar="NAME",
        help="Permit traffic through this device or bridge even if it leads out of this machine; "
        "can be repeated.",
        rich_help_panel=MEASURE,
    ),
]
Recalibrate = Annotated[
    bool,
    typer.Option(
        "--recalibrate",
        help="Delete the stored baselines of these trials, and measure new ones, also with "
        "--no-baseline. Later runs with --no-baseline use them.",
        rich_help_panel=MEASURE,
    ),
]
TestbedFile = Annotated[
    Path | None,
    typer.Option(
        "--testbed",
        metavar="FILE",
        help="The file that describes the hosts for `location: remote` (docs/testbed.md).",
        rich_help_panel=MACHINE,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=OUTPUT)]
RecordsAsJson = Annotated[
    bool, typer.Option("--json", help="Print the records as JSON.", rich_help_panel=OUTPUT)
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show no progress.", rich_help_panel=OUTPUT)
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Print a line for each trial.", rich_help_panel=OUTPUT),
]
