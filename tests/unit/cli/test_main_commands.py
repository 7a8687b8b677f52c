from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from switchmark.campaign.installed import installed
from switchmark.cli import list_, output, plan
from switchmark.cli.main import run
from switchmark.experiment.steps import plan_steps
from switchmark.formatting import first_of, format_duration
from switchmark.host import facts
from switchmark.host.facts import Cpu
from switchmark.model.capabilities import available, unavailable
from switchmark.switch.registry import SWITCHES
from tests.unit.campaign_fakes import INSTALLED


@pytest.fixture(autouse=True)
def registries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_, "installed", lambda: INSTALLED)
    monkeypatch.setattr(list_, "switch_availability", lambda _name: available("Linux 9.9"))
    monkeypatch.setattr(plan, "installed", lambda: INSTALLED)


def test_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list"]) == 0
    shown = capsys.readouterr().out
    for word in (*INSTALLED.switches, *INSTALLED.environments, "quick", "ara2021-table2", "pairs"):
        assert word in shown
    for title in set(list_.ListedKind) - set(list_.ON_REQUEST):
        assert f"{title}\n" in shown
    assert "\x1b" not in shown
    assert all(line == line.rstrip() for line in shown.splitlines())


def test_list_hosts_needs_a_testbed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SWITCHMARK_TESTBED", raising=False)
    assert run(["list", "hosts"]) == 2
    assert "give it as --testbed FILE or in SWITCHMARK_TESTBED" in capsys.readouterr().err


def test_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "--json"]) == 0
    everything = json.loads(capsys.readouterr().out)
    assert set(everything) == {str(what) for what in list_.ListedKind} - {"hosts", "networks"}
    assert run(["list", "switches", "--json"]) == 0
    switches = json.loads(capsys.readouterr().out)["switches"]
    assert [s["name"] for s in switches] == list(INSTALLED.switches)
    assert switches[1] == {
        "name": "linux-bridge",
        "here": "Linux 9.9",
        "available": True,
        "version": "Linux 9.9",
        "reason": None,
        "kind": "self-contained, structured, RTC",
        "taxonomy": {
            "architecture": "self-contained",
            "paradigm": "structured",
            "processing": "RTC",
            "reprogrammable": "low",
            "language": "C",
            "purpose": "L2 bridge of the kernel",
        },
        "cores": "1",
        "ports": ["veth"],
        "connect_modes": ["learning", "static-mac", "cross-connect"],
        "polling": False,
        "multi_core": False,
        "max_ports": None,
        "longest_frame_bytes": None,
        "needs_hugepages": False,
        "page_sizes": [],
        "options": [],
        "description": "kernel",
    }
    (quick,) = [one for one in everything["campaigns"] if one["name"] == "quick"]
    assert quick["trials"] == 12


def test_list_says_why_a_switch_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = unavailable("program `x` not found", remedy="apt install x")
    monkeypatch.setattr(list_, "switch_availability", lambda _name: absent)
    assert run(["list", "switches"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("no: program `x` not found") == len(INSTALLED.switches)


def test_every_contender_has_its_place_in_the_taxonomy() -> None:
    no_contenders = {"direct", "reference", "cni", "docker-network", "existing"}
    placed = {name for name, make in SWITCHES.items() if make().capabilities.taxonomy}
    assert placed == set(SWITCHES) - no_contenders


def test_list_of_nothing_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "cheese"]) == 2
    assert "cheese" in capsys.readouterr().err


@pytest.fixture
def first_look(tmp_path: Path) -> str:
    """A campaign like `quick`, in every place the same."""
    path = tmp_path / "first-look.yaml"
    path.write_text(
        "description: three switches\nswitch: [linux-bridge, basicfwd, ovs-dpdk]\n"
        "environment: lxc\npacket_size: 64, 1500\nconnect_mode: cross-connect\nprove: 10%\n"
        "budget: 3m\nduration: 500ms\nthroughput: {rate: max}\nlatency: {rate: 1000}\n"
    )
    return str(path)


