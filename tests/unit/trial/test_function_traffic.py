"""The load of trials with functions: tables of the engines, their options, and the counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from switchmark.function.support.table import FunctionTable
from switchmark.model.functions import read_functions
from switchmark.model.node import NodePort
from switchmark.model.ports import PortKind
from switchmark.model.traffic import read_flows
from switchmark.model.trial import Trial
from switchmark.trial.function_traffic import (
    FunctionCounts,
    engine_port,
    function_counts,
    has_flow_table,
    load_tables,
    receiver_args,
    sender_args,
    tunnel_args,
)
from switchmark.trial.verification import PairEnds
from tests.integration.function_rig import right_table
from tests.unit.function.test_route import table


class RecordingEngine:
    """An engine that stores the tables that it is sent."""

    def __init__(self, pair: int) -> None:
        self.pair = pair
        self.tables: list[tuple[str, int, int, float | None]] = []
        self.rows: dict[str, bytes] = {}

    def send_table(
        self, rows: bytes, count: int, kind: str = "table", *, zipf: float | None = None,
        seed: int = 1,
    ) -> None:  # fmt: skip
        del seed
        self.rows[kind] = rows
        self.tables.append((kind, len(rows), count, zipf))


def trial(function: str, flows: str = "1", dimension: str = "throughput") -> Trial:
    return Trial(
        dimension=dimension, switch="linux-router", packet_size_bytes=84,
        function=read_functions(function), flows=read_flows(flows),
    )  # fmt: skip


def test_sender_and_receiver_get_the_tables() -> None:
    ends: Any = PairEnds(RecordingEngine(0), RecordingEngine(0))  # type: ignore[arg-type]
    load_tables(trial("route+acl", "500:zipf=1.5"), table("route+acl", rules=50), [ends])
    assert ends.b.tables == [("table", 500 * 16, 500, 1.5)]
    assert ends.a.tables[0] == ends.b.tables[0]
    assert [kind for kind, *_ in ends.a.tables] == ["table", "denied"]
    assert ends.a.tables[1][2] == 49


def test_a_receiver_expects_what_a_router_changes() -> None:
    neutral = table("route", routes=10)
    assert receiver_args(neutral, 1) == [
        "--next-hops", ",".join(hop.mac for hop in neutral.next_hops),
        "--expect-src-mac", neutral.ports[1].mac,
        "--expect-ttl", "63",
    ]  # fmt: skip
    assert receiver_args(table("forward+acl"), 1) == ["--expect-ttl", "64"]


def tunnelled(direction: str, port: int) -> tuple[FunctionTable, dict[str, bytes]]:
    """Return the neutral table of three tunnels, and the tables of the engine at a port."""
    given = trial("forward+vxlan", "6").changed(
        {"direction": direction, "bidirectional": direction == "both", "tunnels": 3}
    )
    neutral, _ = right_table(given)
    ends: Any = PairEnds(RecordingEngine(0), RecordingEngine(0))  # type: ignore[arg-type]
    load_tables(given, neutral, [ends])
    return neutral, (ends.a if port == 0 else ends.b).rows


@pytest.mark.parametrize(
    ("direction", "port", "addresses"),
    [("encap", 0, "c6130101c6130102"), ("encap", 1, "c6130101c6130102"),
     ("decap", 0, "c6130002c6130001"), ("decap", 1, "c6130002c6130001"),
     ("both", 0, "c6130101c6130102"), ("both", 1, "c6130102c6130101")],
)  # fmt: skip
def test_engines_get_the_tunnels_of_their_frames(direction: str, port: int, addresses: str) -> None:
    """Rows have the outer addresses in the order of the frames; the unknown tunnel comes last."""
    neutral, tables = tunnelled(direction, port)
    rows = [tables["tunnels"][at : at + 24] for at in range(0, 4 * 24, 24)]
    assert [int.from_bytes(row[:4]) for row in rows] == [100, 101, 102, 99]
    station = neutral.tunnels[1].station_mac.replace(":", "")
    host = neutral.ports[neutral.access_port].host_mac.replace(":", "")
    inward = addresses.endswith("02")
    assert rows[1][12:].hex() == (station + host if inward else host + station)
    assert rows[1][4:12].hex() == addresses
    assert [row[15] for row in chunks(tables["table"])] == [0, 1, 2, 0, 1, 2]
    denied = tables.get("denied")
    assert (denied is not None) is (port == 0 or direction == "both")
    assert denied is None or {row[15] for row in chunks(denied)} == {3}


def chunks(rows: bytes) -> list[bytes]:
    return [rows[at : at + 16] for at in range(0, len(rows), 16)]


def test_reverse_flows_swap_sources_and_destinations() -> None:
    _, near = tunnelled("both", 0)
    _, far = tunnelled("both", 1)
    for row, back in zip(chunks(near["table"]), chunks(far["table"]), strict=True):
        assert back == row[4:8] + row[:4] + row[10:12] + row[8:10] + row[12:]


def test_engines_at_the_underlay_port_have_outer_headers() -> None:
    neutral, _ = tunnelled("decap", 0)
    assert tunnel_args(neutral, 1) == []
    args = tunnel_args(neutral, 0)
    assert args[:4] == ["--encap", "vxlan", "--decap", "vxlan"]
    assert args[5] == neutral.tunnels[0].remote_mac and args[7] == neutral.tunnels[0].local_mac
    port = NodePort(PortKind.VETH, "02:00:00:00:00:01", "")
    assert engine_port(neutral, 0, port).mac == neutral.tunnels[0].station_mac
    assert engine_port(neutral, 1, port) == engine_port(None, 0, port) == port


def test_frames_to_drop_are_sent_only_if_there_are_any() -> None:
    assert "--denied-rate" in sender_args(table("forward+acl", rules=5))
    assert "--denied-rate" not in sender_args(table("route", routes=5))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (trial("route"), True),
        (trial("forward"), False),
        (trial("route", dimension="latency"), False),
    ],
)
def test_round_trips_have_no_flow_table(given: Trial, expected: bool) -> None:
    assert has_flow_table(given) is expected


def test_counts_are_those_between_two_readings() -> None:
    def reading(hop: int, header: int, arrived: int, sent: int) -> Any:
        engine = SimpleNamespace(rx_wrong_next_hop=hop, rx_wrong_header=header, rx_denied=arrived)
        idle = SimpleNamespace(rx_wrong_next_hop=0, rx_wrong_header=0, rx_denied=0)
        return SimpleNamespace(
            applications={"tx0": idle, "rx0": engine}, denied={"tx0": sent, "rx0": 0}
        )

    counts = function_counts(reading(5, 7, 2, 90)).since(function_counts(reading(1, 0, 2, 40)))
    assert counts == FunctionCounts(4, 7, 50, 0)
    assert counts.violations == 11


@pytest.mark.parametrize(
    ("text", "parts"), [("1", (1, None, 1)), ("10k:zipf=1.0:seed=9", (10_000, 1.0, 9))]
)
def test_flows_have_a_number_an_exponent_and_a_seed(
    text: str, parts: tuple[int, float | None, int]
) -> None:
    flows = read_flows(text)
    assert (flows.number, flows.zipf, flows.seed) == parts
    assert not flows.names_fields
    assert read_flows("7:dst-ip").names_fields
