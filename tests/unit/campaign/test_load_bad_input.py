from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.campaign import settings
from switchmark.campaign.load import load_text
from switchmark.errors import UsageError
from switchmark.language.source import CampaignError
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.parameter_table import BY_NAME
from tests.unit.campaign_fakes import KNOWN


def load(text: str, *overrides: str) -> CampaignDefinition:
    return load_text(text, "c.yaml", KNOWN, overrides)


def errors(text: str, *overrides: str) -> list[str]:
    with pytest.raises(CampaignError) as error:
        load(text, *overrides)
    lines = str(error.value).splitlines()
    assert len(lines) == len(error.value.problems)
    assert error.value.exit_code == 2
    return lines


BAD = [
    # one value
    ("packet_size: 40",
     "c.yaml:2: packet_size: 40 is below the smallest Ethernet frame (64 with FCS); "
     "use 64 or more"),
    ("packet_size: 9019",
     "c.yaml:2: packet_size: 9019 is above the largest frame the engine builds (9018 with FCS); "
     "use 9018 or less"),
    ("packet_size: 0100",
     "c.yaml:2: packet_size: '0100' has a leading zero, which some readers take for octal; "
     "write 100"),
    ("packet_size: on", "c.yaml:2: packet_size: 'on' is not a number; write a whole number"),
    ("packet_size: .nan", "c.yaml:2: packet_size: '.nan' is not a number; write a whole number"),
    ("packet_size:", "c.yaml:2: packet_size: has no value; write e.g. 64..512 step 64, 1024, 1500"),
    ("packet_size: ~",
     "c.yaml:2: packet_size: has no value; write e.g. 64..512 step 64, 1024, 1500"),
    ('packet_size: ""', "c.yaml:2: packet_size: is empty; write a value"),
    ("packet_size: []",
     "c.yaml:2: packet_size: is an empty list; write e.g. 64..512 step 64, 1024, 1500"),
    ("packet_size: [[64]]",
     "c.yaml:2: packet_size: a list does not belong here; write e.g. 64..512 step 64, 1024, 1500"),
    ("packet_size: {a: 1}",
     "c.yaml:2: packet_size: a mapping does not belong here; write e.g. "
     "64..512 step 64, 1024, 1500"),
    ("packet_size: 64..1500", "c.yaml:2: packet_size: range '64..1500' has no step; write e.g. "
                              "64..512 step 64"),
    ("packet_size:\n- 64\n- 63",
     "c.yaml:4: packet_size: 63 is below the smallest Ethernet frame (64 with FCS); "
     "use 64 or more"),
    ("rate: 0", "c.yaml:2: rate: 0 is not a rate; use 1 or more"),
    ("duration: 1s\nrate: 10",
     "c.yaml:3: rate: 10 in bursts of 32 is a burst every 3.2s, and the measured "
     "720ms of a trial must have 3 bursts; use burst: 2 or less, "
     "a rate of 134 or more, or a longer duration"),
    ("rate: [1, 5M]\nburst: 1\nduration: 3s",
     "c.yaml:2: rate: 1 in bursts of 1 is a burst every 1s, and the measured "
     "2.16s of a trial must have 3 bursts; use a rate of 2 or more, or a longer duration"),
    ("duration: 300ms\ntrim: {warm_up: 1s, cool_down: 1s}\nrate: 10",
     "c.yaml:2: duration: 300ms leaves fewer than 3 samples of 12ms after trimming 2s; use 2.036s "
     "or more, or trim less"),
    ("method: ndr-pdr\nrate: [3, 100k]",
     "c.yaml:3: rate: 3 in bursts of 32 is a burst every 10.667s, and the measured "
     "10s of a trial must have 3 bursts; use burst: 10 or less, "
     "a rate of 10 or more, or a longer duration"),
    ("ip_version: 6\npacket_size: [64, 128]",
     "c.yaml:3: packet_size: 64 is below 84, the smallest IPv6 frame that holds the engine's "
     "stamp; use 84 or more"),
    ("rate: -1M", "c.yaml:2: rate: -1M is not a rate; use 1 or more"),
    ("rate: 1m", "c.yaml:2: rate: '1m' has the unknown suffix 'm'; write a whole number, or one "
                 "with a suffix: 10k, 1.5M, 1G"),
    ("rate: maximum", "c.yaml:2: rate: 'maximum' is not a number; write a whole number, or one "
                      "with a suffix: 10k, 1.5M, 1G"),
    ("rate: 1..max step 1", "c.yaml:2: rate: range '1..max step 1' needs numbers at both ends"),
    ("rate: 1e6", "c.yaml:2: rate: '1e6' is not a number; write a whole number, or one with a "
                  "suffix: 10k, 1.5M, 1G"),
    ("rate: 1..10G step 1", "c.yaml:2: rate: range '1..10G step 1' gives 10,000,000,000 values, "
                            "above 100,000; use a larger step"),
    ("burst: 5000", "c.yaml:2: burst: 5000 is above the largest burst; use 4096 or less"),
    ("pairs: 0vs0", "c.yaml:2: pairs: 0 is not a number of pairs; use 1 or more"),
    ("pairs: 1vs2", "c.yaml:2: pairs: '1vs2' is uneven; pairs have as many ends left as right, "
                    "e.g. 2vs2"),
    ("dimension: speed", "c.yaml:2: dimension: unknown dimension 'speed'; "
                         "known: throughput, latency"),
    ("location: away", "c.yaml:2: location: unknown location 'away'; known: local, remote"),
    ("environment: lcx", "c.yaml:2: environment: unknown environment 'lcx'; did you mean lxc?"),
    ("scenario: pair", "c.yaml:2: scenario: unknown scenario 'pair'; did you mean pairs?"),
    ("io: dpkd", "c.yaml:2: io: unknown io 'dpkd'; did you mean dpdk?"),
    ("idle: yeild", "c.yaml:2: idle: unknown idle strategy 'yeild'; did you mean yield?"),
    ("connect_mode: bridge", "c.yaml:2: connect_mode: unknown connect mode 'bridge'; "
                             "known: auto, cross-connect, learning, static-mac, veb, route, "
                             "network"),
    ("port_kind: vhost",
     "c.yaml:2: port_kind: unknown port kind 'vhost'; did you mean vhost-user?"),
    ("touch: 1", "c.yaml:2: touch: '1' is neither true nor false; write true or false"),
    ("duration: 0s", "c.yaml:2: duration: 0s is below the least time here; use 1ms or more"),
    ("duration: five", "c.yaml:2: duration: 'five' is not a number; write a time such as "
                       "5s, 500ms or 2m"),
    ("duration: .inf", "c.yaml:2: duration: '.inf' is not a number; write a time such as "
                       "5s, 500ms or 2m"),
    ("switch_cores: 0", "c.yaml:2: switch_cores: 0 is not a number of cores; use 1 or more"),
    # the campaign
    ("name: a/b", "c.yaml:2: name: 'a/b' is not a name; use ASCII letters, digits, '.', '_', '+' "
                  "and '-'"),
    ("repetitions: 0", "c.yaml:2: repetitions: 0 is not a number of repetitions; use 1 or more"),
    ("repetitions: 1, 2", "c.yaml:2: repetitions: '1, 2' is not a number; write a whole number"),
    ("repetitions: [1]", "c.yaml:2: repetitions: a list does not belong here; write e.g. "
                         "repetitions: 3"),
    ("seed: -1", "c.yaml:2: seed: -1 is not a seed; use 0 or more"),
    ("mixed_connect_modes: maybe",
     "c.yaml:2: mixed_connect_modes: 'maybe' is neither true nor false; write true or false"),
    ("trim: 1s", "c.yaml:2: trim: holds other keys; write e.g. trim: {warm_up: 1s}"),
    ("trim:\n  warmup: 1s", "c.yaml:3: trim.warmup: unknown key; did you mean warm_up?"),
    ("verify: {min_arrived: 200%}",
     "c.yaml:2: verify.min_arrived: 200% is not a share; use 0% to 100%, or 0 to 1"),
    # keys and structure
    ("packetsize: 64", "c.yaml:2: packetsize: unknown key; did you mean packet_size?"),
    ("size: 64", "c.yaml:2: size: unknown key; did you mean packet_size?"),
    ("vswitch: x", "c.yaml:2: vswitch: unknown key; did you mean switch?"),
    ("switch: ovs-dpdk", "c.yaml:2: switch: is written twice (first in line 1); keep one"),
    ("[a]: 1", "c.yaml:2: a key must be a single word, not a list or a mapping"),
    ("rate: &r 1M",
     "c.yaml:2: rate: anchors and aliases (& and *) are not used here; write it out"),
    ("rate: !!python/name:os.system 1",
     "c.yaml:2: rate: YAML tag 'tag:yaml.org,2002:python/name:os.system' is not used here; "
     "write the value alone"),
    ("rate: !foo 1", "c.yaml:2: rate: YAML tag '!foo' is not used here; write the value alone"),
    ("latency: 5", "c.yaml:2: latency: must have keys; write e.g. latency: {rate: 1M}"),
    ("throughput: {dimension: latency}", "c.yaml:2: throughput.dimension: belongs outside; "
                                         "this section is for throughput already"),
    ("throughput: {repetitions: 2}", "c.yaml:2: throughput.repetitions: is a setting of the whole "
                                     "campaign; write it outside of sections"),
    ("dimension: throughput\nlatency: {rate: 1}",
     "c.yaml:3: latency: is never used; add latency to dimension, or leave it out"),
    ("sweeps:\n- dimension: throughput\n  latency: {rate: 1}",
     "c.yaml:4: sweeps.latency: is never used; add latency to dimension, or leave it out"),
    ("sweeps: 5", "c.yaml:2: sweeps: is a list of blocks; write e.g. - packet_size: 64"),
    ("sweeps: [5]", "c.yaml:2: sweeps: each item must have keys, e.g. - packet_size: 64"),
    ("sweeps:\n- rate: 0", "c.yaml:3: sweeps.rate: 0 is not a rate; use 1 or more"),
    ("sweeps:\n- reptitions: 2",
     "c.yaml:3: sweeps.reptitions: unknown key; did you mean repetitions?"),
    ("sweeps:\n- repetitions: 2", "c.yaml:3: sweeps.repetitions: belongs to the whole campaign; "
                                  "write it outside of sweeps"),
    # published
    ("published: 5", "c.yaml:2: published: is a list; write e.g. - {match: {io: udp}, value: 338k, "
                     "unit: pps, source: Ara et al. 2021}"),
    ("published: [{match: {io: udp}, value: 1, unit: pps}]",
     "c.yaml:2: published: source is missing; write e.g. - {match: {io: udp}, value: 338k, "
     "unit: pps, source: Ara et al. 2021}"),
    ("published: [{match: {io: udp}, value: 1, unit: kpps, source: x}]",
     "c.yaml:2: published.unit: unknown unit 'kpps'; did you mean pps?"),
    ("published: [{match: {io: [udp, raw]}, value: 1, unit: pps, source: x}]",
     "c.yaml:2: published.match.io: takes one value, not several"),
    ("published: [{match: {oi: udp}, value: 1, unit: pps, source: x}]",
     "c.yaml:2: published.match.oi: unknown key; did you mean io?"),
    # the whole
    ("packet_size: 64..9018 step 1\nrate: 1k..1M step 1k",
     "c.yaml: has 8,955,000 trials, above 1,000,000; use fewer values (packet_size has 8,955) "
     "or a larger step"),
    ("interval: 5s", "c.yaml: duration: 10s leaves fewer than 3 samples of 5s after trimming 1.4s; "
                     "use 16.4s or more, or trim less"),
    ("trim: {warm_up: 1s}\nduration: 1s",
     "c.yaml:3: duration: 1s leaves fewer than 3 samples of 40ms after trimming 1.08s; "
     "use 1.2s or more, or trim less"),
    ("time_budget: 1m\nrepetitions: 7",
     "c.yaml: time_budget: the trials measure 70 s, above the budget of 60 s; shorten duration, "
     "or drop values or repetitions"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD, ids=[text[:40] for text, _ in BAD])
def test_bad_input_gives_one_clear_line(text: str, message: str) -> None:
    assert errors(f"switch: linux-bridge\n{text}\n") == [message]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "c.yaml: the file is empty; write at least a switch, e.g. switch: linux-bridge"),
        ("# nothing\n", "c.yaml: the file is empty; write at least a switch, "
                        "e.g. switch: linux-bridge"),
        ("- a\n", "c.yaml: a campaign is a list of 'key: value' lines, e.g. switch: linux-bridge"),
        ("just text", "c.yaml: a campaign is a list of 'key: value' lines, "
                      "e.g. switch: linux-bridge"),
        ("name: x", "c.yaml: switch: is missing; write e.g. "
                    "switch: [linux-bridge, ovs-dpdk, basicfwd]"),
        ("a: [1", "c.yaml:1: not valid YAML: expected ',' or ']', but got '<stream end>'; "
                  "close the bracket, and put a comma between its values"),
        ("a: 1\nb 2\nc: 3", "c.yaml:2: not valid YAML: could not find expected ':'; "
                            "write 'key: value', with a space after the colon"),
        ("a: 1\nb: 'x\n\nc: 3", "c.yaml:2: not valid YAML: found unexpected end of stream; "
                                "close the quote"),
        ("a: 1\n\tb: 2", "c.yaml:2: not valid YAML: found character '\\t' that cannot start any "
                         "token; indent with spaces, not tabs"),
        ("a: b: c", "c.yaml:1: not valid YAML: mapping values are not allowed here; check the "
                    "indentation and, in the line above, the space after the colon; put values "
                    "that contain ': ' in quotes"),
        ("a: 1\n---\nb: 2", "c.yaml:2: not valid YAML: but found another document; keep one "
                            "campaign a file (one '---' at most)"),
        ("a: *b", "c.yaml:1: not valid YAML: found undefined alias 'b'"),
        ("[" * 5000, "c.yaml: is nested too deeply; a campaign has three levels"),
        ("a: \x00", "c.yaml: not valid YAML: unacceptable character #x0000: special characters "
                    "are not allowed; save it as plain text"),
        ("sweeps:\n- packet_size: 64\n- packet_size: 65\n",
         "c.yaml:2: switch: is missing; write e.g. switch: [linux-bridge, ovs-dpdk, basicfwd]\n"
         "c.yaml:3: switch: is missing; write e.g. switch: [linux-bridge, ovs-dpdk, basicfwd]"),
    ],
)  # fmt: skip
def test_bad_files(text: str, message: str) -> None:
    assert "\n".join(errors(text)) == message


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("foo", "--set: 'foo' is not key=value; write e.g. duration=2s"),
        ("=5", "--set: '=5' is not key=value; write e.g. duration=2s"),
        ("packetsize=5", "--set packetsize: unknown key; did you mean packet_size?"),
        ("packet_size=40", "--set packet_size: 40 is below the smallest Ethernet frame "
                           "(64 with FCS); use 64 or more"),
        ("packet_size=", "--set packet_size: has no value; write e.g. "
                         "64..512 step 64, 1024, 1500"),
        ("throughput.rate=0", "--set throughput.rate: 0 is not a rate; use 1 or more"),
        ("latency.dimension=latency", "--set latency.dimension: unknown key; "
                                      "did you mean dimension?"),
        ("latency.rate=1k", "--set latency.rate: is never used; add latency to dimension, "
                            "or leave it out"),
        ("trim=1", "--set trim: cannot be set as a whole; set a key in it, e.g. trim.warm_up"),
        ("latency=1", "--set latency: cannot be set as a whole; set a key in it, "
                      "e.g. latency.rate"),
        ("sweeps=1", "--set sweeps: cannot be set as a whole; set a key in it, e.g. packet_size"),
        ("repetitions=x", "--set repetitions: 'x' is not a number; write a whole number"),
        ("duration=2ms", "--set duration: 2ms leaves fewer than 3 samples of 1ms after trimming "
                         "0.56ms; use 3.56ms or more, or trim less"),
    ],
)  # fmt: skip
def test_bad_overrides(override: str, message: str) -> None:
    assert errors("switch: linux-bridge", override) == [message]


