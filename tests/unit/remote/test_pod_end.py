"""The end of a path in a pod: answers of its agent are checked before they are used."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from switchmark.errors import TrialFailed
from switchmark.host.kernel.device_counters import EndCounters
from switchmark.remote.codec import from_plain, to_plain
from switchmark.remote.pod_end import PodEnd
from switchmark.remote.site import Site


class FakeConnection:
    """Answers every request of an agent with one value, in JSON's types."""

    def __init__(self, answer: object) -> None:
        self._answer = answer
        self.requests: list[tuple[str, dict[str, Any]]] = []

    def ask_for(self, kind: Any, action: str, _takes_s: float, **values: Any) -> Any:
        self.requests.append((action, values))
        return from_plain(kind, self._answer)


def end_with(answer: object) -> tuple[PodEnd, FakeConnection]:
    connection = FakeConnection(answer)
    testbed = SimpleNamespace(far="host db (pod shop/db-1)")
    return PodEnd(cast(Site, SimpleNamespace(testbed=testbed, connection=connection))), connection


def test_counters_are_read_through_the_agent() -> None:
    counters = EndCounters({"Tcp.MaxConn": -1, "Tcp.RetransSegs": 3}, 1000, 10)
    end, connection = end_with(to_plain(counters))
    assert end.end_counters("eth0") == EndCounters({"Tcp.RetransSegs": 3}, 1000, 10)
    assert connection.requests == [("end", {"question": "end_counters", "arguments": ["eth0"]})]


@pytest.mark.parametrize(
    "answer",
    [
        {"protocol": {"Tcp.RetransSegs": -1}, "rx_bytes": 0, "rx_packets": 0},
        {"protocol": {}, "rx_bytes": -1, "rx_packets": 0},
        {"protocol": {}, "rx_bytes": 0, "rx_packets": -1},
    ],
)
def test_a_negative_counter_fails_the_trial(answer: object) -> None:
    end, _ = end_with(answer)
    with pytest.raises(TrialFailed, match="a counter of eth0 or of its protocols is -1"):
        end.end_counters("eth0")


def test_counters_of_another_type_are_refused() -> None:
    end, _ = end_with({"protocol": {"Tcp.RetransSegs": "3"}, "rx_bytes": 0, "rx_packets": True})
    with pytest.raises(TypeError):
        end.end_counters("eth0")


def test_offloads_are_read_through_the_agent() -> None:
    end, connection = end_with({"generic-receive-offload": True})
    assert end.offloads("eth0") == {"generic-receive-offload": True}
    assert connection.requests == [("end", {"question": "offloads", "arguments": ["eth0"]})]
