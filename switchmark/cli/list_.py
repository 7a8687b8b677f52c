"""`switchmark list`: the names that campaigns, flags and notations may use.

For each switch it also lists ports, connect modes, options, and whether this machine can run it.
`doctor` prints the remedies.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from switchmark.campaign import find, load
from switchmark.campaign.expand import leave_out_unable
from switchmark.campaign.first_available import choose_on_paper
from switchmark.campaign.installed import Installed, installed
from switchmark.campaign.rules.workload import generator_of
from switchmark.cli.options import AsJson, TestbedFile
from switchmark.cli.output import print_json, print_line, print_table
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.errors import UnavailableError
from switchmark.function.registry import FUNCTIONS
from switchmark.host.container_networks.listing import networks
from switchmark.instrument.registry import INSTRUMENTS, abilities_for
from switchmark.method.registry import METHODS
from switchmark.model.capabilities import Availability, Capabilities, SwitchOption, unavailable
from switchmark.model.choices import OWN_ENGINE, PLAIN
from switchmark.model.functions import FORWARD, function_names
from switchmark.model.io import IO_ROWS, Io
from switchmark.model.ports import PortKind
from switchmark.model.workload import AUTO_GENERATOR, FRAMES
from switchmark.testbed.testbed_file import find_testbed, required
from switchmark.version import __version__
from switchmark.workload.registry import WORKLOADS

EPILOG = """
Examples:
  switchmark list                 all kinds except networks and hosts
  switchmark list switches        with their ports, modes and options
  switchmark list scenarios environments
  switchmark list campaigns       the built-in campaigns
  switchmark list networks        the networks of this host, and what each needs
  switchmark list --json          for programs
  switchmark list hosts --testbed lab.yaml   the hosts in that file

