"""Where frames were lost, from counters that are set by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from switchmark.model.ports import PortCounters, Split, SwitchCounters
from switchmark.record import Reconciliation, Stage
from switchmark.trial.reconcile import CounterReading, DeviceDrops, reconcile
from switchmark.trial.verification import PairEnds
from tests.unit.engine_lines import counted
from tests.unit.trial_fakes import FakeEngine, process

SENT = 1_000_000


def reading(
    *,
    sent: int = SENT,
    arrived: int = SENT,
    entry: PortCounters | None = None,
    leaving: PortCounters | None = None,
    socket_drops: int = 0,
    tx_drops: int = 0,
    rx_drops: int = 0,
    not_sent: int = 0,
) -> CounterReading:
    return CounterReading(
        applications={
            "se0": counted(tx_offered=sent, tx_dropped=not_sent),
            "re0": counted(rx_stream=arrived, rx_socket_drops=socket_drops),
        },
        devices={"se0": DeviceDrops(tx=tx_drops), "re0": DeviceDrops(rx=rx_drops)},
        switch=SwitchCounters({0: entry, 1: leaving} if entry and leaving else {}),
    )


def ends() -> list[PairEnds]:
    return [PairEnds(process(FakeEngine(), "sender"), process(FakeEngine(), "receiver"))]


BEFORE = reading(sent=0, arrived=0, entry=PortCounters(50, 60), leaving=PortCounters(60, 50))


def found(after: CounterReading, before: CounterReading = BEFORE):  # type: ignore[no-untyped-def]
    return reconcile(ends(), before, after)


def port_pair(
    rx: int, tx: int, rx_dropped: int = 0, tx_dropped: int = 0
) -> dict[str, PortCounters]:
    """Return counters of the sender's and the receiver's port since `BEFORE`."""
    return {
        "entry": PortCounters(50 + rx, 60, rx_dropped, 0),
        "leaving": PortCounters(60, 50 + tx, 0, tx_dropped),
    }


def stages(after: CounterReading) -> list[tuple[int, int, int]]:
    (path,) = found(after).paths
    return [(stage.lost, stage.counted, stage.unexplained) for stage in path.stages]


def test_loss_of_the_cable_is_explained_separately() -> None:
    """Of 1000 frames that a path lacks, the cable lost 700, and its near end dropped 200."""

    def with_cable(after: CounterReading, out: PortCounters, into: PortCounters) -> CounterReading:
        return replace(after, switch=SwitchCounters({**after.switch.ports, 2: out, 3: into}))

    passed = SENT - 1000
    after = with_cable(
        reading(arrived=passed, **port_pair(SENT, passed)),  # type: ignore[arg-type]
        PortCounters(0, SENT - 200, 0, 200),
        PortCounters(SENT - 900, 0),
    )
    before = with_cable(BEFORE, PortCounters(0, 0), PortCounters(0, 0))
    result = reconcile(ends(), before, after, cable=(2, 3))
    (path,) = result.paths
    between = path.stages[1]
    assert between.place == "between the hosts"
    assert (between.lost, between.counted, between.unexplained) == (1000, 900, 100)
    assert result.cable_lost == 700
    assert "700 frames lost on the cable between the hosts" in result.findings


def test_switch_counters_only_at_cable_leave_other_loss() -> None:
    """VALE counts nothing at its own ports. Of 1000 frames that a path lacks, the cable's ends say
    that it lost 700; nobody says where the others went."""

    def at_cable(sent: int, arrived: int, *ends: int) -> CounterReading:
        out, into = (PortCounters(*both) for both in ((0, ends[0]), (ends[1], 0)))
        counted = SwitchCounters({2: out, 3: into})
        return replace(reading(sent=sent, arrived=arrived), switch=counted)

    before = at_cable(0, 0, 0, 0)
    result = reconcile(ends(), before, at_cable(5000, 4000, 4900, 4200), cable=(2, 3))
    (path,) = result.paths
    assert path.switch_received is None and path.switch_sent is None
    assert [(one.place, one.lost, one.counted) for one in path.stages] == [
        ("between the hosts", 1000, 700)
    ]
    assert result.cable_lost == 700 and result.unexplained_frames == 300 and not result.agrees


def test_on_a_bare_cable_is_lost_what_no_application_dropped() -> None:
    after = reading(arrived=SENT - 1000, socket_drops=300)
    result = reconcile(ends(), reading(sent=0, arrived=0), after, cable=(2, 3))
    ((between,),) = (path.stages for path in result.paths)
    assert (between.place, between.lost, between.unexplained) == ("between the hosts", 1000, 0)
    assert result.cable_lost == 700 and result.agrees


def test_nothing_lost() -> None:
    result = found(reading(**port_pair(SENT, SENT)))  # type: ignore[arg-type]
    assert result.agrees and result.findings == []
    assert (result.sent, result.unexplained_frames, result.unexplained_ratio) == (SENT, 0, 0)
    assert [path.sender for path in result.paths] == ["se0"], "nobody sent the other way"


@pytest.mark.parametrize(
    ("after", "expected", "agrees"),
    [
        # The sender's own device dropped what its port had accepted.
        (
            reading(arrived=SENT - 500, tx_drops=500, **port_pair(SENT - 500, SENT - 500)),  # type: ignore[arg-type]
            [(500, 500, 0), (0, 0, 0), (0, 0, 0)],
            True,
        ),
        # The switch refused frames on arrival, and did not count them as received ...
        (
            reading(
                arrived=SENT - 500,
                **port_pair(SENT - 500, SENT - 500, rx_dropped=500),  # type: ignore[arg-type]
            ),
            [(500, 500, 0), (0, 0, 0), (0, 0, 0)],
            True,
        ),
        # ... or did.
        (
            reading(arrived=SENT - 500, **port_pair(SENT, SENT - 500, rx_dropped=500)),  # type: ignore[arg-type]
            [(0, 0, 0), (500, 500, 0), (0, 0, 0)],
            True,
        ),
        # The receiver's ring was full, partly: the rest is gone without a word.
        (
            reading(arrived=SENT - 500, **port_pair(SENT, SENT - 500, tx_dropped=300)),  # type: ignore[arg-type]
            [(0, 0, 0), (500, 300, 200), (0, 0, 0)],
            False,
        ),
        # A hundred in a million is the most that may be unexplained.
        (
            reading(arrived=SENT - 100, **port_pair(SENT, SENT - 100)),  # type: ignore[arg-type]
            [(0, 0, 0), (100, 0, 100), (0, 0, 0)],
            True,
        ),
        # Delivered, and dropped at the application's socket or device.
        (
            reading(
                arrived=SENT - 500,
                socket_drops=400,
                rx_drops=100,
                **port_pair(SENT, SENT),  # type: ignore[arg-type]
            ),
            [(0, 0, 0), (0, 0, 0), (500, 500, 0)],
            True,
        ),
        # Copies.
        (
            reading(arrived=SENT + 500, **port_pair(SENT, SENT + 500)),  # type: ignore[arg-type]
            [(0, 0, 0), (-500, 0, -500), (0, 0, 0)],
            False,
        ),
    ],
)
def test_where_frames_were_lost(
    after: CounterReading, expected: list[tuple[int, int, int]], agrees: bool
) -> None:
    assert stages(after) == expected
    assert found(after).agrees is agrees


def test_drop_counter_explains_at_most_the_loss() -> None:
    assert stages(reading(arrived=SENT - 5, **port_pair(SENT, SENT - 5, tx_dropped=9))) == [  # type: ignore[arg-type]
        (0, 0, 0),
        (5, 9, 0),
        (0, 0, 0),
    ]


def test_a_wire_has_one_stage() -> None:
    empty = reading(sent=0, arrived=0)
    result = found(reading(arrived=SENT - 500, socket_drops=200), empty)
    (path,) = result.paths
    assert (path.switch_received, path.switch_sent) == (None, None)
    assert [(s.place, s.lost, s.unexplained) for s in path.stages] == [("on the wire", 500, 300)]
    assert not result.agrees
    assert result.findings == [
        "pair 0, se0 to re0: 500 frames lost on the wire, 300 of them counted nowhere"
    ]


def test_frames_not_sent_are_reported_and_not_lost() -> None:
    result = found(reading(not_sent=7, **port_pair(SENT, SENT)))  # type: ignore[arg-type]
    assert result.agrees
    assert result.findings == ["pair 0, se0 to re0: 7 frames not sent, given up by the sender"]


def test_both_ways_of_a_round_trip() -> None:
    before, after = reading(sent=0, arrived=0), reading()
    after.applications["re0"] = counted(tx_offered=900, rx_stream=SENT)
    after.applications["se0"] = counted(tx_offered=SENT, rx_stream=890)
    result = found(after, before)
    assert [(p.sender, p.sent, p.arrived) for p in result.paths] == [
        ("se0", SENT, SENT),
        ("re0", 900, 890),
    ]
    assert result.sent == SENT + 900


def test_a_stage_that_does_not_add_up_is_refused() -> None:
    with pytest.raises(ValidationError, match="is not what is left unexplained"):
        Stage(place="in the switch", lost=5, counted=3, unexplained=1)


def chain(arrived: int, vnf_dropped: int, inner: PortCounters) -> CounterReading:
    """One VNF between ports 1 and 2 of the switch; the sender is at 0, the receiver at 3."""
    last = reading(arrived=arrived)
    ports = {0: PortCounters(SENT, 0), 1: inner, 2: PortCounters(0, 0)}
    ports[3] = PortCounters(0, arrived)
    return replace(last, switch=SwitchCounters(ports), vnfs={"v0-1": vnf_dropped})


NOTHING = replace(reading(sent=0, arrived=0), switch=SwitchCounters(dict.fromkeys(
    range(4), PortCounters(0, 0))), vnfs={"v0-1": 0})  # fmt: skip


def test_a_chain_is_followed_from_its_first_port_to_its_last() -> None:
    after = chain(SENT - 700, 500, PortCounters(0, SENT, 0, 200))
    found = reconcile(ends(), NOTHING, after, [("v0-1",)])
    (path,) = found.paths
    assert [stage.place for stage in path.stages] == [
        "into the switch", "in the chain", "out of the switch",
    ]  # fmt: skip
    middle = path.stages[1]
    assert (middle.lost, middle.counted, middle.unexplained) == (700, 700, 0)
    assert (path.switch_received, path.switch_sent) == (SENT, SENT - 700)
    assert found.agrees and "700 frames lost in the chain" in found.findings[0]
    silent = chain(SENT - 700, 0, PortCounters(0, SENT))
    assert not reconcile(ends(), NOTHING, silent, [("v0-1",)]).agrees


def test_every_chain_is_counted_by_itself() -> None:
    """Two chains of one VNF: ports 0, then 1 and 2, then 3 and 4, then 5."""
    split = Split("src-mac", 2, 1, ())

    def counted(*carried: tuple[int, int]) -> CounterReading:
        ports = {0: PortCounters(SENT, 0), 5: PortCounters(0, SENT)}
        for (head, tail), (entered, left) in zip(((1, 2), (3, 4)), carried, strict=True):
            ports |= {head: PortCounters(0, entered), tail: PortCounters(left, 0)}
        return replace(reading(), switch=SwitchCounters(ports))

    via = [("v0-1", "v1-1")]
    before, after = counted((5, 5), (7, 7)), counted((105, 105), (207, 197))
    found = reconcile(ends(), before, after, via, split=split)
    assert [(one.chain, one.entered, one.left) for one in found.chains] == [
        (0, 100, 100),
        (1, 200, 190),
    ]
    assert reconcile(ends(), before, after, via).chains == []


def test_program_that_ends_connections_sends_own_packets() -> None:
    """Such a program may send a different number of packets, without a loss."""
    after = reading(**port_pair(SENT, SENT + 500), arrived=SENT + 500)
    assert not found(after).agrees
    relayed = reconcile(ends(), BEFORE, after, ends_connections=True)
    assert relayed.agrees and relayed.findings == [] and relayed.unexplained_frames == 0
    (path,) = relayed.paths
    assert [stage.place for stage in path.stages][1] == "in the relay"
    assert Reconciliation.model_validate_json(relayed.model_dump_json()) == relayed
    lost = reading(**port_pair(SENT, SENT + 500), arrived=SENT)
    assert reconcile(ends(), BEFORE, lost, ends_connections=True).unexplained_frames == 500
