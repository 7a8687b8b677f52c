"""A method, a switch and an environment are one file each: the examples of docs/extending*.md, in a
copy of the package, work everywhere."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from switchmark.function.support.functions import Function
from switchmark.method.support.method import Method
from switchmark.switch import tc_redirect
from tests.extending import ROOT, bench_in, copy_with, example, run_in

LINES_AT_MOST = 80

RUNS_ON_THE_SIMULATED_SWITCH = """
import switchmark
from switchmark.simulation.switch import Behaviour
from tests.unit.method_fakes import run_simulated
found = run_simulated("overload-loss", Behaviour(capacity_pps=2e6, sender_ceiling_pps=4e6))
print(switchmark.__file__, found.method, found.headline, found.figures[0].value, found.trial_count)
"""


@pytest.fixture(scope="module")
def with_method(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = example("overload-loss")
    return copy_with(tmp_path_factory.mktemp("copy"), "method/overload_loss.py", text)


def test_the_new_method_is_listed_with_its_meaning(with_method: Path) -> None:
    rows = json.loads(bench_in(with_method, "list", "methods", "--json"))["methods"]
    descriptions = {row["name"]: row["description"] for row in rows}
    assert (
        descriptions["overload-loss"] == "share of frames that is lost when everything is offered"
    )


def test_tab_completes_the_new_method(with_method: Path) -> None:
    script = "from switchmark.cli.complete import methods; print(methods('over'))"
    assert run_in(with_method, "-c", script) == "['overload-loss']\n"


def test_a_campaign_with_the_new_method_is_planned_in_its_time(with_method: Path) -> None:
    file = with_method.parent / "flood.yaml"
    # Five trials of the method, and one baseline.
    file.write_text("switch: linux-bridge\nmethod: overload-loss\nduration: 4s\n")
    assert "(24 s of them are trials)" in bench_in(with_method, "plan", str(file))


def test_the_page_names_every_field_of_a_method() -> None:
    rows = (ROOT / "docs" / "extending.md").read_text().partition("| field of `Method` |")[2]
    cells = [line.split("|")[1] for line in rows.partition("\n\n")[0].splitlines()[2:]]
    named = [name for cell in cells for name in re.findall(r"`(\w+)", cell)]
    assert sorted(named) == sorted(one.name for one in fields(Method))


def test_compare_knows_the_figure_of_the_new_method(with_method: Path) -> None:
    script = (
        "from switchmark.method.registry import METHODS\n"
        "from switchmark.record.metric import chosen\n"
        "names = ['loss under overload']\n"
        "(one,) = chosen(names, [m for each in METHODS.values() for m in each.compared])\n"
        "print(one.unit, one.higher_is_better)"
    )
    assert run_in(with_method, "-c", script) == "ratio False\n"


def test_new_method_finds_the_true_value(with_method: Path) -> None:
    path, *found = run_in(with_method, "-c", RUNS_ON_THE_SIMULATED_SWITCH).split()
    assert Path(path) == with_method / "__init__.py"
    assert found == ["overload-loss", "loss", "under", "overload", "0.5", "5"]


COMPUTES_THE_PROOF = """
from switchmark.function.registry import cases, forwarded
from tests.unit.function.test_route import table
neutral = table("forward+ttl-guard")
results = [(case.name, forwarded(neutral, case.passing) is not None) for case in cases(neutral)]
print([name for name, arrives in results if arrives])
"""


def test_a_new_function_is_one_file(tmp_path: Path) -> None:
    package = copy_with(tmp_path, "function/ttl_guard.py", example("class TtlGuard"))
    rows = json.loads(bench_in(package, "list", "functions", "--json"))["functions"]
    assert {"acl", "forward", "route", "ttl-guard"} <= {row["name"] for row in rows}
    assert "'a frame with TTL 255']" in run_in(package, "-c", COMPUTES_THE_PROOF)
    campaign = tmp_path / "guard.yaml"
    campaign.write_text("switch: macvlan\nfunction: forward+ttl-guard\nrate: 1k\nduration: 2s\n")
    with pytest.raises(AssertionError, match="macvlan has no function ttl-guard here"):
        bench_in(package, "plan", str(campaign))


def test_the_page_names_every_member_of_a_function() -> None:
    rows = (ROOT / "docs" / "extending.md").read_text().partition("| member of `Function` |")[2]
    cells = [line.split("|")[1] for line in rows.partition("\n\n")[0].splitlines()[2:]]
    named = {name for cell in cells for name in re.findall(r"`(\w+)", cell)}
    members = {*Function.__annotations__, *vars(Function)}
    assert named == {name for name in members if not name.startswith("_")}


def test_a_new_switch_and_a_new_environment_are_listed(tmp_path: Path) -> None:
    switch = example("class TcRedirect").replace('name = "tc-redirect"', 'name = "patch-cable"')
    package = copy_with(tmp_path, "switch/patch_cable.py", switch)
    (package / "environment" / "low_priority.py").write_text(example("low-priority"))
    listed = json.loads(bench_in(package, "list", "switches", "environments", "--json"))
    (mine,) = [row for row in listed["switches"] if row["name"] == "patch-cable"]
    assert (mine["ports"], mine["connect_modes"]) == (["veth", "tap"], ["cross-connect"])
    (where,) = [row for row in listed["environments"] if row["name"] == "low-priority"]
    assert where["description"].startswith("the cost of other programs")


def test_the_switch_of_the_page_is_the_module_and_short() -> None:
    text = example("class TcRedirect")
    assert text == Path(tc_redirect.__file__).read_text()
    assert len(text.splitlines()) < LINES_AT_MOST
