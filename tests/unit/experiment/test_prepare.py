"""`plan` lists the trials that `run` starts, in their order, and refuses what `run` refuses."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from switchmark.campaign.find import builtin_names, find_campaign
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_text
from switchmark.cli import plan as plan_command
from switchmark.cli.main import run as switchmark
from switchmark.engine.binary import find_engine
from switchmark.engine.check import command_line_errors
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.errors import SwitchmarkError, UnavailableError
from switchmark.experiment import execute, prepare, steps
from switchmark.experiment.campaign import Observers
from switchmark.experiment.steps import Step
from switchmark.host import facts, hugepages
from switchmark.host.facts import Cpu
from switchmark.host.hugepages import HugepagePool
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.capabilities import Availability
from switchmark.model.ports import ConnectMode
from switchmark.switch.support.base import Switch
from switchmark.trial.command_lines import refused_command_lines
from switchmark.trial.memory_needs import too_little_memory
from switchmark.trial.plan import TrialPlan

THERE = installed()
CPUS = [Cpu(number, (0, number), 0) for number in range(8)]


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a campaign needs is here, but for the switches that `absent` takes away."""
    monkeypatch.setattr(facts, "read_cpus", lambda: CPUS)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(prepare, "find_engine", lambda: Path("/engine"))
    monkeypatch.setattr(prepare, "find_engine", lambda: Path("/engine"))
    monkeypatch.setattr(prepare, "refused_command_lines", refused_flows)
    monkeypatch.setattr(prepare, "too_little_memory", lambda *_: [])
    monkeypatch.setattr(prepare, "choose_pages", lambda steps: (steps, None))
    monkeypatch.setattr(steps, "neighbour_availability", lambda _: Availability(True))
    monkeypatch.setattr(steps, "contained_problem", lambda _: None)
    monkeypatch.setattr(steps, "_nic_problems", lambda _: [])
    monkeypatch.setattr(steps, "_instrument_availabilities", lambda _: {})
    absent(monkeypatch, ())
    for environment in ENVIRONMENTS.values():
        monkeypatch.setattr(environment, "availability", lambda _self: Availability(True))


def refused_flows(_engine: Path, plans: Sequence[TrialPlan]) -> list[str]:
    """In the place of an engine, which need not be there."""
    flows = dict.fromkeys(plan.trial.flows for plan in plans if plan.trial.flows.startswith("121"))
    return [f"flows {one}" for one in flows]


def absent(monkeypatch: pytest.MonkeyPatch, names: Sequence[str]) -> None:
    """This machine lacks the switches of these names."""

    def availability(switch: Switch, _mode: ConnectMode) -> Availability:
        return Availability(switch.name not in names, "1.0", f"no {switch.name}", "install it")

    for module in (prepare, steps):
        monkeypatch.setattr(module, "availability_for", availability)


