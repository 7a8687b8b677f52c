"""Network functions of switches that are programs: whole trials, whose proof passes, and planted
errors, which the proof finds. Each needs the program, and names it if it is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from switchmark.record import Record
from tests.function_mutations import Mutation, mutations_of
from tests.integration.machine import needs_root
from tests.integration.main_job import SHORT, Bench, need, settings, went_well

pytestmark = [pytest.mark.integration, needs_root]

GENTLE = (*SHORT, "duration=1.2s", "rate=2k")
ROUTE = ("function=route", "routes=300")
ROUTE_IPV6 = (*ROUTE, "ip_version=6", "packet_size=128")
ROUTE_ACL = ("function=route+acl", "routes=50", "rules=50")
FORWARD_ACL = ("function=forward+acl", "rules=50")
UNIFORM = (*FORWARD_ACL, "rule_hit=uniform", "masks=4")
NONE = (*FORWARD_ACL, "rule_hit=none")
PUSH = ("function=forward+vlan", "direction=push")
POP = ("function=forward+vlan", "direction=pop", "packet_size=68", "connect_mode=cross-connect")
POLICER = ("function=forward+policer", "cir=20M")
MIRROR = ("function=forward+mirror",)
LAYER_2 = (PUSH, POP, POLICER)
ACL = (ROUTE_ACL, FORWARD_ACL, UNIFORM, NONE)
TUPLE_SPACE = ("switch_options=acl_lookup:tuple-space",)
LINEAR = ("switch_options=acl_lookup:linear",)
CELLS: dict[str, Sequence[Sequence[str]]] = {
    "bess": (ROUTE, *ACL, (*ROUTE_ACL, *TUPLE_SPACE), (*UNIFORM, *TUPLE_SPACE), *LAYER_2, MIRROR),
    "fastclick": (ROUTE, ROUTE_IPV6, *ACL, *LAYER_2, MIRROR),
    "snabb": (ROUTE, ROUTE_IPV6, *ACL, *LAYER_2),
    "vpp": (ROUTE, ROUTE_IPV6, *ACL, (*ROUTE_ACL, *LINEAR), *LAYER_2, MIRROR),
}
# One cell for each function of a switch, in which errors are planted.
PLANTED: dict[str, Sequence[Sequence[str]]] = {
    "bess": (ROUTE, ROUTE_ACL, (*ROUTE_ACL, *TUPLE_SPACE), PUSH, MIRROR),
    "fastclick": (ROUTE, ROUTE_ACL, PUSH, MIRROR),
    "snabb": (ROUTE, ROUTE_ACL, PUSH),
    "vpp": (ROUTE, ROUTE_ACL, (*ROUTE_ACL, *LINEAR), PUSH, MIRROR),
}
# Programs that cannot be made to leave the TTL as it is.
ALWAYS_DECREMENT = ("vpp",)


def functions_of(cell: Sequence[str]) -> tuple[str, ...]:
    """The functions of a cell: `function` is its first key."""
    return tuple(cell[0].partition("=")[2].split("+"))


def trial(bench: Bench, switch: str, cell: Sequence[str]) -> tuple[Record, str]:
    """One gentle trial: its record, and standard error."""
    need((switch,))
    options = settings(*GENTLE, *cell)
    code, _, err = bench.run_to_the_end("trial", switch, "--no-baseline", *options)
    assert code in (0, 1), err
    (record,) = bench.records()
    return record, err


def cells() -> Iterator[tuple[str, Sequence[str]]]:
    """Every switch with each of its cells."""
    for switch, all_cells in CELLS.items():
        for cell in all_cells:
            yield switch, cell


@pytest.mark.parametrize(("switch", "cell"), list(cells()), ids=str)
def test_function_passes_its_proof(bench: Bench, switch: str, cell: Sequence[str]) -> None:
    """Frames arrive as the neutral table says, and the switch has the entries announced."""
    record, err = trial(bench, switch, cell)
    if record.status != "finished" and went_well(1, err):
        pytest.skip(f"the machine is too busy: {record.message}")
    assert record.status == "finished", err
    note = record.function
    assert note is not None and tuple(note.functions) == functions_of(cell)
    assert note.must_arrive > 0
    assert note.must_not_arrive > 0 or note.functions[-1] in ("policer", "mirror")
    assert note.announced == note.read_back
    assert note.memory_kib and note.hugepages_kib is not None
    assert note.loads_at_start == (switch in ("snabb", "fastclick"))


def planted() -> Iterator[tuple[str, Sequence[str], Mutation]]:
    """Every switch with each error of its functions; an error of the base is planted once."""
    for switch, all_cells in PLANTED.items():
        for cell in all_cells:
            for mutation in mutations_of((functions_of(cell)[-1],)):
                if mutation.everywhere or switch not in ALWAYS_DECREMENT:
                    yield switch, cell, mutation


@pytest.mark.parametrize(
    ("switch", "cell", "mutation"),
    list(planted()),
    ids=lambda value: value.name if isinstance(value, Mutation) else str(value),
)
def test_planted_error_is_found(
    bench: Bench, switch: str, cell: Sequence[str], mutation: Mutation
) -> None:
    """The proof fails, and its message names the error; or no frame of the load passes, as with a
    wrong tag, so that the check of the paths fails before."""
    program = ("-m", "tests.integration.planted_error", mutation.name)
    record, err = trial(replace(bench, program=program), switch, cell)
    assert record.status == "failed", err
    messages = f"{mutation.message}|the switch does not forward"
    assert re.search(messages, record.message or ""), err
