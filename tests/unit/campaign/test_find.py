from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from switchmark.campaign import reference, settings
from switchmark.campaign.expand import estimate, expand, leave_out_unable
from switchmark.campaign.find import builtin_names, builtin_text, find_campaign
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_text
from switchmark.errors import UsageError
from switchmark.language.source import CampaignError
from switchmark.method.registry import METHODS
from switchmark.model.campaign import FirstAvailable
from switchmark.model.choices import Dimension
from switchmark.model.io import Io
from switchmark.model.parameter_table import BY_NAME, KEYS
from switchmark.model.parameter_type import Parameter
from switchmark.statistics.boundaries import FIRST_ANALYSIS
from tests.unit.campaign_fakes import CROSS, ENVIRONMENTS, INSTALLED, KNOWN, SWITCHES

REPOSITORY = Path(__file__).parents[3]
PAGE = REPOSITORY / "docs" / "campaigns.md"

# Programs of examples are not on this machine, and its names are not those of the fakes.
WORKLOAD_KEYS = {
    "tcp-stream": ("streams",),
    "udp-stream": ("datagram_size",),
    "tcp-rr": ("connections", "request_size", "response_size"),
}
FUNCTION_KEYS = {
    "route": ("routes", "prefix_length"),
    "forward+acl": ("rules", "rule_hit", "masks"),
    "forward+vlan": ("vid",),
    "forward+policer": ("cir", "cbs"),
}
# Files of tables do not exist here, and the engine has no tunnels yet.
NOT_LOADED = ("routes_file", "rules_file", "tunnels", "vni", "direction")
ANYWHERE = replace(KNOWN, program_problem=None, switches=None, environments=None)


def blocks(language: str) -> list[str]:
    found = PAGE.read_text().split(f"```{language}\n")[1:]
    return [text.split("```")[0] for text in found]


@pytest.mark.parametrize("name", builtin_names())
def test_built_in_campaigns_plan_with_all_installed(name: str) -> None:
    installation = installed()
    campaign = find_campaign(name, installation.known)
    trials = expand(campaign, installation.switches, installation.environments)
    if not campaign.skip_unavailable and campaign.first_available == FirstAvailable():
        assert len(trials) == campaign.count
    else:
        assert 0 < len(trials) <= campaign.count


def test_installed_campaigns_have_names_and_descriptions() -> None:
    installation = installed()
    assert {"direct", "linux-bridge", "ovs-dpdk", "basicfwd"} <= set(installation.switches)
    assert {"netns", "lxc"} <= set(installation.environments)
    assert installation.scenarios["pairs"].startswith("N sender/receiver")
    assert installation.known.scenarios == tuple(installation.scenarios)
    assert all(can.port_kinds and can.connect_modes for can in installation.switches.values())


@pytest.mark.parametrize("name", [name for name in builtin_names() if "20" not in name])
def test_every_built_in_campaign_plans(name: str) -> None:
    campaign = find_campaign(name, replace(KNOWN, switches=None, environments=None))
    assert campaign.name == name
    assert campaign.description
    contenders = {switch for sweep in campaign.sweeps for switch in sweep.switch}
    if contenders & {"cni", "docker-network"}:
        return  # the fakes have no container networks
    if all(one.is_plain for sweep in campaign.sweeps for one in sweep.function):
        assert expand(campaign, SWITCHES, ENVIRONMENTS)  # the fakes have no functions
    assert builtin_text(name).startswith("# ")  # says what it is for


def test_quick_is_what_the_first_look_needs() -> None:
    campaign = find_campaign("quick", installed().known)
    trials = expand(campaign, SWITCHES, ENVIRONMENTS)
    assert Counter((t.switch, t.packet_size_bytes, t.dimension) for t in trials) == Counter(
        {
            (switch, size, dimension): campaign.repetitions
            for switch in ("linux-bridge", "basicfwd", "ovs-dpdk")
            for size in (64, 1500)
            for dimension in Dimension
        }
    )
    assert campaign.proves
    assert campaign.budget_s == 180
    assert {t.environment for t in trials} == {"lxc"}
    assert {t.connect_mode for t in trials} == {CROSS}, "the same work for all"
    baselines_s = 8 * 0.5  # the baselines: two kinds, two sizes, two dimensions, once
    blocks_s = FIRST_ANALYSIS * estimate(campaign, trials).measuring_s
    assert blocks_s + baselines_s <= 100.0, "there is time for the overhead of the trials"