def test_all_errors_come_at_once_in_the_order_of_the_file() -> None:
    text = "rate: 0\nswitch: [a, ovs]\nburst: 0, x\nfoo: 1\n"
    assert errors(text, "pairs=0") == [
        "c.yaml:1: rate: 0 is not a rate; use 1 or more",
        "c.yaml:2: switch: unknown switch 'a'; known: direct, linux-bridge, ovs-netdev, ovs-dpdk, "
        "basicfwd, two-port, no-wires",
        "c.yaml:2: switch: unknown switch 'ovs'; did you mean ovs-netdev?",
        "c.yaml:3: burst: 0 is not a burst; use 1 or more",
        "c.yaml:3: burst: 'x' is not a number; write a whole number, or one with "
        "a suffix: 10k, 1.5M, 1G",
        "c.yaml:4: foo: unknown key; docs/campaigns.md lists the keys",
        "--set pairs: 0 is not a number of pairs; use 1 or more",
    ]  # fmt: skip


def test_aliases_cannot_explode() -> None:
    laughs = "switch: linux-bridge\nio: &a [udp, raw]\n"
    laughs += "".join(f"x{n}: &b{n} [*a, *a]\n" for n in range(20))
    assert len(errors(laughs)) == 1  # twenty unknown keys: not a campaign
    known = "switch: linux-bridge\nio: &a [udp, raw]\nrate: [*a, *a, *a]\n"
    assert sum("anchors and aliases" in line for line in errors(known)) == 4


