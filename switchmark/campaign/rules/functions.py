"""Functions and their keys that a switch, or the rest of a sweep, does not allow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import product

from switchmark.errors import Refusal, UsageError
from switchmark.function.registry import FUNCTIONS, sample_table, unread_keys
from switchmark.function.support.files import file_identity, read_routes, read_rules
from switchmark.model.campaign import Sweep
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import WIRE, Dimension
from switchmark.model.functions import (
    ROUTE,
    FunctionList,
    scale_refusal,
    support_refusal,
    unit_refusal,
)
from switchmark.model.io import sends_datagrams
from switchmark.model.parameter_table import BY_NAME
from switchmark.model.ports import ConnectMode
from switchmark.model.trial import Trial
from switchmark.model.workload import FRAMES
from switchmark.switch.registry import table_refusal

ACL = "acl"


def function_refusals(sweep: Sweep, switch: str, abilities: Capabilities) -> Iterator[Refusal]:
    """Return why this switch cannot have these functions, one line each."""
    for functions in sweep.function:
        if switch == WIRE:
            continue
        if abilities.only_routes and functions.base != ROUTE:
            yield Refusal(
                f"{switch} only routes, and cannot forward frames unchanged",
                "use function: route",
                key="function",
            )
            continue
        for version in sweep.ip_version:
            refused = support_refusal(
                switch, abilities.functions, abilities.functions_not_built, functions, version
            )
            if refused is not None:
                yield refused
        yield from _scale_refusals(sweep, switch, abilities, functions)
        yield from _unit_refusals(sweep, switch, abilities, functions)
        if all(name in abilities.functions for name in functions.added):
            yield from _table_refusals(sweep, switch, functions)


def _table_refusals(sweep: Sweep, switch: str, functions: FunctionList) -> Iterator[Refusal]:
    """Return why a switch cannot express a table of these functions, each reason once. Impossible
    values of keys are refused elsewhere."""
    keys = [key for name in functions.added for key in FUNCTIONS[name].keys]
    fields = ("ip_version", "packet_size_bytes", "packet_mix", "switch_options",
              *(BY_NAME[key].field for key in keys))  # fmt: skip
    usual = Trial(switch=switch, dimension=sweep.dimension,
                  packet_size_bytes=sweep.packet_size_bytes[0])  # fmt: skip
    refused: dict[Refusal, None] = {}
    for values in product(*(getattr(sweep, field) for field in fields)):
        changes = dict(zip(fields, values, strict=True)) | {"function": functions}
        trial = usual.changed(changes)
        if any(True for name in functions.names for _ in FUNCTIONS[name].refusals(trial)):
            continue
        file = (
            file_identity(trial.rules_file) if trial.rules_file and ACL in functions.added else None
        )
        refusal = _table_refusal(switch, trial, file)
        if refusal is not None:
            refused[refusal] = None
    yield from refused


@lru_cache(maxsize=256)
def _table_refusal(switch: str, trial: Trial, _file: tuple[int, int] | None) -> Refusal | None:
    """Check a table once for all sweeps, contenders and steps of a plan."""
    return table_refusal(switch, trial.switch_options, sample_table(trial))


def _unit_refusals(
    sweep: Sweep, switch: str, abilities: Capabilities, functions: FunctionList
) -> Iterator[Refusal]:
    for name in functions.names:
        if (support := abilities.functions.get(name)) is None:
            continue
        for key in support.units:
            for value in getattr(sweep, BY_NAME[key].field):
                if (refused := unit_refusal(switch, name, support, key, value)) is not None:
                    yield refused


def _scale_refusals(
    sweep: Sweep, switch: str, abilities: Capabilities, functions: FunctionList
) -> Iterator[Refusal]:
    for name in functions.names:
        function, support = FUNCTIONS[name], abilities.functions.get(name)
        if support is None or function.scale_key is None:
            continue
        scale = max(_scales(sweep, name, function.scale_key), default=0)
        if (refused := scale_refusal(switch, name, support, scale, function.unit)) is not None:
            yield refused
            continue
        for version in sweep.ip_version:
            limit = support.scale_by_option.get(f"ip_version:{version}")
            if limit is not None and scale > limit[0]:
                yield Refusal(
                    f"{switch} supports at most {limit[0]} {function.unit} with IPv{version}, not "
                    f"{scale}: {limit[1]}",
                    f"use {limit[0]} or less, or another ip_version",
                )
        for options in sweep.switch_options:
            for option in abilities.options:
                value = options.chosen.get(option.name, option.default)
                limit = support.scale_by_option.get(f"{option.name}:{value}")
                if limit is not None and scale > limit[0]:
                    yield Refusal(
                        f"{switch} with {option.name}: {value} supports at most {limit[0]} "
                        f"{function.unit}, not {scale}: {limit[1]}",
                        f"use {limit[0]} or less, or another {option.name}",
                    )


def _scales(sweep: Sweep, name: str, key: str) -> Iterator[int]:
    """Yield the numbers of entries of a function, of files too. Other rules refuse files with
    mistakes."""
    yield from getattr(sweep, BY_NAME[key].field)
    for path, version in product(
        sweep.routes_file if name == ROUTE else sweep.rules_file if name == ACL else (),
        sweep.ip_version,
    ):
        with suppress(UsageError):
            if path and name == ROUTE:
                yield len(read_routes(path, [[0, 1]], version))
            elif path:
                yield len(read_rules(path, version))


def sweep_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Return why the rest of the sweep excludes functions, impossible values of their keys, and
    keys that no function reads."""
    for functions in sweep.function:
        yield from _value_refusals(sweep, functions)
    special = [one for one in sweep.function if not one.is_plain]
    unread = [set(unread_keys(one)) for one in sweep.function]
    for key in set.intersection(*unread) if unread else ():
        row = BY_NAME[key]
        if set(getattr(sweep, row.field)) != {row.default}:
            owners = [name for name in FUNCTIONS if key in FUNCTIONS[name].keys]
            yield Refusal(
                f"function {' and '.join(sweep.function)} does not read it",
                f"use function: forward+{owners[0]}"
                if owners[0] != ROUTE
                else "use function: route",
                key=key,
            )
    if special:
        yield from _base_refusals(sweep, special[0])
        yield from _traffic_refusals(sweep, special[0])