@pytest.mark.parametrize("mode", ["cross-connect", "learning", "static-mac"])
def test_ranking_runs_every_switch_that_can_do_the_mode(mode: str) -> None:
    installation = installed()
    campaign = find_campaign("ranking", installation.known, [f"connect_mode={mode}"])
    trials = expand(campaign, installation.switches, installation.environments)
    able = {
        name
        for name, can in installation.switches.items()
        if mode in can.connect_modes and set(can.port_kinds) & set(installation.environments["lxc"])
    }
    assert {t.switch for t in trials} == able - {"direct", "reference"}
    assert {str(t.connect_mode) for t in trials} == {mode}
    assert {t.packet_size_bytes for t in trials} == {64, 1500}
    assert {t.dimension for t in trials} == set(Dimension)
    _, left_out = leave_out_unable(campaign, installation.switches, installation.environments)
    assert left_out
    assert all(f"connect_mode {mode}" in one or "only routes" in one for one in left_out)


def test_unsupported_mode_without_skip_is_refused() -> None:
    installation = installed()
    campaign = find_campaign("ranking", installation.known, ["skip_unavailable=false"])
    assert leave_out_unable(campaign, installation.switches) == (campaign, [])
    with pytest.raises(UsageError, match="vale cannot do connect_mode cross-connect"):
        expand(campaign, installation.switches, installation.environments)


def test_ranking_compares_all_switches_in_one_mode() -> None:
    installation = installed()
    trials = expand(
        find_campaign("ranking", installation.known),
        installation.switches,
        installation.environments,
    )
    papers = {"ovs-dpdk", "vpp", "snabb", "bess", "fastclick", "t4p4s"}
    assert papers | {"linux-bridge", "basicfwd", "xdp-redirect"} <= {t.switch for t in trials}
    assert {t.connect_mode for t in trials} == {CROSS}


def test_ara2021_table_2_carries_the_published_figures() -> None:
    campaign = find_campaign("ara2021-table2", KNOWN)
    trials = expand(campaign, SWITCHES, ENVIRONMENTS)
    figures = {
        trial.io: [p.value for p in campaign.published if p.matches(trial)] for trial in trials
    }
    assert figures == {
        Io.UDP: [338_000], Io.UDP_MMSG: [409_000], Io.RAW: [360_000], Io.RAW_MMSG: [440_000],
    }  # fmt: skip
    for trial in trials:
        assert (trial.dimension, trial.pairs, trial.switch) == ("throughput", 1, "linux-bridge")
        assert (trial.packet_size_bytes, trial.rate_pps, trial.burst) == (64, 1_000_000, 64)
        assert trial.environment == "lxc"
    assert {p.unit for p in campaign.published} == {"pps"}
    assert all("Ara et al. 2021, table 2" in p.source for p in campaign.published)


