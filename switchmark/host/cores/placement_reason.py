"""Why cores were handed out as they were, in words for plans and records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from switchmark.host.facts import Cpu


def switch_reason(
    polling: bool, in_kernel: bool, switch: Sequence[int], free: Sequence[int]
) -> str:
    """Which cores the switch has; `free`: the cores that the kernel moves it over, if it is not
    pinned."""
    if in_kernel:
        return "the switch works in the kernel, on the senders' cores"
    what = "polling switch" if polling else "switch process"
    if free:
        begun = core_list(switch)
        return f"{what} not pinned: it begins on {begun} and moves over {core_list(free)}"
    return f"{what} on {core_list(switch)}"


def application_reason(used: Sequence[int], crowded: set[int], with_switch: Sequence[int]) -> str:
    """How applications share cores, if they do."""
    if with_switch:
        return (
            f"oversubscribed: {len(used)} applications share {core_list(used)} with the switch "
            "itself, for want of another CPU"
        )
    if crowded:
        return (
            f"oversubscribed: {len(used)} applications share {core_list(used)}"
            f" ({max(used.count(core) for core in crowded)} on the fullest)"
        )
    return f"each application on a core of its own ({core_list(used)})"


def smt_reasons(
    switch: Sequence[int], used: Sequence[int], ordered: Sequence[Cpu], *, as_asked: bool
) -> list[str]:
    """Which SMT siblings are used, if any."""
    busy = _busy(switch, used, ordered)
    if len({cpu.core for cpu in busy}) == len(busy):
        return []
    why = ", as asked" if as_asked else ""
    return [f"some are SMT siblings{why}, and share the execution units of one core"]


def numa_reasons(
    switch: Sequence[int], used: Sequence[int], ordered: Sequence[Cpu], *, as_asked: bool
) -> list[str]:
    """Which NUMA nodes are used, if several are."""
    if len({cpu.node for cpu in _busy(switch, used, ordered)}) == 1:
        return []
    return [f"spread over NUMA nodes, {'as asked' if as_asked else 'for want of cores on one'}"]


def apart_reasons(generator: Sequence[int], ordered: Sequence[Cpu]) -> list[str]:
    """Where the generator is that is apart; empty where there is none."""
    nodes = {cpu.node for cpu in ordered if cpu.id in generator}
    return [f"the generator apart on NUMA node {node}" for node in nodes]


def _busy(switch: Sequence[int], used: Sequence[int], ordered: Sequence[Cpu]) -> list[Cpu]:
    by_id = {cpu.id: cpu for cpu in ordered}
    return [by_id[core] for core in dict.fromkeys((*switch, *used))]


def core_list(cores: Iterable[int]) -> str:
    """Each core once: `core 1`, `cores 1,2`."""
    distinct = sorted(set(cores))
    return ("core " if len(distinct) == 1 else "cores ") + ",".join(map(str, distinct))
