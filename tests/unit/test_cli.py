from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from switchmark import __version__
from switchmark.cli import list_, output, plan
from switchmark.cli import main as cli
from switchmark.cli.main import COMMANDS, Command, run
from switchmark.errors import SwitchmarkError, UnavailableError, UsageError
from tests.unit.campaign_fakes import INSTALLED

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def registries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_, "installed", lambda: INSTALLED)
    monkeypatch.setattr(plan, "installed", lambda: INSTALLED)


class Failing:
    """A command module whose command does what a test wants."""

    EPILOG = "Examples:\n  switchmark odd\n"

    def __init__(self, deed: Any) -> None:
        def odd() -> int | None:
            """Do something odd."""
            return deed()  # type: ignore[no-any-return]

        self.odd = odd


def odd(monkeypatch: pytest.MonkeyPatch, deed: Any) -> int:
    monkeypatch.setitem(sys.modules, "switchmark.cli.odd", Failing(deed))
    monkeypatch.setitem(COMMANDS, "odd", Command("odd", "odd", "Odd."))
    return run(["odd"])


def raising(error: BaseException) -> Any:
    def deed() -> None:
        raise error

    return deed


def spawn(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "switchmark.cli.main", *args],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False, **options,
    )  # fmt: skip


def test_help_names_commands_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    without = capsys.readouterr().out
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert shown == without
    for name, entry in COMMANDS.items():
        assert f"  {name} " in shown
        assert entry.help in shown
    assert "\n  Examples:\n    switchmark doctor " in shown
    for code in (
        "0    done",
        "1    something",
        "2    bad input",
        "3    this machine",
        "130  inter",
    ):
        assert f"\n    {code}" in shown
    assert "--install-completion" in shown
    assert all(len(line) <= 100 for line in shown.splitlines())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = COMMANDS[name]
    module = import_module(f"switchmark.cli.{entry.module}")
    assert callable(getattr(module, entry.function))
    assert f"switchmark {name}" in module.EPILOG
    assert run([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: switchmark {name}" in shown
    assert "\n  Examples:\n" in shown
    for line in module.EPILOG.strip().splitlines():
        assert line in shown
        assert len(line) <= 98


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"switchmark {__version__}\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["lis"], "No such command 'lis'. Did you mean 'list'? (see switchmark --help)"),
        (["--foo"], "No such option: --foo (see switchmark --help)"),
        (["list", "--foo"], "No such option: --foo (see switchmark list --help)"),
        (["plan"], "Missing argument 'campaign'. (see switchmark plan --help)"),
        (["plan", "quick", "--set"], "Option '--set' requires an argument. "
                                     "(see switchmark plan --help)"),
    ],
)  # fmt: skip
def test_bad_arguments_are_one_line_and_exit_2(
    args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(args) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"switchmark: {message}\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [(SwitchmarkError("x"), 1), (UsageError("x"), 2), (UnavailableError("x"), 3)],
)
def test_our_errors_are_one_line_with_their_code(
    error: SwitchmarkError,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert odd(monkeypatch, raising(error)) == code
    assert capsys.readouterr().err == "switchmark: x\n"


def test_every_line_of_an_error_says_who_speaks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert odd(monkeypatch, raising(UsageError("a: 1\nb: 2"))) == 2
    assert capsys.readouterr().err == "switchmark: a: 1\nswitchmark: b: 2\n"


def test_interruption_exits_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert odd(monkeypatch, raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "switchmark: interrupted\n"


def test_a_command_may_return_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    assert odd(monkeypatch, lambda: 3) == 3
    assert odd(monkeypatch, lambda: None) == 0


def test_our_own_faults_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        odd(monkeypatch, lambda: 1 // 0)


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n"
        "from switchmark.cli import main, plan\n"
        "from tests.unit.campaign_fakes import INSTALLED\n"
        "plan.installed = lambda: INSTALLED\n"
        "sys.argv = ['switchmark', 'plan', '(V=linux-bridge, P=64..9000 step 1)', '--all']\n"
        "main.main()\n"
    )
    done = subprocess.run(
        ["bash", "-c", '"$1" -c "$2" | head -n 1', "bash", sys.executable, script],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("notation")
    assert done.stderr == ""


def test_help_is_fast_and_imports_no_command() -> None:
    script = (
        "import sys\nfrom switchmark.cli.main import run\ncode = run(['--help'])\n"
        "heavy = {'pydantic', 'rich', 'ruamel', 'duckdb', 'polars', 'numpy', 'rapidfuzz', "
        "'switchmark.cli.plan', 'switchmark.cli.list_'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\nsys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, check=False)
    assert done.returncode == 0

    def once() -> float:
        begun = time.perf_counter()
        assert spawn("--help").returncode == 0
        return time.perf_counter() - begun

    assert min(once() for _ in range(3)) < 0.3


def test_exit_codes_reach_the_shell() -> None:
    assert spawn("--version").returncode == 0
    done = spawn("nonsense")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_completion_offers_the_commands() -> None:
    env = os.environ | {
        "_SWITCHMARK_COMPLETE": "complete_bash",
        "COMP_WORDS": "switchmark ",
        "COMP_CWORD": "1",
    }
    assert set(spawn(env=env).stdout.split()) >= set(COMMANDS)
    env |= {"COMP_WORDS": "switchmark plan --", "COMP_CWORD": "2"}
    assert "--set" in spawn(env=env).stdout.split()


# list


def test_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list"]) == 0
    shown = capsys.readouterr().out
    for word in (*INSTALLED.switches, *INSTALLED.environments, "quick", "ara2021-table2", "pairs"):
        assert word in shown
    for title in list_.What:
        assert f"{title}\n" in shown
    assert "\x1b" not in shown
    assert all(line == line.rstrip() for line in shown.splitlines())


def test_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "--json"]) == 0
    everything = json.loads(capsys.readouterr().out)
    assert set(everything) == {str(what) for what in list_.What}
    assert run(["list", "switches", "--json"]) == 0
    switches = json.loads(capsys.readouterr().out)["switches"]
    assert [s["name"] for s in switches] == list(INSTALLED.switches)
    assert switches[1] == {
        "name": "linux-bridge",
        "ports": ["veth"],
        "connect_modes": ["learning", "static-mac"],
        "polling": False,
        "multi_core": False,
        "max_ports": None,
        "needs_hugepages": False,
        "description": "kernel",
    }
    assert everything["campaigns"][1]["trials"] == 24


def test_list_of_nothing_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "cheese"]) == 2
    assert "cheese" in capsys.readouterr().err


