"""Which CPU cores and how much of them everybody gets, and who disturbs."""

from __future__ import annotations

from switchmark.campaign import key_values as read
from switchmark.campaign import model, values
from switchmark.campaign.key import Key
from switchmark.campaign.model import Idle

KEYS: tuple[Key, ...] = (
    Key(
        "idle",
        "idle",
        "what an application does while its ring is full or empty: `poll`, `yield`, `sleep`, or "
        "`auto`: by the cores there are",
        lambda text, _known: Idle(values.choice(text, tuple(Idle), "idle strategy")),
        str,
        "yield",
    ),
    Key(
        "switch_cores",
        "switch_cores",
        "cores given to a switch that polls",
        read.whole(read.CORES),
        str,
        "1, 2",
        unit="cores",
        ranges=True,
    ),
    Key(
        "spare_cores",
        "spare_cores",
        "cores left idle on purpose, as a polling switch would use them (for the bare wire)",
        read.whole(read.SPARE),
        str,
        "1",
        unit="cores",
        ranges=True,
    ),
    Key(
        "cpu_limit",
        "cpu_limit",
        "CPU time that a switch with a process of its own may use, as a share of each of its cores "
        "(a quota of its control group); `none`: all",
        read.cpu_limit,
        lambda value: "none" if value is None else f"{value * 100:.6g}%",
        "100%, 75%, 50%, 25%, 12.5%",
        unit="share",
    ),
    Key(
        "switch_cpus",
        "switch_cpus",
        "which cores the switch gets, as many as `switch_cores` says: `2+3`; `auto`: by placement",
        read.cores(("auto",)),
        str,
        "2",
    ),
    Key(
        "application_cpus",
        "application_cpus",
        "which cores the traffic applications and VNFs get, one after the other, from the first "
        "again where there are more of them; `auto`: by placement",
        read.cores(("auto",)),
        str,
        "4+5+6",
    ),
    Key(
        "main_cpu",
        "main_cpu",
        "the core of the switch's main thread, where that does not forward (`ovs-dpdk`, `testpmd`, "
        "`vpp`); `auto`: off the forwarding cores where there are others",
        read.one_core,
        str,
        "0",
    ),
    Key(
        "smt",
        "smt",
        "SMT siblings: `avoid` (one CPU of each physical core is used at all), `siblings` "
        "(applications run on the siblings of the switch's cores), `auto`: used last",
        lambda text, _known: values.choice(text, model.SMT_WORDS, "use of SMT siblings"),
        str,
        "avoid, siblings",
    ),
    Key(
        "numa",
        "numa",
        "NUMA nodes: `same` (applications and switch on one node), `other` (applications on "
        "another than the switch), `auto`: one node while it has cores",
        lambda text, _known: values.choice(text, model.NUMA_WORDS, "placement on NUMA nodes"),
        str,
        "same, other",
    ),
    Key(
        "neighbour",
        "neighbour",
        "background load while a trial measures: `cpu`, `cache`, `memory`, `stream`, `switch`, "
        "`socket` (stress-ng), or the absolute path of a program; `none`",
        read.neighbour,
        str,
        "none, cache",
    ),
    Key(
        "neighbour_cpus",
        "neighbour_cpus",
        "where that load is pinned: `switch` or `applications` (their cores), cores as `0+1`, or "
        "`any` (not pinned); it has a worker a core, unpinned one",
        read.cores(("any", "switch", "applications")),
        str,
        "any, switch",
    ),
)