def test_plan_shows_trials_count_and_time(
    first_look: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", first_look]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "first-look: three switches"
    assert shown[1:3] == [
        "12 trials in each block, after 8 baselines without a switch; order by seed 1",
        "blocks are measured until all comparisons (prove: 10 %) are decided, 3 min at most",
    ]
    # No page size is chosen where the place refuses the campaign.
    assert shown[3].startswith("page_size auto selects ") or shown[3] == ""
    assert sum("(D=" in line for line in shown) == 12
    at = shown.index("placement on this machine")
    end = shown.index("", at)
    assert [line.split()[1] for line in shown[at + 2 : end]] == [
        "basicfwd", "linux-bridge", "ovs-dpdk",
    ]  # fmt: skip
    assert all("bench on core" in line for line in shown[at + 2 : end])
    cores = shown[
        next(n for n, line in enumerate(shown) if line.startswith("map of the cores")) + 2 :
    ]
    assert any(line.split()[1] == "basicfwd" and "switch" in line for line in cores)


def test_plan_numbers_maps_of_the_same_switch(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two sockets of two cores of two threads, with a map for each SMT and NUMA setting."""
    cpus = tuple(Cpu(n, core=(n // 4, n // 2 % 2), node=n // 4) for n in range(8))
    monkeypatch.setattr(facts, "read_cpus", lambda: cpus)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))
    file = tmp_path / "asked.yaml"
    file.write_text("switch: basicfwd\nsweeps: [{smt: siblings}, {numa: [same, other]}]\n")
    assert run(["plan", str(file)]) == 0
    shown = capsys.readouterr().out.splitlines()
    at = next(n for n, line in enumerate(shown) if line.startswith("map of the cores"))
    maps: dict[str, dict[int, str]] = {}
    for line in shown[at + 2 :]:
        number, _, _, _, core, *who = line.split()
        assert int(core) not in maps.setdefault(number, {}), "one map, two answers"
        maps[number][int(core)] = " ".join(who)
    assert list(maps) == ["1", "2", "3"]
    assert sorted(maps.values(), key=str) == [
        {0: "bench", 2: "switch", 3: "tx0 rx0"},  # smt: siblings
        {0: "bench", 2: "switch", 4: "tx0", 6: "rx0"},  # numa: other
        {0: "rx0 bench", 1: "tx0", 2: "switch"},  # numa: same
    ]


def test_plan_says_that_modes_are_mixed(
    first_look: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = ["--set", "connect_mode=auto", "--set", "mixed_connect_modes=true"]
    assert run(["plan", first_look, *mixed]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "connect modes are mixed on purpose: each switch uses its default mode" in shown


def test_plan_cuts_long_lists_unless_all_are_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    notation = "(V=linux-bridge, P=64..163 step 1)"
    assert run(["plan", notation]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert sum("(D=" in line for line in shown) == 40
    assert "... and 60 more trials; --all shows them" in shown
    assert run(["plan", notation, "--all"]) == 0
    assert capsys.readouterr().out.count("(D=") == 100


def test_plan_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "ara2021-table2", "--json", "--set", "repetitions=1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["count"] == 4
    assert len(document["baselines"]) == 4
    assert document["time"]["measuring_s"] == 480.0
    assert {p["port_kind"] for p in document["placements"]} == {"veth"}
    assert all(p["placement"]["bench_cores"] for p in document["placements"])
    assert document["campaign"]["published"][0]["value"] == 338_000
    assert {trial["trial"]["io"] for trial in document["trials"]} == {
        "udp", "udp-mmsg", "raw", "raw-mmsg",
    }  # fmt: skip
    assert all(len(trial["id"]) == 16 for trial in document["trials"])
    assert document["trials"][0]["notation"].startswith("(D=throughput, L=local, S=1vs1, ")


@pytest.mark.parametrize("expected", ["", "(V={direct, linux-bridge, ovs-dpdk}, S={1, 2})"])
def test_plan_shows_what_run_would_do(expected: str, first_look: str) -> None:
    expected = expected or first_look
    planned = plan.make_plan(expected, ["mixed_connect_modes=true"])
    steps = plan_steps(planned.campaign, planned.installed)
    assert [step.plan.trial for step in steps] == [*planned.baselines, *planned.trials]
    for step in steps[len(planned.baselines) :]:
        placed = planned.placed[plan.place_key(step.plan.trial)]
        assert (placed.placement, placed.port_kind) == (step.plan.placement, step.plan.port_kind)
        assert placed.mode == step.plan.mode


def test_plan_draws_the_topology(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "(V=ovs-dpdk, S=2vs2, environment=lxc)", "--diagram"]) == 0
    assert capsys.readouterr().out.endswith(
        "\n[lxc: sender 0] --vhost-user--> [ovs-dpdk, learning] --vhost-user--> [lxc: receiver 0]\n"
        "[lxc: sender 1] --vhost-user--> [ovs-dpdk, learning] --vhost-user--> [lxc: receiver 1]\n"
    )
    assert run(["plan", "(D=latency, V=ovs-dpdk, P={64, 1500}, io=udp)", "--diagram"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("[netns: client 0] <--veth--> [ovs-dpdk, learning] <--veth-->") == 1


def test_plan_reports_all_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("switch: linux-bridge\npacket_size: 40\nrate: 0\n")
    assert run(["plan", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        f"switchmark: {path}:2: packet_size: 40 is below the smallest Ethernet frame "
        "(64 with FCS); use 64 or more",
        f"switchmark: {path}:3: rate: 0 is not a rate; use 1 or more",
    ]


def test_plan_refuses_what_a_switch_cannot_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "(V=basicfwd, connect_mode=learning)"]) == 2
    assert capsys.readouterr().err == (
        "switchmark: basicfwd: basicfwd cannot do connect_mode learning (it can: cross-connect); "
        "choose one of these, or leave basicfwd out\n"
    )


@pytest.mark.parametrize(
    ("time_s", "text"),
    [(0, "0 s"), (0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (60, "1 min"), (200, "3 min 20 s"),
     (3599.6, "1 h"), (3600, "1 h"), (7500, "2 h 5 min"), (90_000, "25 h")],
)  # fmt: skip
def test_durations_as_people_say_them(time_s: float, text: str) -> None:
    assert format_duration(time_s) == text


def test_a_table_in_a_pipe_is_plain_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(["name", "pps"], [["a" * 300, 5], ["[b]", None]], right=["pps"], title="T")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "T"
    assert lines[1].split() == ["name", "pps"]
    assert lines[2].split() == ["a" * 300, "5"]
    assert lines[3] == "[b]"


def test_a_table_that_is_too_wide_for_a_screen_breaks_no_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    columns = ["name", "ports", "connect_modes", "options"]
    rows = [["vpp", "vhost-user, memif, veth", "cross-connect, learning, static-mac", None]]
    monkeypatch.setenv("COLUMNS", "80")
    output.print_table(columns, rows, title="switches")
    assert "───" in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "46")
    output.print_table(columns, rows, title="switches")
    assert capsys.readouterr().out == (
        "switches\n\nvpp\n"
        "   ports           vhost-user, memif, veth\n"
        "   connect_modes   cross-connect, learning,\n"
        "                   static-mac\n\n"
    )


def test_table_in_a_pipe_has_the_width_of_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    output.print_table(["name", "reason"], [["vpp", "many words " * 9]], title="many words " * 9)
    output.print_remark("many words " * 9)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40 and len(lines) > 9
    output.note("many words " * 9)
    assert len(capsys.readouterr().err.splitlines()) == 1, "a message stays on one line of a log"


def test_first_of_counts_the_texts_that_it_leaves_out() -> None:
    assert first_of(["a", "b"], 2) == "a, b"
    assert first_of(["a", "b", "c"], 2, "; ") == "a; b and 1 more"


def test_json_of_anything_we_hold(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json(
        {"caps": INSTALLED.switches["basicfwd"], "path": Path("x"), "set": {"b", "a"}}
    )
    document = json.loads(capsys.readouterr().out)
    assert document["caps"]["port_kinds"] == ["vhost-user"]
    assert (document["path"], document["set"]) == ("x", ["a", "b"])
    with pytest.raises(TypeError, match="object has no JSON form"):
        output.print_json(object())
    with pytest.raises(ValueError, match="not JSON compliant"):
        output.print_json(float("nan"))


def test_colour_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert not output.console().no_color
    monkeypatch.setenv("NO_COLOR", "1")
    assert output.console().no_color
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert output.console().no_color


def test_list_and_plan_count_the_same_trials(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a machine that has all switches; `list` leaves this machine out of account."""
    everything = tmp_path / "everything.yaml"
    everything.write_text("cores: 8\n")
    monkeypatch.setattr(list_, "installed", installed)
    monkeypatch.setattr(plan, "installed", installed)
    assert run(["list", "campaigns", "--json"]) == 0
    rows = {one["name"]: one["trials"] for one in json.loads(capsys.readouterr().out)["campaigns"]}
    assert run(["plan", "ranking", "--json", "--target", str(everything)]) == 0
    assert rows["ranking"] == json.loads(capsys.readouterr().out)["count"]
