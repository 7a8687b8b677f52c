"""The end of a path in a pod: answers of its agent are checked before they are used."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from switchmark.errors import TrialFailed
from switchmark.host.host import Completed
from switchmark.host.kernel.device_counters import EndCounters
from switchmark.remote.codec import from_plain, to_plain
from switchmark.remote.pod_end import PodEnd
from switchmark.remote.site import Site


class FakeConnection:
    """Answers every request of an agent with one value, in JSON's types."""

    def __init__(self, answer: object) -> None:
        self.target = SimpleNamespace(name="db")
        self._answer = answer
        self.requests: list[tuple[str, dict[str, Any]]] = []

    def ask(self, action: str, _takes_s: float = 0.0, /, data: bytes = b"", **values: Any) -> Any:
        self.requests.append((action, values | ({"data": data} if data else {})))
        return self._answer

    def ask_for(self, kind: Any, action: str, takes_s: float = 0.0, /, **values: Any) -> Any:
        return from_plain(kind, self.ask(action, takes_s, **values))


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


def test_files_of_a_server_are_written_by_the_agent() -> None:
    """The folder is that of the agent; a folder of this host is not used."""
    end, connection = end_with("/run/in-the-pod/nginx-rx0")
    folder = end.make_folder(Path("/run/here"), "nginx-rx0")
    assert folder == Path("/run/in-the-pod/nginx-rx0")
    end.write(folder / "nginx.conf", "daemon off;")
    assert connection.requests == [
        ("make_folder", {"name": "nginx-rx0"}),
        ("write", {"folder": "nginx-rx0", "name": "nginx.conf", "data": b"daemon off;"}),
    ]


def test_version_of_a_server_is_that_of_the_pod() -> None:
    answer = to_plain(Completed(("nginx",), 0, "", "nginx version: nginx/1.2.3 \n"))
    end, connection = end_with(answer)
    assert end.version_of("nginx", ("-v",), r"nginx/(\S+)") == "1.2.3"
    assert end.version_of("nginx", ("-v",), r"httpd/(\S+)") == "unknown version"
    assert connection.requests[0][1]["args"] == ["nginx", "-v"]


def test_sockets_of_a_server_are_read_in_the_pod() -> None:
    """A process of this host may have the number of the server."""
    end, connection = end_with(True)
    assert end.is_bound(1, "tcp", 17000)
    assert connection.requests == [("end", {"question": "is_bound", "arguments": ["tcp", 17000]})]


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_time_that_is_not_one_fails_the_trial(seconds: float) -> None:
    end, _ = end_with(seconds)
    with pytest.raises(TrialFailed, match="the CPU time of the server is"):
        end.cpu_s([7])
