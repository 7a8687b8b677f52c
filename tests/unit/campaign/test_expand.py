from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from switchmark.campaign.connect_modes import choose_modes
from switchmark.campaign.expand import estimate, expand, trials_of
from switchmark.campaign.load import load_text
from switchmark.campaign.port_kinds import usable_ports
from switchmark.errors import UsageError
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.capabilities import (
    IN_KERNEL_OVERHEAD_S,
    PROGRAM_OVERHEAD_S,
    Capabilities,
)
from switchmark.model.choices import Dimension
from switchmark.model.io import Io
from switchmark.model.ports import ConnectMode, PortKind
from switchmark.model.trial import Trial
from switchmark.switch.registry import SWITCHES as REGISTERED
from switchmark.switch.registry import usual_overhead_s
from tests.unit.calls import calls_of
from tests.unit.campaign_fakes import CROSS, ENVIRONMENTS, KNOWN, LEARN, STATIC, SWITCHES, VETH


def load(text: str) -> CampaignDefinition:
    return load_text(text, "c.yaml", KNOWN)


def run(text: str) -> list[Trial]:
    return expand(load(text), SWITCHES, ENVIRONMENTS)


def refused(text: str) -> list[str]:
    with pytest.raises(UsageError) as error:
        run(text)
    assert error.value.exit_code == 2
    return str(error.value).splitlines()


def test_every_combination_runs_once_in_every_block() -> None:
    trials = run("""\
switch: [linux-bridge, ovs-netdev]
dimension: [throughput, latency]
packet_size: 64, 1500
repetitions: 3
""")
    assert len(trials) == 24
    assert len({t.id for t in trials}) == 24
    for repetition in range(3):
        block = trials[8 * repetition : 8 * repetition + 8]
        assert {t.repetition for t in block} == {repetition}
        assert Counter((t.switch, t.dimension, t.packet_size_bytes) for t in block) == Counter(
            (switch, dimension, size)
            for switch in ("linux-bridge", "ovs-netdev")
            for dimension in Dimension
            for size in (64, 1500)
        )


def test_order_inside_blocks_is_random_by_seed() -> None:
    text = "switch: linux-bridge\npacket_size: 64..1500 step 32\nrepetitions: 3\n"

    def sizes(trials: list[Trial]) -> list[int]:
        return [t.packet_size_bytes for t in trials]

    first = sizes(run(text))
    assert first == sizes(run(text))
    assert first != sizes(run(text + "seed: 2\n"))
    third = len(first) // 3
    blocks = [first[:third], first[third : 2 * third], first[2 * third :]]
    assert sorted(blocks[0]) == sorted(blocks[1]) == sorted(blocks[2])
    assert all(a != b for a, b in pairwise(blocks))
    assert all(block != sorted(block) for block in blocks)


def test_the_order_never_changes_between_versions() -> None:
    # A campaign that is resumed under another version must go on in the same order.
    trials = run("switch: linux-bridge\npacket_size: 64..512 step 64\nseed: 42\n")
    assert [t.packet_size_bytes for t in trials] == [128, 512, 256, 192, 64, 384, 320, 448]


def test_sweeps_that_overlap_run_their_common_trials_once() -> None:
    trials = run("switch: linux-bridge\nsweeps: [{packet_size: '64, 128'}, {packet_size: 128}]")
    assert sorted(t.packet_size_bytes for t in trials) == [64, 128]


def modes(text: str) -> dict[str, set[str | None]]:
    found: dict[str, set[str | None]] = {}
    for trial in run(text):
        found.setdefault(trial.switch, set()).add(trial.connect_mode)
    return found


def test_a_mode_that_all_switches_have_is_chosen() -> None:
    assert modes("switch: linux-bridge") == {"linux-bridge": {LEARN}}
    assert modes("switch: basicfwd") == {"basicfwd": {CROSS}}
    assert modes("switch: [linux-bridge, ovs-dpdk]") == {
        "linux-bridge": {LEARN},
        "ovs-dpdk": {LEARN},
    }
    assert modes("switch: [basicfwd, ovs-dpdk]") == {"basicfwd": {CROSS}, "ovs-dpdk": {CROSS}}
    three = ("linux-bridge", "basicfwd", "ovs-dpdk")
    assert modes(f"switch: [{', '.join(three)}]") == {name: {CROSS} for name in three}
    # learning is natural to two of them
    assert modes("switch: [ovs-netdev, ovs-dpdk]") == {"ovs-netdev": {LEARN}, "ovs-dpdk": {LEARN}}