def started(
    campaign: CampaignDefinition, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> tuple[list[str], str]:
    """The trials that a run starts, baselines among them, or the error with which it ends."""
    begun: list[str] = []

    parts: list[list[Step]] = []  # a campaign that proves has its baselines in the first

    def run_campaign(
        _session: object, _run: object, _name: str, todo: list[Step], *_: object
    ) -> bool:
        parts.append(todo)
        begun.extend(step.plan.trial.id for step in todo)
        return campaign.proves and len(parts) == 1

    with monkeypatch.context() as faked:
        for name, value in (
            ("open_session", nullcontext), ("_clean_up", lambda _: None),
            ("gather", lambda: CPUS[0]), ("_tune", lambda *_: {}), ("run_campaign", run_campaign),
            ("_calibrations", lambda *_: None), ("tool_versions", dict),
        ):  # fmt: skip
            faked.setattr(execute, name, value)
        request = execute.Request(
            campaign_text="", observer=Observers([]), say=lambda _: None, results=folder,
        )  # fmt: skip
        try:
            execute.execute(campaign, THERE, request)
        except SwitchmarkError as error:
            return [], str(error)
    return begun, ""


def compare(campaign: CampaignDefinition, monkeypatch: pytest.MonkeyPatch, folder: Path) -> int:
    """Assert that plan and run agree; return how many trials there are."""
    begun, error = started(campaign, monkeypatch, folder)
    try:
        plan = plan_command.Plan(campaign, THERE)
        listed = [one.id for one in (*plan.baselines, *plan.trials)]
        refused = plan.prepared.refused
    except SwitchmarkError as problem:
        assert error and error in str(problem)
        return 0
    assert error == "\n".join(refused)
    expected = [] if refused else listed
    if campaign.proves:  # later blocks depend on the figures
        count = 0 if refused else len(plan.baselines)
        assert begun[:count] == expected[:count] and set(begun) <= set(expected)
        assert bool(begun) == bool(expected)
    else:
        assert begun == expected
    return len(begun)


def local(campaign: CampaignDefinition) -> bool:
    """Return True if the campaign needs no testbed."""
    return all("remote" not in sweep.location for sweep in campaign.sweeps)


@pytest.mark.parametrize("without", [(), ("vpp", "snabb", "ovs-dpdk")], ids=["all", "some"])
def test_built_in_campaigns_run_as_planned(
    without: Sequence[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    absent(monkeypatch, without)
    trials = 0
    for name in builtin_names():
        campaign = find_campaign(name, THERE.known, ["repetitions=1"])
        if local(campaign):
            trials += compare(campaign, monkeypatch, tmp_path / name)
    assert trials > 100


DRAWN: dict[str, Sequence[str]] = {
    "connect_mode": ("cross-connect", "learning", "auto"),
    "packet_size": ("64", "[64, 1518]", "1522", "9000"),
    "rate": ("max", "1", "100k", "[10k, 1M]"),
    "flows": ("1", "100", "121:src-ip=12+src-port=10", "70000:dst-port"),
    "environment": ("netns", "lxc", "[netns, docker]"),
    "scenario": ("p2p", "p2v", "loopback-2"),
    "io": ("auto", "raw", "af-xdp", "udp"),
    "pairs": ("1", "2"),
    "switch_cores": ("1", "2", "12"),
    "dimension": ("throughput", "latency"),
    "method": ("ndr-pdr",),
    "port_kind": ("veth", "vhost-user"),
    "repetitions": ("3",),
    "prove": ("10%",),
}


@pytest.mark.parametrize("seed", range(60))
def test_random_campaigns_run_as_planned(
    seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    draw = random.Random(seed)
    names = [name for name in THERE.switches if name != "sriov"]
    keys = {name: draw.choice(values) for name, values in DRAWN.items() if draw.random() < 0.3}
    keys["switch"] = f"[{', '.join(draw.sample(names, draw.randint(1, 6)))}]"
    for name in ("skip_unavailable", "mixed_connect_modes"):
        keys[name] = draw.choice(("true", "false"))
    absent(monkeypatch, draw.sample(names, 5))
    text = "".join(f"{name}: {value}\n" for name, value in keys.items())
    try:
        campaign = load_text(text, "drawn.yaml", THERE.known)
    except SwitchmarkError:
        return  # both refuse the file when they read it
    compare(campaign, monkeypatch, tmp_path)


def test_absent_switches_do_not_affect_connect_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """macvlan only has `veb`, so there is no common mode with it."""
    absent(monkeypatch, ["macvlan", "vpp", "snabb"])
    text = "switch: [linux-bridge, macvlan]\nskip_unavailable: true\n"
    found = prepare.prepare(load_text(text, "a.yaml", THERE.known), THERE)
    assert [step.plan.trial.switch for step in found.steps] == ["direct", "linux-bridge"]
    assert found.left_out == ["macvlan: no macvlan; install it"] and found.refused == []
    # Two learning switches that are absent would outvote the one that is here.
    text = "switch: [basicfwd, vpp, snabb, testpmd]\nskip_unavailable: true\n"
    found = prepare.prepare(load_text(text, "b.yaml", THERE.known), THERE)
    assert {step.plan.mode for step in found.steps} == {ConnectMode.CROSS_CONNECT}


def test_campaign_of_absent_switches_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    absent(monkeypatch, ["vpp", "snabb"])
    text = "switch: [vpp, snabb]\nskip_unavailable: true\n"
    found = prepare.prepare(load_text(text, "a.yaml", THERE.known), THERE)
    assert found.refused[0] == "none of the switches can run here" and len(found.refused) == 3
    with pytest.raises(UnavailableError, match="none of the switches"):
        found.check()


def test_plan_has_no_trial_of_left_out_switch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    absent(monkeypatch, ["vpp"])
    file = tmp_path / "half.yaml"
    file.write_text("switch: [vpp, linux-bridge]\nskip_unavailable: true\npacket_size: [64, 128]\n")
    assert switchmark(["plan", str(file), "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert {one["trial"]["switch"] for one in plan["trials"]} == {"linux-bridge"}
    assert plan["count"] == 2 and plan["refused_by_run"] == ["left out: vpp: no vpp; install it"]


REFUSED = [
    ("flows: 121:src-ip=12+src-port=10", "121 flows cannot all differ"),
    ("flows: 70000:dst-port", "70000 flows cannot all differ"),
    ("flows: 65536:src-port", "65536 flows cannot all differ"),
    ("flows: 100:src-ip\nio: [raw, packet-mmap, io-uring]\ndimension: latency", ""),
    ("switch: [basicfwd, vpp]\nmixed_connect_modes: true\nrate: 1G", ""),
    ("scenario: loopback-2", ""),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_engine_refuses_command_lines_before_start(text: str, message: str) -> None:
    """The engine itself checks the command lines, so that its rules exist once."""
    try:
        engine = find_engine()
    except UnavailableError as error:
        pytest.skip(str(error))
    whole = text if "switch:" in text else f"switch: linux-bridge\n{text}"
    campaign = load_text(f"{whole}\n", "a.yaml", THERE.known)
    plans = [step.plan for step in steps.plan_steps(campaign, THERE)]
    found = refused_command_lines(engine, plans)
    if not message:
        assert found == []
    else:
        (line,) = found
        assert message in line and "V=" in line


def test_too_few_hugepages_are_refused_before_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The applications use two pages of 1 GiB, and no page is left for the switch."""
    text = "switch: [basicfwd, ovs-dpdk, testpmd, linux-bridge]\nmixed_connect_modes: true\n"
    campaign = load_text(text, "a.yaml", THERE.known)
    monkeypatch.setattr(prepare, "too_little_memory", too_little_memory)
    pool = [HugepagePool(1048576, 3, 3)]
    monkeypatch.setattr(hugepages, "pools", lambda: tuple(pool))
    assert prepare.prepare(campaign, THERE).refused == []
    pool[0] = HugepagePool(1048576, 2, 2)
    refused = prepare.prepare(campaign, THERE).refused
    assert len(refused) == 3 and all("in pages of 1024 MiB; echo 3 > " in one for one in refused)
    assert all(one.endswith("/nr_hugepages, or use page_size: 4KiB") for one in refused)
    # 22 ports for frames of 9000 bytes are more than the 2 GiB of this pool.
    pool[0] = HugepagePool(2048, 1024, 1024)
    text = "switch: ovs-dpdk\npairs: 11\npacket_size: 9000\n"
    (line,) = prepare.prepare(load_text(text, "b.yaml", THERE.known), THERE).refused
    assert "in 23 processes, 2048 MiB are reserved; echo " in line


def test_program_that_is_not_an_engine_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "old-engine"
    program.write_text("#!/bin/sh\necho unknown role >&2\nexit 2\n")
    program.chmod(0o755)
    with pytest.raises(UnavailableError, match=r"does not check 1 command lines \(unknown role\);"):
        command_line_errors(program, [["sender"]])
    assert command_line_errors(program, []) == []