def test_a_file_full_of_errors_is_cut_short() -> None:
    with pytest.raises(CampaignError) as error:
        load("switch: linux-bridge\nthroughput:\n" + "".join(f" zzz{n}: 1\n" for n in range(75)))
    lines = str(error.value).splitlines()
    assert len(error.value.problems) == 75
    assert len(lines) == 51
    assert lines[-1] == "c.yaml: and 25 more"


def test_file_of_another_program_gives_one_line() -> None:
    """40 unknown keys gave 40 lines, each with all keys of the language."""
    text = "switch: linux-bridge\n" + "".join(f"openstack_option_{n}: 1\n" for n in range(40))
    assert errors(text) == [
        "c.yaml: is not a campaign: 40 of its 41 keys are unknown (openstack_option_0, "
        "openstack_option_1, openstack_option_2, ...); a campaign has keys such as switch and "
        "packet_size (docs/campaigns.md)"
    ]


@pytest.mark.parametrize(
    ("line", "first", "second"),
    [("rate: 500,5M", "500.5M", "500, 5M"), ("packet_size: 64,1500", "64.1500", "64, 1500"),
     ("duration: 0,5s", "0.5s", "0, 5s")],
)  # fmt: skip
def test_comma_between_digits_is_refused(line: str, first: str, second: str) -> None:
    """`1,5M` was a sweep of 1 pps and 5 Mpps, and a reader with a decimal comma meant 1.5M."""
    key, _, text = line.partition(": ")
    says = (
        f"{key}: '{text}' has a comma between two digits; write {first} for one number, or "
        f"{second} with a space for two values"
    )
    assert errors(f"switch: linux-bridge\n{line}") == [f"c.yaml:2: {says}"]
    assert errors("switch: linux-bridge", f"{key}={text}") == [f"--set {says}"]
    spaced = f"switch: linux-bridge\n{key}: {second.replace('0, 5s', '1s, 5s')}"
    assert load(spaced).count == 2
    assert load(f"switch: linux-bridge\n{key}: [{text.replace('0,5s', '1s,5s')}]").count == 2


@given(st.text(max_size=200))
def test_any_text_is_a_campaign_or_a_usage_error(text: str) -> None:
    try:
        assert load(text).count >= 1
    except UsageError as error:
        assert all(line.startswith("c.yaml") for line in str(error).splitlines())


WORDS = st.sampled_from(
    [*BY_NAME, *settings.BY_NAME, *settings.GROUPS, *settings.STRUCTURE, "match", "x"]
)
SCALARS = st.sampled_from(
    ["64", "1M", "max", "linux-bridge", "on", "5s", "64..128 step 64", "~", "", "-1", "lxc", "{}"]
)
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: "[" + ", ".join(items) + "]")
        | st.dictionaries(WORDS, inner, max_size=3).map(
            lambda d: "{" + ", ".join(f"{k}: {v}" for k, v in d.items()) + "}"
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(WORDS, TREES, max_size=6))
def test_any_structure_is_a_campaign_or_a_usage_error(tree: dict[str, str]) -> None:
    text = "\n".join(f"{key}: {value}" for key, value in tree.items())
    try:
        assert load(text).count >= 1
    except UsageError as error:
        assert all(line.startswith("c.yaml") for line in str(error).splitlines())