def test_the_mode_is_shared_over_all_sweeps() -> None:
    text = "sweeps: [{switch: basicfwd}, {switch: ovs-dpdk}]"
    assert modes(text) == {"basicfwd": {CROSS}, "ovs-dpdk": {CROSS}}


def test_no_common_mode_is_refused_by_name() -> None:
    assert refused("switch: [no-wires, basicfwd, ovs-dpdk]") == [
        "c: no connect mode is common to all switches (no-wires: learning, static-mac; "
        "basicfwd: cross-connect; ovs-dpdk: learning, cross-connect, static-mac); choose switches "
        "that share one, or set mixed_connect_modes: true to run each in its own"
    ]


def test_mixing_on_purpose_gives_each_its_natural_mode() -> None:
    text = "switch: [linux-bridge, basicfwd, ovs-dpdk]\nmixed_connect_modes: true"
    assert modes(text) == {
        "linux-bridge": {LEARN}, "basicfwd": {CROSS}, "ovs-dpdk": {LEARN},
    }  # fmt: skip


def test_a_mode_that_is_asked_for_is_taken_or_refused() -> None:
    assert modes("switch: ovs-dpdk\nconnect_mode: static-mac") == {"ovs-dpdk": {STATIC}}
    assert modes("switch: ovs-dpdk\nconnect_mode: learning, cross-connect") == {
        "ovs-dpdk": {LEARN, CROSS}
    }
    for leave in ("", "\nmixed_connect_modes: true"):
        assert refused(f"switch: [no-wires, ovs-dpdk]\nconnect_mode: cross-connect{leave}") == [
            "c: no-wires cannot do connect_mode cross-connect (it can: learning, static-mac); "
            "choose one of these, or leave no-wires out"
        ]


def test_modes_that_differ_between_sweeps_are_refused() -> None:
    text = (
        "sweeps:\n- {switch: linux-bridge, connect_mode: learning}\n"
        "- {switch: ovs-dpdk, connect_mode: cross-connect}\n"
    )
    assert refused(text) == [
        "c: the switches would run in different connect modes (linux-bridge: learning; "
        "ovs-dpdk: cross-connect); give all of them the same, or set mixed_connect_modes: true "
        "to compare them all the same"
    ]
    assert len(run(text + "mixed_connect_modes: true")) == 2


def test_the_wire_has_no_mode_to_compare() -> None:
    assert modes("switch: [direct, linux-bridge]") == {"direct": {CROSS}, "linux-bridge": {LEARN}}
    campaign = load("switch: direct")
    assert choose_modes(campaign, SWITCHES) == ({"direct": CROSS}, [])


def test_cores_and_ports_a_switch_does_not_have() -> None:
    assert refused("switch: [linux-bridge, ovs-dpdk]\nswitch_cores: 1, 2") == [
        "c: linux-bridge runs on one core only, not on switch_cores 2; use switch_cores: 1"
    ]
    assert refused("switch: two-port\npairs: 1, 4") == [
        "c: two-port takes at most 2 ports, and 4 pairs need 8; use pairs up to 1"
    ]
    assert len(run("switch: two-port\npairs: 1")) == 1


def test_ports_and_io_that_do_not_meet() -> None:
    assert refused("switch: basicfwd\nenvironment: veth-only") == [
        "c: basicfwd has vhost-user ports, and environment veth-only offers veth; "
        "choose another environment"
    ]
    assert refused("switch: basicfwd\nio: [udp, dpdk]") == [
        "c: io udp needs a kernel port, and basicfwd in netns has vhost-user only; "
        "use io: dpdk or auto"
    ]
    assert refused("switch: linux-bridge\nport_kind: memif") == [
        "c: linux-bridge in netns has no memif port (it has: veth); use port_kind: auto"
    ]
    assert refused("switch: ovs-dpdk\nport_kind: vhost-user\nio: raw") == [
        "c: io raw needs a kernel port, and ovs-dpdk in netns has vhost-user only; "
        "use io: dpdk or auto"
    ]


def test_io_decides_port_kind_if_best_kind_does_not_fit() -> None:
    trials = run("switch: ovs-dpdk\nio: [auto, udp, dpdk]")
    assert {t.io: t.port_kind for t in trials} == {Io.AUTO: None, Io.UDP: VETH, Io.DPDK: None}
    (requested,) = run("switch: ovs-dpdk\nport_kind: veth")
    assert requested.port_kind is VETH
    capabilities = SWITCHES["ovs-dpdk"]
    assert usable_ports(capabilities, (VETH, PortKind.TAP), Io.AUTO) == [VETH]
    assert usable_ports(capabilities, None) == [PortKind.VHOST_USER, VETH]


