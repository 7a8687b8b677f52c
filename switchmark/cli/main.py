"""The entry point of `switchmark`: finds the command, runs it, turns errors into exit codes.

A command is one module in this folder and one line in `COMMANDS`; it is imported only when
it is called, so `--help` and completion stay fast.
"""

from __future__ import annotations

import errno
import os
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from switchmark.cli.grouped_help import GroupedCommand, WithWrittenEpilog
from switchmark.cli.namespaces import Namespaces, start_again_if_needed
from switchmark.cli.rights import Keeps, give_up
from switchmark.errors import OF_THE_MACHINE, SwitchmarkError, UnavailableError, UsageError
from switchmark.formatting import printable

ADMIN_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
NO_THREADS = (
    "no more processes and threads may be started here; raise the limit (pids.max of the cgroup, "
    "TasksMax of the service, ulimit -u) to 200 or more"
)
_OF_THE_USER = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EILSEQ)


@dataclass(frozen=True, slots=True)
class Command:
    """The parts of a command: a module here, a function in it that typer can read, a line of help,
    the privileges that it keeps, and whether it runs in private namespaces.

    The docstring of the function is the help of the command, and `EPILOG` of the module has its
    examples. The function may return its exit code. A module with subcommands names no function,
    and has them in `app`."""

    module: str
    function: str
    help: str
    keeps: Keeps = Keeps.FILES
    namespaces: Namespaces = Namespaces.NEVER


COMMANDS: dict[str, Command] = {
    "doctor": Command(
        "doctor",
        "command",
        "Show what this machine can measure, and remedies.",
        Keeps.BENCH,
        Namespaces.IF_NEEDED,
    ),
    "list": Command(
        "list_",
        "command",
        "List switches, functions, networks, campaigns and more.",
        Keeps.REPORTS_PLACE,
        Namespaces.IF_NEEDED,
    ),
    "plan": Command(
        "plan",
        "command",
        "Show the trials of a campaign, their cores and time.",
        Keeps.REPORTS_PLACE,
        Namespaces.IF_NEEDED,
    ),
    "run": Command(
        "run",
        "command",
        "Measure a campaign and store a record of each trial.",
        Keeps.BENCH,
        Namespaces.ON_REQUEST,
    ),
    "trial": Command(
        "trial",
        "command",
        "Measure one trial that options describe.",
        Keeps.BENCH,
        Namespaces.ON_REQUEST,
    ),
    "path": Command(
        "path",
        "command",
        "Show the network path between two running endpoints.",
        Keeps.BENCH,
    ),
    "show": Command("show", "show", "Show results, also as CSV, JSON or Parquet."),
    "report": Command("report", "report", "Write a report of a run as one HTML file."),
    "compare": Command("compare", "command", "Compare two runs, and show proven differences."),
    "history": Command("history", "command", "Show how a figure changed over many runs."),
    "serve": Command("serve", "command", "Serve results as a read-only web page.", Keeps.OWN),
    "reproduce": Command(
        "reproduce",
        "command",
        "Measure the figures of a paper, and compare them.",
        Keeps.BENCH,
        Namespaces.ON_REQUEST,
    ),
    "certify": Command(
        "certify",
        "command",
        "Check measurements against kernel counters.",
        Keeps.BENCH,
        Namespaces.ON_REQUEST,
    ),
    "otg": Command("otg", "command", "Serve the Open Traffic Generator API.", Keeps.BENCH),
    "pool": Command("pool", "", "Manage a pool of testbeds.", Keeps.LISTENS),
    "agent": Command("agent", "command", "Offer this machine to a pool of testbeds.", Keeps.BENCH),
    "store": Command("store", "", "Store results of many machines in a database."),
    "clean": Command("clean", "command", "Remove leftovers of a run that was killed.", Keeps.BENCH),
}

EPILOG = """
Examples:
  switchmark doctor                        what this machine can measure
  switchmark run quick                     compare three switches in minutes
  switchmark plan my-campaign.yaml         the trials, and their time
  switchmark run "(V=linux-bridge, P=64)"  one trial, in the short notation

Exit codes:
  0    the command has done its work
  1    a part failed while it ran
  2    wrong input: an argument, a campaign file or a value
  3    this machine cannot do it; the message has the remedy
  4    proven: worse than before (compare), or expectation violated (run)
  5    nothing could be compared, or --strict and undecided (compare)
  130  interrupted with Ctrl-C; finished trials are stored
"""


