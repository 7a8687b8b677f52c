"""Function `vlan`: the reference model, its cases, and the tags at the ends of a pair."""

import pytest

from switchmark.engine.arguments import engine_args
from switchmark.function.registry import FUNCTIONS, cases, forwarded
from switchmark.function.support.samples import load_frame
from switchmark.model.functions import read_functions
from switchmark.model.node import NodePort
from switchmark.model.ports import PortKind
from switchmark.model.trial import Trial
from tests.unit.function.test_route import table


def trial_with(**keys: object) -> Trial:
    values = {"packet_size_bytes": 68, "function": read_functions("forward+vlan")} | keys
    return Trial(dimension="throughput", switch="ovs-netdev", **values)


@pytest.mark.parametrize(("direction", "trunk"), [("push", 1), ("pop", 0), ("auto", 1)])
def test_tag_is_pushed_towards_the_trunk_and_popped_from_it(direction: str, trunk: int) -> None:
    neutral = table("forward+vlan", direction=direction, vid=100)
    access = 1 - trunk
    pushed = forwarded(neutral, load_frame(neutral, access))
    assert pushed is not None and (pushed.egress, pushed.frame.vid) == (trunk, 100)
    popped = forwarded(neutral, load_frame(neutral, trunk, vid=100))
    assert popped is not None and (popped.egress, popped.frame.vid) == (access, None)


@pytest.mark.parametrize("vid", [None, 101, 1])
def test_other_frames_from_the_trunk_are_dropped(vid: int | None) -> None:
    neutral = table("forward+vlan", vid=100)
    assert forwarded(neutral, load_frame(neutral, 1, vid=vid)) is None


@pytest.mark.parametrize("vid", [1, 100, 4094])
def test_cases_have_frames_of_each_kind(vid: int) -> None:
    neutral = table("forward+vlan", vid=vid)
    sent = [case.passing for case in cases(neutral)]
    tags = {passing.frame.vid for passing in sent if passing.ingress == 1}
    assert {vid, None} < tags and all(tag is None or 1 <= tag <= 4094 for tag in tags)
    results = [forwarded(neutral, passing) for passing in sent]
    # Two frames without a tag, of the base and of the function, and one of another VLAN.
    assert sum(result is None for result in results) == 3


@pytest.mark.parametrize(("direction", "tagged"), [("push", 1), ("pop", 0), ("both", 1)])
def test_engine_has_the_tag_at_the_trunk_only(direction: str, tagged: int) -> None:
    port = NodePort(PortKind.VETH, "02:00:00:00:00:01", "10.64.0.1/24", device_inside="v0")
    trial = trial_with(direction=direction, vid=7)
    for end in (0, 1):
        arguments = engine_args(trial, port, "sender", 0, end, "yield")
        assert ("--vlan" in arguments) == (end == tagged)
    assert arguments.count("7") == tagged
    plain = engine_args(trial.changed({"switch": "direct"}), port, "sender", 0, tagged, "yield")
    assert "--vlan" not in plain


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"direction": "encap"}, "direction"),
        ({"direction": "both"}, "direction"),
        ({"direction": "pop", "packet_size_bytes": 64}, "packet_size"),
        ({"bidirectional": True, "packet_size_bytes": 64}, "packet_size"),
        ({"function": read_functions("route+vlan")}, "function"),
    ],
)
def test_impossible_values_are_refused(keys: dict[str, object], key: str) -> None:
    refusals = list(FUNCTIONS["vlan"].refusals(trial_with(**keys)))
    assert [refusal.key for refusal in refusals] == [key]


def test_possible_values_are_accepted() -> None:
    for keys in ({}, {"direction": "pop"}, {"direction": "both", "bidirectional": True}):
        assert not list(FUNCTIONS["vlan"].refusals(trial_with(**keys)))