# plan


def test_plan_shows_trials_count_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "quick"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("quick: Linux bridge")
    assert shown[1] == (
        "24 trials in 2 blocks, order by seed 1; about 3 min 12 s: 2 min of measuring, the rest "
        "for setting up (the bare wire is measured on top)"
    )
    assert shown[2] == "connect modes are mixed on purpose: each switch runs in its own"
    assert sum("(D=" in line for line in shown) == 24
    assert shown[-1].split()[0] == "24"


def test_plan_cuts_long_lists_unless_all_are_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    what = "(V=linux-bridge, P=64..163 step 1)"
    assert run(["plan", what]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert sum("(D=" in line for line in shown) == 40
    assert shown[-1] == "... and 60 more (--all shows them)"
    assert run(["plan", what, "--all"]) == 0
    assert capsys.readouterr().out.count("(D=") == 100


def test_plan_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "ara2021-table2", "--json", "--set", "repetitions=1"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["count"] == 4
    assert made["time"]["measuring_s"] == 40.0
    assert made["campaign"]["published"][0]["value"] == 338_000
    assert {trial["trial"]["io"] for trial in made["trials"]} == {
        "udp", "udp-mmsg", "raw", "raw-mmsg",
    }  # fmt: skip
    assert all(len(trial["id"]) == 16 for trial in made["trials"])
    assert made["trials"][0]["notation"].startswith("(D=throughput, L=local, S=1vs1, ")


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
        "switchmark: notation: basicfwd cannot do connect_mode learning (it can: cross-connect); "
        "choose one of these, or leave basicfwd out\n"
    )


# output


@pytest.mark.parametrize(
    ("time_s", "text"),
    [(0, "0 s"), (0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (60, "1 min"), (200, "3 min 20 s"),
     (3599.6, "1 h"), (3600, "1 h"), (7500, "2 h 5 min"), (90_000, "25 h")],
)  # fmt: skip
def test_durations_as_people_say_them(time_s: float, text: str) -> None:
    assert output.format_duration(time_s) == text


def test_a_table_in_a_pipe_is_plain_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(["name", "pps"], [["a" * 300, 5], ["[b]", None]], right=["pps"], title="T")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "T"
    assert lines[1].split() == ["name", "pps"]
    assert lines[2].split() == ["a" * 300, "5"]
    assert lines[3] == "[b]"


def test_json_of_anything_we_hold(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json(
        {"caps": INSTALLED.switches["basicfwd"], "path": Path("x"), "set": {"b", "a"}}
    )
    made = json.loads(capsys.readouterr().out)
    assert made["caps"]["port_kinds"] == ["vhost-user"]
    assert (made["path"], made["set"]) == ("x", ["a", "b"])
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


def test_every_command_module_is_in_the_table() -> None:
    modules = {path.stem for path in (REPOSITORY / "switchmark" / "cli").glob("*.py")}
    commands = {entry.module for entry in COMMANDS.values()}
    with_epilog = {
        name
        for name in modules
        if any(
            isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "EPILOG"
            for node in ast.parse((REPOSITORY / f"switchmark/cli/{name}.py").read_text()).body
        )
    }
    assert with_epilog - {"main"} == commands
    assert cli.COMMANDS is COMMANDS
