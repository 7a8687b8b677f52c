"""`switchmark trial`: measure one trial that is described by flags."""

from __future__ import annotations

from typing import Annotated

import typer

from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_settings
from switchmark.cli import complete
from switchmark.cli.measure import Wish, measure
from switchmark.cli.namespaces import Private
from switchmark.cli.options import (
    NoBaseline,
    Quiet,
    Recalibrate,
    RecordsAsJson,
    ResultsIn,
    TestbedFile,
    Verbose,
)
from switchmark.results.default_root import DEFAULT_ROOT

EPILOG = """
Examples:
  switchmark trial linux-bridge
  switchmark trial ovs-dpdk --packet-size 1500 --duration 5s
  switchmark trial basicfwd --dimension latency --rate 10k --environment lxc
  switchmark trial linux-bridge --pairs 4 --io udp-mmsg --json
  switchmark trial linux-bridge --method ndr-pdr     bounds of capacity by MLRsearch
  switchmark trial linux-bridge --method r-plus      R+, and latency at fractions of it
  switchmark trial linux-bridge --method soak --rate 100k --duration 10m
  switchmark trial direct --method calibrate         the engine's own ceiling and floor
  switchmark trial direct --set port_kind=veth       the wire itself, no switch

Every flag takes what the key of the same name takes in a campaign file (docs/campaigns.md);
--set reaches the keys that have no flag here.
"""


def command(
    switch: Annotated[
        str,
        typer.Argument(
            help="The switch; `switchmark list switches`.", autocompletion=complete.switches
        ),
    ],
    dimension: Annotated[
        str,
        typer.Option(
            "--dimension", "-d", help="throughput or latency.", autocompletion=complete.dimensions
        ),
    ] = "throughput",
    packet_size: Annotated[
        str | None,
        typer.Option("--packet-size", "--frame-size", "-p", help="Frame in bytes, with FCS."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            "-m",
            help="plain (one run), or one of `switchmark list methods`.",
            autocompletion=complete.methods,
        ),
    ] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", "-r", help="Packets/s a pair, or max.")
    ] = None,
    burst: Annotated[str | None, typer.Option("--burst", "-b", help="Packets a burst.")] = None,
    pairs: Annotated[
        str | None, typer.Option("--pairs", "-s", help="How many pairs, or NvsN.")
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option(
            "--environment",
            "-e",
            help="Where applications live.",
            autocompletion=complete.environments,
        ),
    ] = None,
    io: Annotated[
        str | None,
        typer.Option(
            "--io", help="How applications reach their port.", autocompletion=complete.ios
        ),
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--duration", "-t", help="How long it measures, e.g. 10s.")
    ] = None,
    repetitions: Annotated[
        str | None, typer.Option("--repetitions", help="How often it is measured.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any other key; may be repeated."),
    ] = None,
    results: ResultsIn = DEFAULT_ROOT,
    no_baseline: NoBaseline = False,
    recalibrate: Recalibrate = False,
    testbed: TestbedFile = None,
    _private: Private = False,
    json: RecordsAsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Measure one trial, and before it the same over the bare wire, to judge it by."""
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
    there = installed()
    wish = Wish(
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
        given, there.known, name="trial", label=_place, overrides=wish.overrides
    )
    return measure(campaign, there, wish)


def _place(key: str) -> str:
    """Where the value of a key was given, for messages."""
    return "SWITCH" if key == "switch" else f"--{key.replace('_', '-')}"
