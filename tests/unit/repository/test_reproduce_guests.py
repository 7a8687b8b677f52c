"""tools/reproduce-guests: the items that a guest runs, and refusals before a guest boots."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

from switchmark.cli.plan import make_plan
from switchmark.reproduction.paper import paper_names, read_paper

TOOL = Path(__file__).resolve().parents[3] / "tools" / "reproduce-guests"
NAME = "reproduce_guests"


@pytest.fixture(scope="module")
def tool() -> Iterator[Any]:
    """The script as a module."""
    loader = SourceFileLoader(NAME, str(TOOL))
    spec = spec_from_loader(NAME, loader)
    assert spec is not None
    module = module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, NAME, module)
        patch.setattr(sys, "dont_write_bytecode", True)
        loader.exec_module(module)
        yield module


@pytest.mark.parametrize(
    ("switch", "name", "has", "lacks"),
    [
        ("ovs", "dagar2017", {"fig8", "table3"}, {"table5"}),
        ("sriov", "ara2021", {"fig4a", "fig4b"}, {"fig4d", "table2"}),  # 4d needs two hosts
        ("vale", "zhang2019", {"fig4a", "fig5", "table4"}, {"v2p"}),
    ],
)
def test_items_are_those_with_the_switch_on_one_host(
    tool: Any, switch: str, name: str, has: set[str], lacks: set[str]
) -> None:
    found = {item.name for item in tool.items_with(read_paper(name), switch, [])}
    assert has <= found and not lacks & found


@pytest.mark.parametrize("switch", ["ovs", "sriov", "vale"])
@pytest.mark.parametrize("name", paper_names())
def test_every_item_has_a_plan_in_the_guest(tool: Any, switch: str, name: str) -> None:
    paper = read_paper(name)
    for item in tool.items_with(paper, switch, []):
        plan = make_plan(item.campaign, [f"switch={switch}", *tool.SETTINGS], paper.target)
        assert plan.trials, item.name


def test_a_wrong_key_is_refused_before_a_guest_boots(
    tool: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "guest_for", lambda switch: pytest.fail("a guest was made"))
    monkeypatch.setattr(sys, "argv", ["x", "ovs", "dagar2017", "fig8", "--set", "packet_size=3"])
    assert tool.main() == 2
    assert "packet_size" in capsys.readouterr().err


def test_vale_is_refused_without_its_module(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_NETMAP", "/nowhere")
    with pytest.raises(tool.UsageError, match=r"not a folder with netmap\.ko"):
        tool.guest_for("vale")
