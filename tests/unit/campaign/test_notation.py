from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchmark.campaign.notation import expand_notation, from_notation, to_notation
from switchmark.errors import UsageError
from switchmark.function.registry import unread_keys
from switchmark.method.registry import method_names
from switchmark.method.support.goal import PRESETS
from switchmark.model.choices import NEIGHBOURS, VNFS, Dimension, Idle
from switchmark.model.functions import read_functions
from switchmark.model.io import Io
from switchmark.model.options import join
from switchmark.model.parameter_table import BY_NAME, PARAMETERS
from switchmark.model.ports import ConnectMode, PortKind
from switchmark.model.trial import Trial
from tests.unit.campaign_fakes import KNOWN

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,20}", fullmatch=True)
CORES = st.lists(st.integers(0, 9999), min_size=1, max_size=4, unique=True).map(
    lambda cores: "+".join(map(str, cores))
)
TIMES = st.integers(1_000_000, 604_800 * 10**9).map(lambda ns: ns / 10**9)
TRIALS = st.builds(
    Trial,
    dimension=st.sampled_from(Dimension),
    pairs=st.integers(1, 500),
    switch=NAMES,
    packet_size_bytes=st.integers(64, 9018),
    rate_pps=st.none() | st.integers(1, 10**10),
    burst=st.integers(1, 4096),
    schedule=st.sampled_from(["constant", "poisson", "poisson:7", "on-off:10ms:1.5s"]),
    probe_rate_pps=st.none() | st.integers(1, 10**6),
    scenario=NAMES,
    environment=NAMES,
    connect_mode=st.none() | st.sampled_from(ConnectMode),
    port_kind=st.none() | st.sampled_from(PortKind),
    io=st.sampled_from(Io),
    idle=st.sampled_from(Idle),
    touch=st.booleans(),
    method=st.sampled_from(method_names()),
    goals=st.sampled_from(sorted(PRESETS)),
    budget_s=st.none() | TIMES,
    duration_s=TIMES,
    interval_s=TIMES,
    switch_options=st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True),
        st.from_regex(r"[A-Za-z0-9._-]{1,9}", fullmatch=True),
        max_size=3,
    ).map(join),
    switch_cores=st.integers(1, 1024),
    spare_cores=st.integers(0, 1024),
    packet_mix=st.sampled_from(["", "imix", "64*7+1518", "genome:aA:A=300", "random:64-65:seed=2"]),
    flows=st.sampled_from(["1", "1000000", "70:src-ip=7/random+vlan:zipf=1.5:seed=9"]),
    ip_version=st.sampled_from([4, 6]),
    vlan=st.sampled_from(["", "5", "200.100"]),
    repetition=st.integers(0, 9999),
    bidirectional=st.booleans(),
    cpu_limit=st.none() | st.integers(1, 1000).map(lambda thousandth: thousandth / 1000),
    vcpus=st.none() | st.integers(1, 64),
    switch_cpus=CORES | st.just("auto"),
    application_cpus=CORES | st.just("auto"),
    split=st.sampled_from(list(PARAMETERS["split"].choices)),
    switch_environment=st.sampled_from(list(PARAMETERS["switch_environment"].choices)),
    main_cpu=st.integers(0, 9999).map(str) | st.just("auto"),
    smt=st.sampled_from(list(PARAMETERS["smt"].choices)),
    numa=st.sampled_from(list(PARAMETERS["numa"].choices)),
    neighbour=st.sampled_from(NEIGHBOURS),
    neighbour_cpus=CORES | st.sampled_from(("any", "switch", "applications")),
    ring=st.sampled_from((256, 512, 4096)),
    nics=st.sampled_from(("", "eth2/eth3", "eth2/0000:01:00.0+0000:01:00.1/en.p-3_s0")),
    program=st.just("") | st.from_regex(r"/[A-Za-z0-9._+/-]{1,20}", fullmatch=True),
    contender=st.sampled_from(("", "new", "v1.2-rc_3+x")),
    compared=st.sampled_from(("", "cpu_limit", "cpu_limit+switch_cpus")),
    fractions=st.sampled_from(("0.1+0.5+0.99", "0.95")),
    generator=st.sampled_from(("switchmark", "iperf3")),
    socket_buffers=st.sampled_from(("largest", "unforced")),
    page_size=st.sampled_from(("auto", "huge", "4KiB")),
    at_once=st.integers(1, 64),
    workload=st.sampled_from(("frames", "tcp-stream", "tcp-rr")),
    # Keys that the workload of a trial does not read get their defaults when they are read back.
    offload=st.just("on"),
    congestion_control=st.just(""),
    tcp_streams=st.just(1),
    datagram_bytes=st.just(1400),
    connections=st.just(1),
    request_bytes=st.just(64),
    response_bytes=st.just(64),
    function=st.sampled_from(("forward", "route", "route+acl", "forward+acl")),
    routes=st.integers(1, 4_000_000),
    prefix_length=st.sampled_from(("mix", "24", "128")),
    rules=st.integers(0, 1_000_000),
    rule_hit=st.sampled_from(("last", "uniform", "none")),
    masks=st.integers(1, 16),
    tunnels=st.integers(1, 16_384),
    vni=st.integers(1, 2**24 - 1),
    vid=st.integers(1, 4094),
    direction=st.sampled_from(("auto", "encap", "pop")),
    cir_bps=st.integers(8_000, 400 * 10**9),
    cbs_bytes=st.integers(64, 10**9),
    routes_file=st.sampled_from(("", "/srv/full.csv")),
    rules_file=st.sampled_from(("", "/srv/acl1")),
    endpoints=st.sampled_from(("", "docker:a+pod:b/c", "netns:a+address:10.0.0.1:80+pid:7")),
    addresses=st.sampled_from(("", "10.77.0.201/24+10.77.0.202/24")),
    max_rate_pps=st.none() | st.integers(1, 10**9),
    abort_if=st.none() | st.integers(2, 1000),
    change_rate=st.integers(1, 10_000),
    vnf=st.sampled_from(VNFS) | st.from_regex(r"/[A-Za-z0-9._+/-]{1,20}", fullmatch=True),
).map(
    lambda trial: trial.model_copy(
        update=({"packet_size_bytes": round(trial.frame_sizes.mean)} if trial.packet_mix else {})
        | {
            BY_NAME[key].field: BY_NAME[key].default
            for key in unread_keys(read_functions(trial.function))
        }
    )
)
TABLE_2 = Trial(
    dimension=Dimension.THROUGHPUT,
    switch="linux-bridge",
    packet_size_bytes=64,
    rate_pps=1_000_000,
    burst=64,
)


