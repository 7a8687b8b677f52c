from __future__ import annotations

import ast
import errno
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from switchmark.cli import complete
from switchmark.cli import main as cli
from switchmark.cli.main import COMMANDS, Command, load_command, run
from switchmark.errors import SwitchmarkError, UnavailableError, UsageError
from switchmark.version import full_version

REPOSITORY = Path(__file__).parents[3]


class Failing:
    """A command module whose command runs a function of the test."""

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
        cwd=REPOSITORY, capture_output=True, text=True, check=False, **options,
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
        "0    the command has done its work",
        "1    a part failed",
        "2    wrong input",
        "3    this machine",
        "130  inter",
    ):
        assert f"\n    {code}" in shown
    assert "--install-completion" in shown
    assert all(len(line) <= 100 for line in shown.splitlines())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    entry = COMMANDS[name]
    module = import_module(f"switchmark.cli.{entry.module}")
    if entry.function:
        assert callable(getattr(module, entry.function))
    assert f"switchmark {name}" in module.EPILOG
    assert run([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: switchmark {name}" in shown
    assert not set("{}") & set(shown.split("\n\n")[0]), "required arguments have no braces"
    assert "\n  Examples:\n" in shown
    assert " ".join(module.EPILOG.split()) in " ".join(shown.split())
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"switchmark {full_version()}\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["lis"], "No such command 'lis'. Did you mean 'list'? (see switchmark --help)"),
        (["--foo"], "No such option: --foo (see switchmark --help)"),
        (["list", "--foo"], "No such option: --foo (see switchmark list --help)"),
        (["list", "nothing"], "Invalid value for 'KIND': 'nothing' is not one of 'switches', "
                              "'environments', 'campaigns', 'scenarios', 'methods', 'ios', "
                              "'functions', 'generators', 'workloads', 'networks', 'hosts'. "
                              "(see switchmark list --help)"),
        (["plan"], "Missing argument 'CAMPAIGN'. (see switchmark plan --help)"),
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


def test_full_disk_is_a_line_and_faults_are_not_hidden(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/results/x")
    assert odd(monkeypatch, raising(full)) == 1
    assert capsys.readouterr().err == "switchmark: /results/x: No space left on device\n"
    with pytest.raises(OSError, match="Invalid argument"):
        odd(monkeypatch, raising(OSError(errno.EINVAL, "Invalid argument")))


def test_a_command_may_return_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    assert odd(monkeypatch, lambda: 3) == 3
    assert odd(monkeypatch, lambda: None) == 0


def test_our_own_faults_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        odd(monkeypatch, lambda: 1 // 0)


def test_closed_pipe_is_not_an_error() -> None:
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
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("linux-bridge")
    assert done.stderr == ""


@pytest.mark.parametrize("group", ["pool", "store"])
def test_no_command_of_a_group_is_described_by_half_a_sentence(
    group: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([group, "--help"]) == 0
    commands = capsys.readouterr().out.partition("Commands:\n")[2].partition("\n\n")[0]
    assert len(commands.splitlines()) == len(load_command(group).commands)
    assert "..." not in commands


def test_help_is_fast_and_imports_no_command() -> None:
    """Fast: 68,000 calls, imports included, which take a tenth of a second on a usual machine."""
    script = (
        "import sys\nfrom tests.unit.calls import calls_of\n"
        "def shown():\n  from switchmark.cli.main import run\n  return run(['--help'])\n"
        "code, calls = calls_of(shown)\n"
        "heavy = {'pydantic', 'rich', 'ruamel', 'duckdb', 'polars', 'numpy', 'rapidfuzz', "
        "'switchmark.cli.plan', 'switchmark.cli.list_'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert calls < 120_000, calls\nsys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, check=False)
    assert done.returncode == 0


def test_exit_codes_reach_the_shell() -> None:
    assert spawn("--version").returncode == 0
    done = spawn("nonsense")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def completions(line: str) -> list[str]:
    """Return the completions of bash at the end of a line."""
    env = os.environ | {
        "_SWITCHMARK_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    return spawn(env=env).stdout.split()


def test_completion_offers_commands_options_and_names() -> None:
    assert set(completions("switchmark ")) >= set(COMMANDS)
    assert "--set" in completions("switchmark plan --")
    assert completions("switchmark trial ovs-d") == ["ovs-dpdk"]
    assert completions("switchmark trial ovs --io raw") == ["raw", "raw-mmsg"]
    assert completions("switchmark run qui") == ["quick"]


def test_names_that_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete.switches("dir") == ["direct"]
    assert complete.environments("net") == ["netns"]
    assert complete.methods("ndr") == ["ndr-pdr"]
    assert complete.dimensions("l") == ["latency"]
    (tmp_path / "quiet").mkdir()
    for name in ("quiz.yaml", "quiz.txt", "quiet/inside.yml", "quiet/.hidden.yml"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert complete.campaigns("qui") == ["quick", "quiet/", "quiz.yaml"]
    assert complete.campaigns("quiet/") == ["quiet/inside.yml"]
    assert complete.campaigns("./quiz") == ["./quiz.yaml"]
    assert complete.campaigns(f"{tmp_path}/quiz") == [f"{tmp_path}/quiz.yaml"]
    assert complete.campaigns("/nowhere/") == []


def test_a_wrong_switch_is_named_as_the_argument_that_it_is() -> None:
    assert spawn("trial", "nosuch").stderr.startswith("switchmark: SWITCH: unknown switch 'nosuch'")


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
