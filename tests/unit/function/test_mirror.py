"""Function `mirror`: its reference model, its monitor port, and what it refuses."""

import pytest

from switchmark.function.registry import FUNCTIONS, cases, forwarded
from switchmark.function.support.samples import load_frame
from switchmark.model.functions import read_functions
from switchmark.model.topology import MONITOR
from switchmark.model.trial import Trial
from switchmark.scenario.registry import expand
from tests.unit.function.test_route import table


def trial_with(**keys: object) -> Trial:
    values = {"switch": "ovs-netdev", "function": read_functions("forward+mirror")} | keys
    return Trial(dimension="throughput", packet_size_bytes=64, **values)


@pytest.mark.parametrize("pairs", [1, 3])
def test_monitor_port_is_the_last_and_belongs_to_no_path(pairs: int) -> None:
    topology = expand(trial_with(pairs=pairs))
    assert topology.monitor is not None
    (port,) = topology.monitor.ports
    assert port.index == topology.port_count - 1 == 2 * pairs
    assert port.mac == topology.node("rx0").mac
    assert all(MONITOR not in (path.source, path.target) for path in topology.paths)
    assert topology.pairs()[0] == ("tx0", "rx0", MONITOR)


@pytest.mark.parametrize(
    "keys", [{"function": read_functions("forward")}, {"switch": "direct"}], ids=str
)
def test_no_monitor_without_a_mirror(keys: dict[str, object]) -> None:
    assert expand(trial_with(**keys)).monitor is None


def test_frames_of_the_first_port_are_copied() -> None:
    neutral = table("forward+mirror", pairs=2)
    assert len(neutral.ports) == 4
    for port in range(4):
        passed = forwarded(neutral, load_frame(neutral, port))
        assert passed is not None and passed.egress == port ^ 1
        assert passed.copies == ((4,) if port == 0 else ())
    assert {case.passing.ingress for case in cases(neutral)} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"function": read_functions("route+mirror")}, "function"),
        ({"function": read_functions("forward+acl+mirror")}, "function"),
        ({"method": "ndr-pdr"}, "method"),
    ],
)
def test_impossible_values_are_refused(keys: dict[str, object], key: str) -> None:
    refusals = list(FUNCTIONS["mirror"].refusals(trial_with(**keys)))
    assert [refusal.key for refusal in refusals] == [key]