def test_the_strategy_knows_every_field() -> None:
    # A new field of Trial must take part in the round trip below.
    assert set(Trial.model_fields) - {"location"} == {
        "dimension", "pairs", "switch", "packet_size_bytes", "rate_pps", "burst", "scenario",
        "schedule", "probe_rate_pps",
        "environment", "connect_mode", "port_kind", "io", "idle", "touch", "method", "goals",
        "budget_s", "duration_s", "interval_s", "switch_options", "switch_cores", "spare_cores",
        "repetition", "bidirectional", "vnf", "cpu_limit", "switch_cpus", "application_cpus",
        "neighbour", "neighbour_cpus", "packet_mix", "flows", "ip_version", "vlan",
        "main_cpu", "smt", "numa", "switch_environment", "split", "nics", "ring", "program",
        "contender", "compared", "fractions", "generator", "vcpus", "socket_buffers",
            "page_size",
        "function", "routes", "prefix_length", "rules", "rule_hit", "masks", "tunnels", "vni",
        "vid", "direction", "cir_bps", "cbs_bytes", "routes_file", "rules_file",
        "at_once", "workload", "offload", "congestion_control", "tcp_streams", "connections",
        "request_bytes", "response_bytes", "datagram_bytes",
        "endpoints", "addresses", "max_rate_pps", "abort_if", "change_rate",
    }  # fmt: skip


def test_keys_that_no_function_reads_are_defaults_in_a_notation() -> None:
    assert from_notation("(V=vpp, P=64, rules=7)") == from_notation("(V=vpp, P=64)")
    assert from_notation("(V=vpp, P=64, function=route+acl, rules=7)").rules == 7


@settings(max_examples=200, deadline=None)
@given(TRIALS)
def test_notation_reads_back(trial: Trial) -> None:
    assert from_notation(to_notation(trial)) == trial
    assert from_notation(to_notation(trial)).id == trial.id


def test_the_paper_s_own_notation() -> None:
    text = "(D=throughput, L=local, S=1vs1, V=linux-bridge, P=64, R=1M, B=64)"
    assert to_notation(TABLE_2) == text
    assert from_notation(text) == TABLE_2
    spaced = "(D = throughput, L = local, S = 1vs1, V = linux-bridge, P = 64, R = 1M, B = 64)"
    assert from_notation(spaced) == TABLE_2


def test_extensions_are_printed_only_where_they_differ() -> None:
    trial = TABLE_2.model_copy(
        update={
            "environment": "lxc",
            "connect_mode": ConnectMode.LEARNING,
            "touch": True,
            "duration_s": 0.5,
            "repetition": 2,
            "rate_pps": None,
            "pairs": 4,
        }
    )
    assert to_notation(trial) == (
        "(D=throughput, L=local, S=4vs4, V=linux-bridge, P=64, R=max, B=64, environment=lxc, "
        "connect_mode=learning, touch=true, duration=500ms, repetition=2)"
    )