def test_every_refusal_is_named_at_once_and_once() -> None:
    lines = refused(
        "switch: [linux-bridge, basicfwd]\nswitch_cores: 2\nio: udp\npacket_size: 64, 65"
    )
    assert lines == [
        "c: linux-bridge runs on one core only, not on switch_cores 2; use switch_cores: 1",
        "c: io udp needs a kernel port, and basicfwd in netns has vhost-user only; "
        "use io: dpdk or auto",
    ]


def test_missing_switch_or_environment_is_refused() -> None:
    campaign = load("switch: linux-bridge")
    with pytest.raises(UsageError) as error:
        expand(campaign, {}, ENVIRONMENTS)
    assert str(error.value) == "c: switch 'linux-bridge' is not installed here (known: none)"
    with pytest.raises(UsageError) as error:
        expand(campaign, SWITCHES, {})
    assert str(error.value) == "c: environment 'netns' is not installed here"
    assert len(expand(campaign, SWITCHES)) == 1  # environments unknown: not judged


def test_a_port_that_needs_nothing_is_left_open() -> None:
    (trial,) = run("switch: linux-bridge\nio: udp")
    assert trial.port_kind is None


def test_the_time_around_a_trial_is_the_switch_s_own() -> None:
    for name, make in REGISTERED.items():
        assert usual_overhead_s(name) == make().capabilities.usual_overhead_s
    result = Capabilities((PortKind.VETH,), (ConnectMode.LEARNING,), polling=False)
    assert result.usual_overhead_s == PROGRAM_OVERHEAD_S
    assert replace(result, in_kernel=True).usual_overhead_s == IN_KERNEL_OVERHEAD_S
    assert replace(result, in_kernel=True, overhead_s=1.5).usual_overhead_s == 1.5
    assert usual_overhead_s("of-a-run-from-elsewhere") == PROGRAM_OVERHEAD_S


def test_estimate() -> None:
    campaign = load(
        "switch: [linux-bridge, ovs-dpdk]\ndimension: [throughput, latency]\nduration: 5s\n"
        "repetitions: 2"
    )
    trials = expand(campaign, SWITCHES, ENVIRONMENTS)
    time_needed = estimate(campaign, trials)
    assert time_needed.measuring_s == 8 * 5.0 + 4 * 1.0  # and a warm-up run before each latency
    block_s = usual_overhead_s("linux-bridge") + usual_overhead_s("ovs-dpdk")
    assert time_needed.overhead_s == pytest.approx(4 * block_s)
    assert time_needed.total_s == time_needed.measuring_s + time_needed.overhead_s


def test_trials_of_a_sweep_are_as_written() -> None:
    (sweep,) = load("switch: ovs-dpdk\nburst: 1, 2").sweeps
    trials = list(trials_of(sweep))
    assert [t.burst for t in trials] == [1, 2]
    assert all(t.connect_mode is None for t in trials)
    assert len(trials) == sweep.count


def test_planning_grows_with_the_trials_alone() -> None:
    def planned(sizes: int) -> int:
        text = f"switch: ovs-dpdk\npacket_size: 64..{63 + sizes} step 1\nrate: 1k..20k step 1k"
        trials = run(text)
        assert len({trial.id for trial in trials}) == len(trials)
        return len(trials)

    planned(1)  # fills the caches
    (few, few_calls), (many, many_calls) = (calls_of(lambda n=n: planned(n)) for n in (40, 400))
    assert many == 10 * few == 8000
    assert many_calls < 12 * few_calls, "ten times as many trials"


def test_capabilities_alone_decide() -> None:
    # The expansion must not know any switch by name, but for the wire.
    odd = {"linux-bridge": replace(SWITCHES["basicfwd"], description="not a bridge at all")}
    (trial,) = expand(load("switch: linux-bridge"), odd, ENVIRONMENTS)
    assert trial.connect_mode is CROSS


def test_a_repetition_is_the_same_trial_but_for_its_number() -> None:
    trial = Trial(dimension="throughput", switch="linux-bridge", packet_size_bytes=64)
    again = trial.repeated(3)
    assert again == trial.model_copy(update={"repetition": 3})
    assert again.id == trial.model_copy(update={"repetition": 3}).id
    assert Trial.model_validate_json(again.model_dump_json()) == again
    assert (again.repeated(0), trial.repetition) == (trial, 0)
