"""Options that several commands share, so that they are called and explained alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from switchmark.cli import complete

CampaignName = Annotated[
    str,
    typer.Argument(
        help="A built-in campaign, a YAML file, or a notation in quotes.",
        autocompletion=complete.campaigns,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Win over the file; may be repeated."),
]
ResultsIn = Annotated[
    Path, typer.Option("--results", metavar="DIR", help="Where results are kept.")
]
StoreAt = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="ADDRESS",
        help="A store: postgresql://host/database (docs/store.md).",
    ),
]
Listen = Annotated[
    str,
    typer.Option(
        "--listen",
        metavar="[ADDRESS:]PORT",
        help="Where clients connect; without ADDRESS, from this machine alone.",
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="What clients must say.")
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
RecordsAsJson = Annotated[bool, typer.Option("--json", help="Print the records as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