def _base_refusals(sweep: Sweep, name: FunctionList) -> Iterator[Refusal]:
    """Return why connect modes, hosts and scenarios exclude a function."""
    if any(one.base == ROUTE for one in sweep.function) and any(
        mode not in (None, ConnectMode.ROUTE) for mode in sweep.connect_mode
    ):
        yield Refusal(f"{name} chooses ports by its routes", "leave connect_mode out")
    if ConnectMode.ROUTE in sweep.connect_mode and any(o.base != ROUTE for o in sweep.function):
        yield Refusal("connect_mode route belongs to function: route", "leave connect_mode out")
    if "remote" in sweep.location:
        yield Refusal(f"{name} is tested on one host only", "leave location: remote out")
    if any(one.kind != "pairs" for one in sweep.scenario if one.is_known):
        yield Refusal(f"{name} is tested in scenario pairs only", "use scenario: pairs")
    if other := [workload for workload in sweep.workload if workload != FRAMES]:
        yield Refusal(f"{name} is tested with frames, not with {other[0]}", "use workload: frames")


def _traffic_refusals(sweep: Sweep, name: FunctionList) -> Iterator[Refusal]:
    """Return why the traffic of the sweep excludes a function."""
    one_way = [functions for functions in sweep.function if functions.added != ("vxlan",)]
    if True in sweep.bidirectional and not all(functions.is_plain for functions in one_way):
        yield Refusal(f"the flows of {name} go one way", "leave bidirectional out")
    if any(flows.names_fields for flows in sweep.flows):
        yield Refusal(
            f"the flows of {name} differ as its table demands", "write flows: N or N:zipf=S"
        )
    if sweep.dimension is Dimension.LATENCY and any(flows != "1" for flows in sweep.flows):
        yield Refusal(
            f"round trips with {name} are between the addresses of the testers",
            "write flows under throughput:, or use method one-way",
        )
    for io in sweep.io:
        if sends_datagrams(io):
            yield Refusal(
                f"{name} is proven by whole frames, which io {io} does not have",
                "use raw or dpdk",
            )


def _value_refusals(sweep: Sweep, functions: FunctionList) -> Iterator[Refusal]:
    """Return why the values of the functions' own keys are impossible."""
    for name in functions.names:
        function = FUNCTIONS[name]
        fields = [BY_NAME[key].field for key in function.keys]
        rest = {"switch": "direct", "dimension": sweep.dimension,
                "packet_size_bytes": sweep.packet_size_bytes[0]}  # fmt: skip
        usual = Trial(**rest)
        also = (
            *("ip_version", "vlan", "packet_size_bytes", "bidirectional", "pairs", "flows"),
            *fields,
        )
        for values in product(*(getattr(sweep, field) for field in also)):
            trial = usual.changed(dict(zip(also, values, strict=True)) | {"function": functions})
            yield from function.refusals(trial)
