"""Places generator, switch and VNFs apart, as Zhang et al. (CoNEXT 2019, section 5.1) had them on
one machine: what sends and receives outside (the wire ends) on another NUMA node than the switch;
the VNFs, and applications that live where VNFs do, beside the switch; each on a core of its own,
and none on an SMT sibling of the switch's cores.

A machine that is too small for that is refused: nothing is shared.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.errors import UnavailableError
from switchmark.host.facts import Cpu


def generator_apart(
    ordered: Sequence[Cpu],
    switch: Sequence[Cpu],
    home: int,
    inside: Sequence[str],
    outside: Sequence[str],
) -> dict[str, list[int]]:
    """A core for each application.

    `ordered`: the CPUs that may be used, the best first, after the housekeeping core, which is kept
    free while there are others; `home`: the switch's node. Raises UnavailableError where nodes or
    cores do not suffice."""
    if abroad := sorted({cpu.node for cpu in switch} - {home}):
        raise UnavailableError(
            f"{_KEY}: the switch's cores are on NUMA node {home} and on {abroad[0]}",
            remedy="give it fewer, or name those of one node with switch_cpus",
        )
    busy = {cpu.core for cpu in switch}
    free = [cpu for cpu in (*ordered[1:], ordered[0]) if cpu.core not in busy]
    near = [cpu for cpu in free if cpu.node == home]
    nodes = sorted({cpu.node for cpu in free} - {home})
    far = max(([cpu for cpu in free if cpu.node == node] for node in nodes), key=len, default=[])
    if outside and not far:
        raise UnavailableError(
            f"{_KEY}: the generator is to be on another NUMA node than the switch, and this "
            "process may use CPUs of one node",
            remedy="use numa: auto",
        )
    _check(len(inside), near, f"VNFs and applications beside the switch on NUMA node {home}")
    _check(len(outside), far, f"ends of the generator on NUMA node {far[0].node if far else ''}")
    cores = dict(zip(inside, near, strict=False)) | dict(zip(outside, far, strict=False))
    return {name: [cpu.id] for name, cpu in cores.items()}


_KEY = "numa: generator-apart"


def _check(wanted: int, free: Sequence[Cpu], what: str) -> None:
    if wanted > len(free):
        raise UnavailableError(
            f"{_KEY}: {wanted} {what} need a core each, and {len(free)} are free there",
            remedy="use fewer pairs or a shorter chain, or numa: auto",
        )
