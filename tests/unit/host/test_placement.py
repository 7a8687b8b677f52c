"""Placement on machines of every shape, most of them simulated."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from switchmark.errors import UnavailableError
from switchmark.host.cores.placement import Demand, core_map, place
from switchmark.host.facts import Cpu
from switchmark.model.choices import Idle
from switchmark.record import Placement


def machine(
    cores: int, *, threads: int = 1, nodes: int = 1, isolated: set[int] | None = None
) -> list[Cpu]:
    """Return a machine of `cores` physical cores; CPU i and i+cores are siblings, as in Linux."""
    isolated = isolated or set()
    return [
        Cpu(t * cores + c, (c * nodes // cores, c), c * nodes // cores, t * cores + c in isolated)
        for t in range(threads)
        for c in range(cores)
    ]


def pairs(count: int) -> tuple[tuple[str, ...], ...]:
    return tuple((f"tx{k}", f"rx{k}") for k in range(count))


def put(
    cpus: list[Cpu],
    count: int = 1,
    *,
    kernel: bool = False,
    usable: set[int] | None = None,
    switch_cores: int = 1,
    idle: Idle = Idle.AUTO,
    application_cpus: tuple[int, ...] = (),
) -> Placement:
    demand = Demand(
        pairs(count), not kernel, kernel, switch_cores, idle, application_cpus=application_cpus
    )
    allowed = usable or {cpu.id for cpu in cpus if not cpu.isolated}
    placement = place(cpus, allowed, demand)
    assert set(placement.application_cores) == {name for pair in demand.pairs for name in pair}
    assert all(placement.application_cores.values())
    assert placement.bench_cores
    assert len(placement.switch_cores) == (0 if kernel else switch_cores)
    assert placement.reason
    return placement


def load(placement: Placement) -> Counter[int]:
    return Counter(core for own in placement.application_cores.values() for core in own)


def test_one_core_is_shared_by_everything() -> None:
    placement = put(machine(1))
    assert placement.switch_cores == [0] and load(placement) == {0: 2}
    assert placement.oversubscribed and placement.idle == "baton"
    assert "with the switch, because there is no other CPU" in placement.reason


def test_polling_switch_has_one_of_two_cores_alone() -> None:
    placement = put(machine(2))
    assert placement.switch_cores == [1]
    assert load(placement) == {0: 2} and placement.bench_cores == [0]
    assert placement.oversubscribed and placement.idle == "baton"
    assert "oversubscribed" in placement.reason


def test_kernel_switch_on_two_cores_separates_the_ends() -> None:
    placement = put(machine(2), kernel=True)
    assert placement.application_cores == {"tx0": [1], "rx0": [0]}
    assert not placement.oversubscribed and placement.idle == "poll"
    assert placement.bench_cores == [0] and "shared" in placement.reason


def test_bench_avoids_the_switch_if_applications_are_named() -> None:
    placement = put(machine(2), application_cpus=(1,))
    assert placement.switch_cores == [0] and load(placement) == {1: 2}
    assert placement.bench_cores == [1]


def test_three_cores_use_the_housekeeping_core_for_the_receiver() -> None:
    placement = put(machine(3))
    assert placement.switch_cores == [1]
    assert placement.application_cores == {"tx0": [2], "rx0": [0]}
    assert not placement.oversubscribed and placement.idle == "poll"


def test_four_cores_leave_core_zero_to_the_bench() -> None:
    placement = put(machine(4))
    assert placement.switch_cores == [1]
    assert placement.application_cores == {"tx0": [2], "rx0": [3]}
    assert placement.bench_cores == [0] and not placement.oversubscribed
    assert "shared" not in placement.reason


def test_four_cores_two_pairs_are_treated_alike() -> None:
    placement = put(machine(4), 2)
    assert placement.application_cores["tx0"] == placement.application_cores["rx0"]
    assert placement.application_cores["tx1"] == placement.application_cores["rx1"]
    assert placement.application_cores["tx0"] != placement.application_cores["tx1"]
    assert placement.bench_cores == [0] and placement.idle == "baton"


def test_in_kernel_switch_spreads_senders_over_all_cores() -> None:
    placement = put(machine(2), 4, kernel=True)
    senders = Counter(placement.application_cores[f"tx{k}"][0] for k in range(4))
    assert senders == {0: 2, 1: 2} and load(placement) == {0: 4, 1: 4}
    for k in range(4):
        assert placement.application_cores[f"tx{k}"] != placement.application_cores[f"rx{k}"]
    assert placement.oversubscribed


def test_smt_sibling_of_the_switch_stays_idle() -> None:
    placement = put(machine(4, threads=2), 1)  # siblings: 0-4 1-5 2-6 3-7
    assert placement.switch_cores == [1]
    assert load(placement) == {2: 1, 3: 1} and placement.bench_cores == [0]
    crowded = put(machine(4, threads=2), 4)
    assert 5 not in load(crowded), "the sibling of the switch's CPU runs nothing"
    assert 5 not in crowded.bench_cores
    assert "SMT siblings" in crowded.reason


def test_two_siblings_only() -> None:
    placement = put(machine(1, threads=2))
    assert placement.switch_cores == [1] and load(placement) == {0: 2}
    assert "SMT siblings" in placement.reason and placement.oversubscribed


def test_two_cores_with_smt_use_the_sibling_of_the_other_core() -> None:
    placement = put(machine(2, threads=2))  # siblings: 0-2 1-3
    assert placement.switch_cores == [1]
    assert placement.application_cores == {"tx0": [2], "rx0": [0]}
    assert "SMT siblings" in placement.reason and not placement.oversubscribed


def test_numa_everything_on_one_node_while_it_fits() -> None:
    cpus = machine(16, threads=2, nodes=2)
    placement = put(cpus, 3)
    used = {*placement.switch_cores, *load(placement), *placement.bench_cores}
    assert {cpus[core].node for core in used} == {0} and used == set(range(8))
    assert "NUMA" not in placement.reason


def test_numa_spills_over_to_the_other_node_before_siblings() -> None:
    cpus = machine(16, threads=2, nodes=2)
    placement = put(cpus, 6)
    used = {*placement.switch_cores, *load(placement)}
    assert max(used) < 16, "no sibling while there are physical cores"
    assert {cpus[core].node for core in used} == {0, 1} and "NUMA" in placement.reason
    assert not placement.oversubscribed


def test_node_with_most_usable_cores_is_home() -> None:
    cpus = machine(8, nodes=2)
    placement = put(cpus, usable={0, 4, 5, 6, 7})
    assert placement.bench_cores == [4] and placement.switch_cores == [5]
    assert load(placement) == {6: 1, 7: 1}


def test_affinity_is_respected() -> None:
    placement = put(machine(8), usable={2, 3})
    assert {*placement.switch_cores, *load(placement), *placement.bench_cores} == {2, 3}


def test_isolated_cores_run_the_trial_and_the_bench_stays_off() -> None:
    placement = put(machine(8, isolated={4, 5, 6}))
    assert placement.switch_cores == [4] and load(placement) == {5: 1, 6: 1}
    assert placement.bench_cores == [0]


def test_isolated_cores_are_left_when_the_affinity_was_narrowed() -> None:
    placement = put(machine(8, isolated={4, 5, 6}), usable={0, 1, 2, 3})
    assert not {4, 5, 6} & {*placement.switch_cores, *load(placement)}


def test_sixty_four_cores() -> None:
    placement = put(machine(64), 31)
    assert not placement.oversubscribed and placement.bench_cores == [0]
    assert max(load(placement).values()) == 1 and placement.switch_cores == [1]
    many = put(machine(64), 64)
    assert many.oversubscribed and many.idle == "baton"
    assert max(load(many).values()) == 4, "64 pairs over 62 cores and core 0"


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("cores", [1, 2, 4, 8, 64])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 16, 64])
def test_placement_invariants(cores: int, threads: int, count: int, kernel: bool) -> None:
    cpus = machine(cores, threads=threads, nodes=2 if cores >= 8 else 1)
    placement = put(cpus, count, kernel=kernel)
    per_core = load(placement)
    shares = max(per_core.values()) > 1 or bool(set(per_core) & set(placement.switch_cores))
    assert placement.oversubscribed is shares
    turns = max(per_core.values()) > 1  # otherwise only the switch may be there
    assert placement.idle == ("baton" if turns else "yield" if shares else "poll")
    if len(cpus) > 1:
        assert not set(per_core) & set(placement.switch_cores), "the switch has its core alone"
        assert not set(placement.bench_cores) & set(placement.switch_cores)
    assert put(cpus, count, kernel=kernel) == placement, "a function of its arguments alone"


def test_neighbour_core_outside_the_mask_is_refused() -> None:
    """spawn() could leave the mask, as only a cpuset limits sched_setaffinity."""
    demand = Demand(pairs(1), True, False, neighbour_cpus=(0,))
    with pytest.raises(UnavailableError, match="neighbour_cpus: this process may not use CPU 0"):
        place(machine(2), {1}, demand)
    assert place(machine(2), {0, 1}, demand)


def test_several_switch_cores() -> None:
    placement = put(machine(8), switch_cores=3)
    assert placement.switch_cores == [1, 2, 3] and load(placement) == {4: 1, 5: 1}


def test_all_cores_for_the_switch_is_oversubscribed() -> None:
    placement = put(machine(2), switch_cores=2)
    assert placement.oversubscribed and sorted(placement.switch_cores) == [0, 1]


def test_more_switch_cores_than_exist_are_refused() -> None:
    with pytest.raises(UnavailableError, match=r"switch_cores: is 3, .* 2 CPUs"):
        put(machine(2), switch_cores=3)


def test_requested_idle_strategy_is_kept() -> None:
    assert put(machine(2), idle=Idle.POLL).idle == "poll"
    assert put(machine(2), idle=Idle.POLL).oversubscribed
    assert put(machine(8), idle=Idle.SLEEP).idle == "sleep"


def test_tester_owns_both_ends() -> None:
    placement = place(machine(2), {0, 1}, Demand((("t0",),), True, False))
    assert placement.application_cores == {"t0": [0]} and placement.switch_cores == [1]
    assert not placement.oversubscribed and placement.idle == "poll"


def test_cores_as_the_campaign_names_them() -> None:
    cpus = [Cpu(number, (0, number), 0) for number in range(6)]
    named_cores = Demand(
        pairs=(("tx0", "rx0", "v0-1"),),
        polling_switch=True,
        in_kernel_switch=False,
        switch_cpus=(5,),
        application_cpus=(1, 2),
    )
    placed = place(cpus, set(range(6)), named_cores)
    assert placed.switch_cores == [5]
    assert placed.oversubscribed and placed.idle == "baton"
    assert {core for own in placed.application_cores.values() for core in own} <= {1, 2}
    shown = core_map(placed)
    assert shown[5] == ["switch"] and "bench" in shown[placed.bench_cores[0]]
    assert sum("rx0" in who for who in shown.values()) == 1
    with pytest.raises(UnavailableError, match="switch_cpus: this process may not use CPU 9"):
        place(cpus, set(range(6)), replace(named_cores, switch_cpus=(9,)))


def test_chosen_cores_avoid_the_named_cores() -> None:
    cpus = [Cpu(number, (0, number), 0) for number in range(4)]
    with_names = Demand(
        pairs=(("tx0", "rx0"),), polling_switch=True, in_kernel_switch=False,
        application_cpus=(1, 2),
    )  # fmt: skip
    placed = place(cpus, set(range(4)), with_names)
    assert not set(placed.switch_cores) & {1, 2} and len(placed.switch_cores) == 1
    named = place(cpus, set(range(4)), replace(with_names, application_cpus=(), switch_cpus=(3,)))
    assert named.application_cores == {"tx0": [1], "rx0": [2]}, "a core each, as without a name"
    assert named.bench_cores == [0] and not named.oversubscribed


def test_siblings_of_named_cores_are_avoided_if_possible() -> None:
    cpus = machine(4, threads=2)  # siblings: 0-4 1-5 2-6 3-7
    ends = place(cpus, set(range(8)), make_demand(switch_cpus=(1,)))
    assert used(ends) == {2, 3} and ends.bench_cores == [0]
    many = place(cpus, set(range(8)), replace(make_demand(switch_cpus=(6,)), pairs=pairs(4)))
    assert not used(many) & {2, 6} and len(used(many)) == 4
    switch = place(cpus, set(range(8)), make_demand(application_cpus=(1, 6)))
    assert switch.switch_cores == [3]
    few = place(machine(2, threads=2), set(range(4)), make_demand(switch_cpus=(0, 1)))
    assert used(few) == {3}, "only siblings are left"
    everything = place(machine(2), {0, 1}, make_demand(switch_cpus=(0, 1)))
    assert used(everything) == {0} and everything.oversubscribed


def test_switch_avoids_the_bench_if_applications_are_named() -> None:
    two = make_demand(application_cpus=(1, 2), smt="avoid")
    assert place(machine(4, threads=2), set(range(8)), two).switch_cores == [3]
    most = place(machine(4), set(range(4)), replace(two, switch_cores=2))
    assert most.switch_cores == [3, 0], "the housekeeping core before an application's"
    assert place(machine(4), set(range(4)), replace(two, switch_cores=3)).oversubscribed


def make_demand(**changes: object) -> Demand:
    return replace(Demand((("tx0", "rx0"),), True, False), **changes)  # type: ignore[arg-type]


def used(placement: Placement) -> set[int]:
    return {core for own in placement.application_cores.values() for core in own}


def test_siblings_are_avoided_or_used_on_purpose() -> None:
    cpus = machine(2, threads=2)  # siblings: 0-2 1-3
    avoided = place(cpus, set(range(4)), make_demand(smt="avoid"))
    assert not used(avoided) & {2, 3} and avoided.switch_cores == [1]
    assert avoided.oversubscribed, "two physical cores are too few for three programs"
    siblings = place(cpus, set(range(4)), make_demand(smt="siblings"))
    assert siblings.switch_cores == [1] and used(siblings) == {3}
    assert "SMT siblings, as requested" in siblings.reason
    named = place(cpus, set(range(4)), make_demand(smt="siblings", switch_cpus=(2,)))
    assert named.switch_cores == [2] and used(named) == {0}


def test_another_numa_node_or_the_same() -> None:
    cpus = machine(8, nodes=2)  # 0-3 and 4-7
    other = place(cpus, set(range(8)), make_demand(numa="other"))
    assert set(other.switch_cores) <= {0, 1, 2, 3} and used(other) <= {4, 5, 6, 7}
    assert "on several NUMA nodes, as requested" in other.reason
    many = Demand(pairs(3), True, False, numa="same")
    assert used(place(cpus, set(range(8)), many)) <= {0, 1, 2, 3}
    assert used(place(cpus, set(range(8)), replace(many, numa="auto"))) & {4, 5, 6, 7}


def test_missing_topology_is_refused() -> None:
    with pytest.raises(UnavailableError, match="smt: siblings: the switch's cores have no SMT"):
        place(machine(4), set(range(4)), make_demand(smt="siblings"))
    with pytest.raises(UnavailableError, match="numa: other: this process may use CPUs of 1 NUMA"):
        place(machine(4), set(range(4)), make_demand(numa="other"))
    with pytest.raises(UnavailableError, match="main_cpu: this process may not use CPU 9"):
        place(machine(4), set(range(4)), make_demand(main_cpu=9))


def test_the_main_thread_is_on_the_map() -> None:
    placed = place(machine(4), set(range(4)), make_demand(main_cpu=0))
    assert placed.switch_main_core == 0
    assert "switch-main" in core_map(placed)[0] and core_map(placed)[1] == ["switch"]


def test_generator_is_on_another_node_than_switch_and_vnfs() -> None:
    """As in Zhang et al.: wire ends on one node, switch and VNFs on the other."""
    cpus = machine(24, nodes=2)  # 0-11 and 12-23
    chain = Demand(
        (("tx0", "rx0", "v0-1", "v0-2"),), True, False, numa="generator-apart",
        outside=("tx0", "rx0"),
    )  # fmt: skip
    placed = place(cpus, set(range(24)), chain)
    assert (placed.switch_cores, placed.bench_cores) == ([1], [0])
    assert placed.application_cores == {"v0-1": [2], "v0-2": [3], "tx0": [12], "rx0": [13]}
    assert placed.idle == "poll" and not placed.oversubscribed
    assert (
        "the generator is apart, on NUMA node 1" in placed.reason
        and "as requested" in placed.reason
    )
    named = place(cpus, set(range(24)), replace(chain, switch_cpus=(20,)))
    assert named.application_cores["tx0"][0] < 12 <= named.application_cores["v0-1"][0]
    in_kernel = place(cpus, set(range(24)), replace(chain, in_kernel_switch=True))
    assert in_kernel.switch_cores == [] and in_kernel.application_cores["tx0"] == [12]


def test_generator_avoids_siblings_of_the_switch() -> None:
    cpus = machine(4, threads=2, nodes=2)  # nodes 0: 0-1 and 4-5; 1: 2-3 and 6-7
    ends = Demand((("tx0", "rx0"),), True, False, numa="generator-apart", outside=("tx0",))
    placed = place(cpus, set(range(8)), ends)
    siblings = {
        cpu.id for cpu in cpus if cpu.core in {cpus[one].core for one in placed.switch_cores}
    }
    assert not used(placed) & siblings


FIVE = {"pairs": (tuple("abcde"),), "outside": tuple("abcde")}


@pytest.mark.parametrize(
    ("count", "nodes", "change", "reason"),
    [
        (8, 1, {}, "than the switch, and this process may use CPUs of one node"),
        (6, 2, {}, "3 VNFs and applications beside the switch on NUMA node 0 need a core each, "),
        (8, 2, FIVE, "5 ends of the generator on NUMA node 1 need a core each, and 4 are free"),
        (8, 2, {"switch_cpus": (1, 5)}, "cores are on NUMA node 0 and on 1; give it fewer"),
    ],
)  # fmt: skip
def test_separate_generator_needs_enough_nodes_and_cores(
    count: int, nodes: int, change: dict[str, object], reason: str
) -> None:
    asked_of = Demand(
        (("tx0", "rx0", "v0-1", "v0-2", "v0-3"),), True, False, numa="generator-apart",
        outside=("tx0", "rx0"),
    )  # fmt: skip
    with pytest.raises(UnavailableError, match=f"^numa: generator-apart: .*{reason}"):
        place(machine(count, nodes=nodes), set(range(count)), replace(asked_of, **change))