def test_finding_by_name_file_and_notation(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("switch: linux-bridge\n")
    assert find_campaign(str(path), KNOWN).name == "mine"
    assert find_campaign(str(path), KNOWN, ["name=other"]).name == "other"
    notation = find_campaign("(V=linux-bridge, P={64, 1500}, repetition=3)", KNOWN)
    assert notation.count == 2
    assert notation.name == "linux-bridge"
    with pytest.raises(CampaignError) as error:
        find_campaign("(V=linux-bridge, P=40)", KNOWN)
    assert str(error.value).startswith("notation: packet_size: 40 is below")
    with pytest.raises(CampaignError, match="cannot be read: No such file or directory"):
        find_campaign(str(tmp_path / "no.yaml"), KNOWN)


def test_a_name_nobody_knows() -> None:
    with pytest.raises(UsageError) as error:
        find_campaign("qick", KNOWN)
    assert str(error.value) == (
        "unknown campaign 'qick'; did you mean quick?; or name a file (.yaml) or a notation "
        'such as "(V=linux-bridge, P=64, R=1M)"'
    )


def test_a_built_in_name_wins_over_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quick").mkdir()
    assert find_campaign("quick", installed().known).name == "quick"


def test_the_page_holds_the_tables_of_the_code() -> None:
    page = PAGE.read_text()
    for table in (
        reference.contender_keys(), reference.trial_keys(), reference.campaign_keys(),
        reference.structure_keys(),
    ):  # fmt: skip
        assert table in page, "run python -m switchmark.campaign.reference and paste its tables"


def test_the_page_of_switches_holds_the_table_of_their_options() -> None:
    page = (PAGE.parent / "switch-options.md").read_text()
    assert reference.switch_options() in page, "run python -m switchmark.campaign.reference"


def test_the_page_s_tables_name_every_key() -> None:
    tables = reference.trial_keys() + reference.campaign_keys() + reference.structure_keys()
    for name in [*BY_NAME, *settings.BY_NAME, *settings.STRUCTURE]:
        assert f"| `{name}` |" in tables


@pytest.mark.parametrize("text", blocks("yaml"))
def test_every_example_of_the_page_plans(text: str) -> None:
    campaign = load_text(text, "my-campaign.yaml", ANYWHERE)
    assert expand(campaign, SWITCHES, ENVIRONMENTS)


def test_the_page_has_examples_and_counts_them_right() -> None:
    examples = blocks("yaml")
    assert len(examples) >= 5
    assert load_text(examples[1], "c.yaml", KNOWN).count == 40
    assert "This file has 2 × 10 × 2 = 40 trials." in PAGE.read_text()  # noqa: RUF001


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_example_in_the_table_of_keys_loads(key: Parameter) -> None:
    text = f"switch: linux-bridge\n{key.name}: {key.example}\n"
    if key.name == "switch":
        text = f"switch: {key.example}\n"
    if key.name in ("dimension", "schedule"):
        text += "rate: 1000\n"
    if key.name in ("ip_version", "vlan"):
        text += "packet_size: 128\n"  # the usual 64 bytes do not hold these headers
    if key.name == "probe_rate":
        text += "dimension: latency\n"
    if key.name in ("offload", "congestion_control"):
        text += "workload: tcp-rr\n"
    for name, keys in WORKLOAD_KEYS.items():
        text += f"workload: {name}\n" if key.name in keys else ""
    for function, keys in FUNCTION_KEYS.items():
        text += f"function: {function}\n" if key.name in keys else ""
    for method in METHODS.values():
        text += f"method: {method.name}\n" if key.name in method.reads else ""
    if key.name not in NOT_LOADED:
        assert load_text(text, "c.yaml", ANYWHERE).count >= 1
    values = key.parse(key.example, ANYWHERE)
    assert [key.value(key.text(value), ANYWHERE) for value in values] == values


@pytest.mark.parametrize("setting", settings.SETTINGS, ids=lambda setting: setting.name)
def test_every_example_in_the_table_of_settings_loads(setting: settings.Setting) -> None:
    campaign = load_text(
        "switch: linux-bridge", "c.yaml", KNOWN, [f"{setting.name}={setting.example}"]
    )
    value: object = campaign
    for part in setting.field.split("."):
        value = getattr(value, part)
    assert value == setting.read(setting.example)


def test_the_error_lines_of_the_page_are_the_real_ones() -> None:
    text = "\n".join(["", "switch: linux-brige", "", "", "", "", "packet_size: 40"])
    with pytest.raises(CampaignError) as error:
        load_text(text, "my-campaign.yaml", KNOWN)
    page = PAGE.read_text()
    for line in str(error.value).splitlines():
        assert f"switchmark: {line}\n" in page


def test_the_reference_prints_the_tables() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "switchmark.campaign.reference"],
        capture_output=True, text=True, check=True, cwd=REPOSITORY,
    )  # fmt: skip
    assert reference.trial_keys() in run.stdout
    assert INSTALLED.known == KNOWN
