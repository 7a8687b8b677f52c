"""`switchmark trial`: measure one trial that options describe."""

from __future__ import annotations

from typing import Annotated

import typer

from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_settings
from switchmark.cli import complete
from switchmark.cli.grouped_help import MEASURE
from switchmark.cli.measure import CommandRequest, measure
from switchmark.cli.namespaces import Private
from switchmark.cli.options import (
    NoBaseline,
    Quiet,
    Recalibrate,
    RecordsAsJson,
    ResultsIn,
    TestbedFile,
    ThisNetwork,
    Verbose,
)
from switchmark.host.network.guard_rails import permit
from switchmark.results import DEFAULT_ROOT

EPILOG = """
Examples:
  switchmark trial linux-bridge
  switchmark trial ovs-dpdk --packet-size 1500 --duration 5s
  switchmark trial basicfwd --dimension latency --rate 10k --environment lxc
  switchmark trial linux-bridge --pairs 4 --io udp-mmsg --json
  switchmark trial linux-bridge --method ndr-pdr   NDR and PDR (RFC 9971)
  switchmark trial linux-bridge --method r-plus    latency at fractions of R+
  switchmark trial linux-bridge --method soak --rate 100k --duration 10m
  switchmark trial direct --method calibrate       limits of the engine
  switchmark trial direct --set port_kind=veth     a path without a switch

An option takes the same values as the key of that name in a campaign file
(docs/campaigns.md). --set gives access to the keys without an option.
"""


def command(
    switch: Annotated[
        str,
        typer.Argument(
            metavar="SWITCH",
            help="The switch; `switchmark list switches` has the names.",
            autocompletion=complete.switches,
        ),
    ],
    dimension: Annotated[
        str,
        typer.Option(
            "--dimension",
            "-d",
            help="throughput or latency.",
            autocompletion=complete.dimensions,
            rich_help_panel=MEASURE,
        ),
    ] = "throughput",
    packet_size: Annotated[
        str | None,
        typer.Option(
            "--packet-size",
            "--frame-size",
            "-p",
            help="Frame size in bytes, with FCS.",
            rich_help_panel=MEASURE,
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            "-m",
            help="plain, or a method that `switchmark list methods` shows.",
            rich_help_panel=MEASURE,
            autocompletion=complete.methods,
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate",
            "-r",
            help="Load of each pair in frames per second, or max; with traffic both ways, of "
            "each direction.",
            rich_help_panel=MEASURE,
        ),
    ] = None,
    burst: Annotated[
        str | None,
        typer.Option("--burst", "-b", help="Frames in a burst.", rich_help_panel=MEASURE),
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option("--pairs", "-s", help="Number of pairs, or NvsN.", rich_help_panel=MEASURE),
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option(
            "--environment",
            "-e",
            help="Where the applications run: netns, lxc, docker and so on.",
            rich_help_panel=MEASURE,
            autocompletion=complete.environments,
        ),
    ] = None,
    io: Annotated[
        str | None,
        typer.Option(
            "--io",
            help="The I/O between applications and their ports.",
            autocompletion=complete.ios,
            rich_help_panel=MEASURE,
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(
            "--duration",
            "-t",
            help="Length of the trial, for example 10s.",
            rich_help_panel=MEASURE,
        ),
    ] = None,
    repetitions: Annotated[
        str | None,
        typer.Option("--repetitions", help="Number of repetitions.", rich_help_panel=MEASURE),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any other key of a campaign; can be repeated.",
            rich_help_panel=MEASURE,
        ),
    ] = None,
    results: ResultsIn = DEFAULT_ROOT,
    no_baseline: NoBaseline = False,
    recalibrate: Recalibrate = False,
    testbed: TestbedFile = None,
    this_network: ThisNetwork = None,
    _private: Private = False,
    json: RecordsAsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Measure the trial that the options describe, or one for each value of a list, after the
    baselines without a switch."""
    flags = {
        "switch": switch,
        "dimension": dimension,
        "packet_size": packet_size,
        "method": method,
        "rate": rate,
        "burst": burst,
        "pairs": pairs,
        "environment": environment,
        "io": io,
        "duration": duration,
        "repetitions": repetitions,
    }
    given = {key: value for key, value in flags.items() if value is not None}
    permit(this_network or [])
    installation = installed()
    request = CommandRequest(
        campaign_text="".join(f"{key}: {value}\n" for key, value in given.items()),
        overrides=overrides or [],
        results=results,
        baseline=recalibrate or not no_baseline,
        recalibrate=recalibrate,
        testbed=testbed,
        json=json,
        quiet=quiet,
        verbose=verbose,
    )
    campaign = load_settings(
        given, installation.known, name="trial", label=_place, overrides=request.overrides
    )
    return measure(campaign, installation, request)


def _place(key: str) -> str:
    """Where the value of a key was given, for messages."""
    return "SWITCH" if key == "switch" else f"--{key.replace('_', '-')}"
