"""The reference switch's faults are options: read strictly, handed on as the engine names them."""

from __future__ import annotations

import pytest

from switchmark.errors import UsageError
from switchmark.model.ports import PortKind, SwitchPort
from switchmark.switch.af_packet import AfPacket
from switchmark.switch.reference import Reference


def test_it_has_the_io_of_af_packet_without_its_option() -> None:
    port = SwitchPort(0, PortKind.VETH, "02:53:4d:00:00:01", device="v0")
    assert Reference()._port_of(port) == AfPacket()._port_of(port) == "raw:dev=v0,mmsg"


def with_faults(**faults: str) -> Reference:
    switch = Reference()
    switch.configure(faults)
    return switch


def test_without_options_it_has_no_fault() -> None:
    assert Reference().faults == {}
    assert with_faults(drop_every="0", limit_burst="256").faults == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [("loss", "1"), ("drop_every", ""), ("drop_every", "-1"), ("drop_every", "0.5"),
     ("drop_share", "1.5"), ("drop_share", ".5"), ("drop_share", "1e-3"), ("jitter", "gauss")],
)  # fmt: skip
def test_unknown_fault_is_refused(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name):
        with_faults(**{name: value})


def test_faults_become_words_of_the_engine() -> None:
    switch = with_faults(limit_pps="100", drop_share="0.25", jitter_us="20", jitter="normal")
    assert switch.faults == {
        "limit-pps": "100", "drop-share": "0.25", "jitter-us": "20", "jitter": "normal",
    }  # fmt: skip
    arguments = switch._more_arguments("s1f0")
    assert arguments[arguments.index("--drop-share") + 1] == "0.25"
