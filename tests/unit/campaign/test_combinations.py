"""The page of what can be combined is that of the code and of the tests' list."""

from __future__ import annotations

from pathlib import Path

from switchmark.campaign.combinations import page
from switchmark.campaign.installed import installed
from switchmark.campaign.rules.combination import Combination, problem
from switchmark.model.capabilities import Capabilities
from switchmark.model.ports import ConnectMode, PortKind
from tests.combinations import PAGE, RUN, text

THERE = installed()
TESTS = Path(__file__).parents[2] / "integration"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == text(), "run: python -m tests.combinations"


def test_what_is_said_to_be_run_is_possible_and_has_its_test() -> None:
    for test, listed in RUN.items():
        file, _, name = test.partition("::")
        assert f"def {name}(" in (TESTS / file).read_text(), test
        for one in listed:
            assert problem(one, THERE.switches[one.switch], THERE.environments) is None, one


def test_cells_say_run_possible_and_why_not() -> None:
    few = Capabilities((PortKind.VETH,), (ConnectMode.LEARNING,), polling=False, max_ports=2)
    environments = {"netns": (PortKind.VETH,), "lxc": (PortKind.MEMIF,)}
    run = [Combination("few", "p2p", "netns", PortKind.VETH)]
    made = page({"few": few, "direct": few}, environments, run)
    row = next(line for line in made.splitlines() if line.startswith("| `few`"))
    cells = [cell.strip() for cell in row.split("|")[3:-1]]
    assert cells[0] == "**netns**; no lxc (1)" and cells[3] == "netns; no lxc (1)"
    assert cells[4] == "no (2)" and "few takes at most 2 ports, and 2 pairs need 4" in made
    assert "1. lxc has no veth ports" in made
    assert "direct connects two ends, and cannot connect a chain of VNFs" in made
