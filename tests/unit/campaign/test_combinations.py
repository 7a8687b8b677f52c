"""The page of combinations matches the code and the list of the tests."""

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


def test_bold_combination_is_possible_and_has_a_test() -> None:
    for test, listed in RUN.items():
        file, _, name = test.partition("::")
        assert f"def {name}(" in (TESTS / file).read_text(), test
        for item in listed:
            assert problem(item, THERE.switches[item.switch], THERE.environments) is None, item


def test_cells_say_run_possible_and_why_not() -> None:
    few = Capabilities((PortKind.VETH,), (ConnectMode.LEARNING,), polling=False, max_ports=2)
    environments = {"netns": (PortKind.VETH,), "lxc": (PortKind.MEMIF,)}
    run = [Combination("few", "p2p", "netns", PortKind.VETH)]
    text = page({"few": few, "direct": few}, environments, run)
    row = next(line for line in text.splitlines() if line.startswith("| `few`"))
    cells = [cell.strip() for cell in row.split("|")[3:-1]]
    assert cells[0] == "**netns**; no lxc (1)" and cells[3] == "netns; no lxc (1)"
    assert cells[4] == "no (2)" and "few takes at most 2 ports, and 2 pairs need 4" in text
    assert "1. lxc has no veth ports" in text
    assert "direct connects two ends, and cannot connect a chain of VNFs" in text
