"""The last message of a program: its reason, not the hint or the trace below it."""

from __future__ import annotations

import pytest

from switchmark.host.process_output import last_line, last_lines

REFUSED = "docker: Error response from daemon: Conflict. The name /c is already in use."


def test_reason_is_the_last_message() -> None:
    assert last_lines("a\n b \nc\nd\n") == "b / c / d"
    assert last_lines("reason\nStack Traceback\n(1) x\n") == "reason"
    trace = "".join(f"vpp[7]: #{n}  0x00007f0{n} f_{n}+0x1\n" for n in range(12))
    cause = "vpp[7]: received signal SIGSEGV, PC 0x55, faulting address 0x0"
    assert last_lines(f"vpp[7]: up\n{cause}\n{trace}") == f"vpp[7]: up / {cause}"
    assert last_lines("") == "it printed nothing"
    assert last_line(" a\nb \n\n") == "b"
    assert last_line("\n", "no reason") == "no reason"


@pytest.mark.parametrize(
    "hint",
    [
        "See 'docker run --help'.",
        "\nRun 'docker run --help' for more information",
        "\nUsage:  docker run [OPTIONS] IMAGE [COMMAND] [ARG...]\n\n"
        "Run 'docker run --help' for more information",
    ],
)
def test_error_of_docker_is_above_its_hint(hint: str) -> None:
    stderr = f"{REFUSED}\n{hint}\n"
    assert last_line(stderr) == REFUSED
    assert last_lines(stderr) == REFUSED