If a switch or a generator cannot run here, `switchmark doctor` prints the remedy.
"""

IOS: dict[str, str] = {
    Io.AUTO: "the fastest for the port: dpdk on vhost-user and memif, raw-mmsg on a kernel device",
    **{io: row.meaning for io, row in IO_ROWS.items()},
}


_HEADINGS = {"here": "on this machine", "connect_modes": "connect modes", "seen": "state"}


class ListedKind(StrEnum):
    """The kinds of names that can be listed."""

    SWITCHES = "switches"
    ENVIRONMENTS = "environments"
    CAMPAIGNS = "campaigns"
    SCENARIOS = "scenarios"
    METHODS = "methods"
    IOS = "ios"
    FUNCTIONS = "functions"
    GENERATORS = "generators"
    WORKLOADS = "workloads"
    NETWORKS = "networks"
    HOSTS = "hosts"


ON_REQUEST = (ListedKind.NETWORKS, ListedKind.HOSTS)


@dataclass(frozen=True, slots=True)
class Listing:
    """One kind of names: a row for each, keyed as in JSON."""

    columns: tuple[str, ...]
    rows: list[dict[str, Any]]


def command(
    kinds: Annotated[
        list[ListedKind] | None,
        typer.Argument(metavar="KIND", help=f"Only these kinds: {', '.join(ListedKind)}."),
    ] = None,
    testbed: TestbedFile = None,
    json: AsJson = False,
) -> int:
    """List the names that campaign files, flags and notations may use: switches, environments,
    campaigns, scenarios, methods, I/O kinds, network functions, generators and workloads.

    The networks of this host are listed only on request: its CNI configuration lists, Docker
    networks, bridges and Open vSwitch bridges, and what a measurement of each needs. Nothing is
    changed.

    The hosts of a testbed file are listed only on request, because the command connects to each of
    them. The exit code is then 3 if a host cannot take part in trials.
    """
    installation = installed()
    chosen = kinds or [kind for kind in ListedKind if kind not in ON_REQUEST]
    listings = {kind: _listing(kind, installation, testbed) for kind in chosen}
    if json:
        print_json({kind.value: listing.rows for kind, listing in listings.items()})
    else:
        _print(listings)
    hosts = listings[ListedKind.HOSTS].rows if ListedKind.HOSTS in listings else []
    return UnavailableError.exit_code if any(row["problem"] for row in hosts) else 0


def _print(listings: Mapping[ListedKind, Listing]) -> None:
    for number, (kind, listing) in enumerate(listings.items()):
        if number:
            print_line()
        rows = [[_cell(row[column]) for column in listing.columns] for row in listing.rows]
        headings = [_HEADINGS.get(column, column) for column in listing.columns]
        print_table(headings, rows, title=kind.value)


def _listing(listed: ListedKind, installation: Installed, testbed: Path | None) -> Listing:
    columns: tuple[str, ...]
    rows: list[dict[str, Any]]
    match listed:
        case ListedKind.SWITCHES:
            columns = ("name", "here", "ports", "connect_modes", "kind", "cores", "options")
            contenders = [
                name
                for name, capabilities in installation.switches.items()
                if not capabilities.known_truth
            ]
            rows = [_switch(name, installation) for name in contenders]
        case ListedKind.ENVIRONMENTS:
            rows = [
                {
                    "name": name, "here": _here(environment_availability(name)),
                    "ports": [*map(str, ports)], "description": _first_sentence(name),
                }
                for name, ports in installation.environments.items()
            ]  # fmt: skip
            columns = ("name", "here", "ports", "description")
        case ListedKind.CAMPAIGNS:
            rows = [_campaign(name, installation) for name in find.builtin_names()]
            columns = ("name", "trials", "description")
        case ListedKind.SCENARIOS | ListedKind.METHODS | ListedKind.IOS:
            named = {
                ListedKind.SCENARIOS: installation.scenarios,
                ListedKind.METHODS: _methods(),
                ListedKind.IOS: IOS,
            }
            rows = [{"name": str(key), "description": text} for key, text in named[listed].items()]
            columns = ("name", "description")
        case ListedKind.FUNCTIONS:
            columns = ("name", "keys", "switches", "description")
            rows = _functions(installation)
        case ListedKind.GENERATORS:
            columns, rows = ("name", "here", "ports", "description"), _generators()
        case ListedKind.WORKLOADS:
            columns, rows = ("name", "generators", "rate", "description"), _workloads()
        case ListedKind.NETWORKS:
            columns = ("name", "kind", "details", "needs")
            rows = [asdict(row) for row in networks()]
        case ListedKind.HOSTS:
            return _hosts(testbed)
    return Listing(columns, rows)


def _methods() -> Mapping[str, str]:
    """Return the values of `method`: one run, then the methods of many trials."""
    plain = "one run at the set rate: a throughput, or round trips (key `dimension`)"
    return {PLAIN: plain} | {name: method.meaning for name, method in METHODS.items()}


def _functions(installation: Installed) -> list[dict[str, Any]]:
    """Return the network functions, with their campaign keys and the switches that have them."""
    contenders = {n: can for n, can in installation.switches.items() if can.is_contender}
    return [
        {
            "name": name,
            "keys": list(FUNCTIONS[name].keys),
            "switches": [
                f"{switch} (up to {can.functions[name].scale} {FUNCTIONS[name].unit})"
                if can.functions[name].scale
                else switch
                for switch, can in contenders.items()
                if name in can.functions
            ]
            or (["all switches but routers"] if name == FORWARD else []),
            "not_built": {
                switch: can.functions_not_built[name]
                for switch, can in contenders.items()
                if name in can.functions_not_built
            },
            "description": FUNCTIONS[name].meaning,
        }
        for name in function_names()
    ]


def _generators() -> list[dict[str, Any]]:
    """Return the values of `generator`: the engine, then foreign generators."""
    engine = {
        "name": OWN_ENGINE,
        "here": __version__,
        "available": True,
        "remedy": None,
        "ports": [str(kind) for kind in PortKind],
        "description": "the traffic engine that comes with the bench",
        "cannot_know": [],
    }
    return [engine, *(_instrument(name) for name in INSTRUMENTS)]


def _workloads() -> list[dict[str, Any]]:
    """Return the values of `workload`: frames, then the applications."""
    frames = {
        "name": FRAMES,
        "generators": [OWN_ENGINE, *(n for n in INSTRUMENTS if abilities_for(n, FRAMES))],
        "rate": "packets/s",
        "description": "frames of a set size",
    }
    return [frames, *(_workload(name) for name in WORKLOADS)]


def _workload(name: str) -> dict[str, Any]:
    usual = generator_of(AUTO_GENERATOR, name)
    others = [one for one in INSTRUMENTS if abilities_for(one, name) and one != usual]
    return {
        "name": name,
        "generators": [usual, *others],
        "rate": WORKLOADS[name].unit,
        "description": WORKLOADS[name].meaning,
    }


def _instrument(name: str) -> dict[str, Any]:
    instrument = INSTRUMENTS[name]()
    state, abilities = instrument.availability(), instrument.abilities
    return {
        "name": name,
        "here": state.version if state.available else f"no: {state.reason}",
        "available": state.available,
        "remedy": state.remedy,
        "ports": [str(kind) for kind in abilities.ports],
        "description": abilities.description,
        "cannot_know": list(abilities.cannot_know),
    }


def _hosts(path: Path | None) -> Listing:
    """Return the hosts of a testbed file, after a connection to each."""
    from switchmark.remote.survey import survey  # the SSH library loads slowly

    rows = [asdict(host) for host in survey(required(find_testbed(path)))]
    for row in rows:
        row["seen"] = _reached(row)
    return Listing(("name", "address", "interface", "seen"), rows)


def _reached(row: Mapping[str, Any]) -> str:
    """Return the state of a host as text."""
    if row["problem"]:
        return f"{'reached, but' if row['reached'] else 'no:'} {row['problem']}"
    if row["clock"] is None:
        return "this machine"
    clock = row["clock"]
    return (
        f"reached: {row['hostname']}, Linux {row['kernel']}, {row['cores']} cores, clock ahead by "
        f"{clock['ahead_ns'] / 1e9:+.6f} s ± {clock['uncertainty_ns'] / 1e3:.0f} µs"
    )


def _first_sentence(environment: str) -> str:
    """Return the first sentence of the module of an environment, which describes it."""
    make = ENVIRONMENTS.get(environment)
    if make is None:
        return ""
    text = " ".join((sys.modules[make.__module__].__doc__ or "").split())
    return text.partition(". ")[0].rstrip(".").partition(": ")[2]


def _switch(name: str, installation: Installed) -> dict[str, Any]:
    capabilities = installation.switches[name]
    availability = switch_availability(name)
    return {
        "name": name,
        "here": _here(availability),
        "available": availability.available,
        "version": availability.version,
        "reason": availability.reason,
        "kind": capabilities.taxonomy.short if capabilities.taxonomy else "-",
        "taxonomy": asdict(capabilities.taxonomy) if capabilities.taxonomy else None,
        "cores": _cores(capabilities),
        "ports": [str(kind) for kind in capabilities.port_kinds],
        "connect_modes": [str(mode) for mode in capabilities.connect_modes],
        "polling": capabilities.polling,
        "multi_core": capabilities.multi_core,
        "max_ports": capabilities.max_ports,
        "longest_frame_bytes": capabilities.longest_frame_bytes,
        "needs_hugepages": capabilities.needs_hugepages,
        "page_sizes": [str(size) for size in capabilities.page_sizes],
        "options": [_option(option) for option in capabilities.options],
        "description": capabilities.description,
    }


def _option(option: SwitchOption) -> str:
    """Return an option as text: `emc (on, off; default on)`."""
    return f"{option.name} ({option.allowed}; default {option.default})"


def switch_availability(name: str) -> Availability:
    """Return whether this machine can run a registered switch."""
    from switchmark.switch.registry import make_switch
    from switchmark.switch.support.applications import without_dpdk

    switch = make_switch(name)
    found = switch.availability()
    return (without_dpdk(switch.capabilities) if found.available else None) or found


def environment_availability(name: str) -> Availability:
    """Return whether this machine can run an environment; an unknown environment cannot run."""
    if name not in ENVIRONMENTS:
        return unavailable("no such environment")
    return ENVIRONMENTS[name]().availability()


def _here(answer: Availability) -> str:
    return answer.version or "yes" if answer.available else f"no: {answer.reason}"


def _cores(capabilities: Capabilities) -> str:
    if capabilities.in_kernel:
        return "its senders'"
    return f"{'any' if capabilities.multi_core else '1'}{', polls' if capabilities.polling else ''}"


def _campaign(name: str, installation: Installed) -> dict[str, Any]:
    # A built-in may name switches and environments that an installation does not have.
    known = replace(installation.known, switches=None, environments=None)
    campaign = load.load_text(find.builtin_text(name), f"{name}.yaml", known)
    chosen = choose_on_paper(campaign, installation.switches, installation.environments)
    able, _ = leave_out_unable(chosen, installation.switches, installation.environments)
    return {"name": name, "trials": able.count, "description": campaign.description}


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)