@pytest.mark.parametrize(
    "text",
    [
        "(V=linux-bridge, P=64, R=1M, B=64)",
        "V=linux-bridge P=64 R=1M B=64",
        " ( V=linux-bridge,P=64 ,R=1M,\n B=64, ) ",
        "(V=linux-bridge, P=64) rate=1M, burst=64",
        "(B=64, R=1M, switch=linux-bridge, S=1, D=throughput)",
        "(V ∈ {linux-bridge}, P ∈ { 64 }, R=1M, B=64)",
        "(V=linux-bridge; P=64; R=1000k; B=64)",
    ],
)
def test_spacing_order_and_names_do_not_matter(text: str) -> None:
    assert from_notation(text) == TABLE_2


def test_sets_give_several_trials() -> None:
    trials = expand_notation("(D=latency, V ∈ {ovs, vpp}, P={64, 1500}, R=1k, S=2vs2)")
    assert [(t.switch, t.packet_size_bytes) for t in trials] == [
        ("ovs", 64), ("ovs", 1500), ("vpp", 64), ("vpp", 1500),
    ]  # fmt: skip
    assert all(t.pairs == 2 and t.rate_pps == 1000 and t.burst == 1 for t in trials)
    assert len(expand_notation("(V=ovs, P=64..512 step 64, 1024, R=1M)")) == 9
    assert [t.repetition for t in expand_notation("(V=ovs, repetition=0..2 step 1)")] == [0, 1, 2]
    assert [t.repetition for t in expand_notation("(V=ovs, repetition={1})")] == [1]


def test_one_trial_is_asked_of_a_set() -> None:
    with pytest.raises(UsageError) as error:
        from_notation("(V={ovs, vpp})")
    assert (
        str(error.value)
        == "notation: '(V={ovs, vpp})' means 2 trials; write one value for each key"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "notation: '' is not key=value; write e.g. (V=ovs, P=64, R=1M)"),
        ("()", "notation: '()' is not key=value; write e.g. (V=ovs, P=64, R=1M)"),
        ("(P=64)", "notation: switch: is missing; write e.g. "
                   "switch: [linux-bridge, ovs-dpdk, basicfwd]"),
        ("(V=ovs, P=40)", "notation: packet_size: 40 is below the smallest Ethernet frame "
                          "(64 with FCS); use 64 or more"),
        ("(V=ovs, Q=1)", "notation: unknown key 'Q'; known: D, L, S, V, P, R, B, "
                         + ", ".join([*BY_NAME, "repetition"])),
        ("(V=ovs, packetsize=64)", "notation: unknown key 'packetsize'; did you mean packet_size?"),
        ("(V=ovs, P=64, packet_size=128)", "notation: packet_size is given twice; keep one"),
        ("(V=ovs, P=, R=1M)", "notation: P has no value; write e.g. P=64..512 step 64, 1024, 1500"),
        ("(V=ovs, S=1vs2)", "notation: pairs: '1vs2' is uneven; pairs have as many ends left as "
                            "right, e.g. 2vs2"),
        ("((V=ovs)", "notation: '((V=ovs)' needs one '(' before it and one ')' after it"),
        ("V=ovs)", "notation: 'V=ovs)' needs one '(' before it and one ')' after it"),
        ("(64, V=ovs)", "notation: '64,' is not key=value; write e.g. (V=ovs, P=64, R=1M)"),
        ("(V=ovs, repetition=-1)", "notation: repetition: -1 is not a repetition; use 0 or more"),
        ("(V=a b)", "notation: switch: 'a b' is not a name; use ASCII letters, digits, '.', '_', "
                    "'+' and '-'"),
        ("(V=ovs, P=64..9018 step 1, R=1..1000 step 1)",
         "notation: has 8,955,000 trials, above 1,000,000; use fewer values (packet_size has "
         "8,955) or a larger step"),
    ],
)  # fmt: skip
def test_bad_notations(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        expand_notation(text)
    assert str(error.value) == message


def test_names_are_checked_against_what_is_known() -> None:
    with pytest.raises(UsageError, match=r"unknown switch 'ovs-dkpd'; did you mean ovs-dpdk\?"):
        from_notation("(V=ovs-dkpd)", KNOWN)
    assert from_notation("(V=ovs-dpdk)", KNOWN).switch == "ovs-dpdk"


@given(st.text())
def test_any_text_is_trials_or_a_usage_error(text: str) -> None:
    try:
        assert all(isinstance(t, Trial) for t in expand_notation(text))
    except UsageError as error:
        assert str(error).startswith("notation: ")