class LazyGroup(WithWrittenEpilog, TyperGroup):
    """A group that lists its commands without importing them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that is called."""
        if args and args[0] in COMMANDS:
            self.commands[args[0]] = load_command(args[0])
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the commands in the order of the table."""
        return list(COMMANDS)


class SubcommandGroup(WithWrittenEpilog, TyperGroup):
    """A command with subcommands."""


def load_command(name: str) -> Any:
    """Import the command of this name from its module."""
    entry = COMMANDS[name]
    module = import_module(f"switchmark.cli.{entry.module}")
    if not entry.function:
        group = _new_app(
            cls=SubcommandGroup,
            add_completion=False,
            epilog=as_written(module.EPILOG),
            help=entry.help,
        )
        group.registered_commands = module.app.registered_commands
        for registered in group.registered_commands:
            registered.cls = GroupedCommand
        return typer.main.get_command(group)
    alone = _new_app(add_completion=False)
    add = alone.command(name, cls=GroupedCommand, epilog=as_written(module.EPILOG))
    add(getattr(module, entry.function))
    return typer.main.get_command(alone)


def as_written(text: str) -> str:
    """Return text that the help formatter prints unchanged, line by line."""
    return "\n\n".join(f"\b\n{block}" for block in text.strip().split("\n\n"))


def _new_app(**options: Any) -> typer.Typer:
    return typer.Typer(
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help: it starts fast, and reads well in a pipe
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        **options,
    )


def _print_version(requested: bool) -> None:
    if requested:
        from switchmark.version import full_version

        typer.echo(f"switchmark {full_version()}")
        raise typer.Exit


def _print_man_page(requested: bool) -> None:
    if requested:
        from switchmark.cli.man import man_page

        typer.echo(man_page(build(), {name: load_command(name) for name in COMMANDS}), nl=False)
        raise typer.Exit


def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    _man: Annotated[
        bool,
        typer.Option(
            "--man", callback=_print_man_page, is_eager=True, help="Print the manual page (roff)."
        ),
    ] = False,
) -> None:
    """Measure and compare virtual switches on this machine.

    switchmark connects traffic applications through a switch, measures throughput, latency and CPU
    cost, and marks each figure that must be used with care.
    """


def build() -> Any:
    """Return the command line as one callable, which imports a command when it is called."""
    app = _new_app(cls=LazyGroup, epilog=as_written(EPILOG))
    app.callback()(_root)
    for name, entry in COMMANDS.items():
        app.command(name, help=entry.help)(lambda: None)
    return typer.main.get_command(app)


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. An expected error is printed as one line."""
    given = list(sys.argv[1:] if args is None else args)
    try:
        answer = build()(args=given or ["--help"], prog_name="switchmark", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:  # an unknown command, option or argument
        command = " ".join(["switchmark", *(name for name in given[:1] if name in COMMANDS)])
        message = error.format_message().replace("Value error, ", "")
        return _complain(f"{message} (see {command} --help)", error.exit_code)
    except SwitchmarkError as error:
        return _complain(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted(given)
    except BaseException as error:  # a panic of a library in Rust is not an Exception
        return _of_the_machine(error)
    if answer == INTERRUPTED:
        return _interrupted(given)
    return answer if isinstance(answer, int) else 0


def _lacks_threads(error: BaseException) -> bool:
    """Return True if Python, or a library in Rust, could not start a thread."""
    text = str(error)
    return (isinstance(error, RuntimeError) and "can't start new thread" in text) or (
        type(error).__name__ == "PanicException" and "spawn" in text and "thread" in text
    )


def _of_the_machine(error: BaseException) -> int:
    """Print a line about a lack of space or permissions. Any other error is a fault of the program
    and is raised again, with its traceback."""
    if _lacks_threads(error):
        return _complain(NO_THREADS, UnavailableError.exit_code)
    if not isinstance(error, OSError):
        raise error
    if isinstance(error, BrokenPipeError):
        # The reader has gone; keep the interpreter from flushing into the broken pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SwitchmarkError.exit_code
    if error.errno not in (*OF_THE_MACHINE, *_OF_THE_USER):
        raise error
    place = f"{error.filename}: " if error.filename else ""
    if error.errno in _OF_THE_USER:
        return _complain(f"{place}{error.strerror}; name another place", UsageError.exit_code)
    return _complain(f"{place}{error.strerror}", SwitchmarkError.exit_code)


def _interrupted(given: Sequence[str]) -> int:
    more = "; finished trials are stored, and --resume continues" if given[:1] == ["run"] else ""
    return _complain(f"interrupted{more}", INTERRUPTED)


def _complain(message: str, exit_code: int) -> int:
    for line in message.splitlines() or ["failed"]:
        try:
            for part in _fitted(f"switchmark: {printable(line)}"):
                print(part, file=sys.stderr, flush=True)
        except OSError:  # it cannot be written: the exit code is still correct
            # Otherwise Python tries again at its end, and exits with another code.
            sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    return exit_code


def _fitted(text: str) -> list[str]:
    """Return the text in lines that fit the terminal of standard error, otherwise as one line."""
    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError, AttributeError):  # not a terminal
        return [text]
    return textwrap.wrap(
        text, max(20, width), subsequent_indent="  ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def main() -> None:
    """Run the command line of this process and exit with its code."""
    _prepare()
    args = sys.argv[1:]
    named = COMMANDS.get(args[0]) if args else None
    try:
        start_again_if_needed(named.namespaces if named else Namespaces.NEVER, args)
    except SwitchmarkError as error:
        sys.exit(_complain(str(error), error.exit_code))
    give_up(named.keeps if named else Keeps.FILES, args)
    sys.exit(run(args))


def _prepare() -> None:
    """Repair the surroundings of the process: a PATH without the folders of administrators, closed
    standard streams, and streams whose encoding lacks a character."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    missing = [folder for folder in ADMIN_FOLDERS if folder not in folders]
    os.environ["PATH"] = os.pathsep.join([*folders, *missing])
    # Matrices are small here, and a thread for each core needs memory. If no thread may be started,
    # OpenBLAS sends an interrupt instead of an error.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
