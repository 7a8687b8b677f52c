"""The checks of every switch before it changes the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.errors import UnavailableError, UsageError
from switchmark.host.process_output import NOTHING
from switchmark.host.programs import find_program
from switchmark.model.capabilities import Capabilities, unavailable
from switchmark.model.ports import ConnectMode, PortKind, SwitchPort
from switchmark.switch.registry import SWITCHES, make_switch
from switchmark.switch.support.ports import (
    check_request,
    device_of,
    how_it_ended,
    peer_index,
    require,
    socket_of,
)
from switchmark.switch.support.private import SOCKET_PATH_MAX, check_socket_path
from switchmark.switch.support.tools import version_text

CAN = Capabilities((PortKind.VETH,), (ConnectMode.LEARNING,), polling=False, max_ports=4)


def port(index: int, kind: PortKind = PortKind.VETH) -> SwitchPort:
    return SwitchPort(index, kind, f"02:00:00:00:00:{index:02x}")


def test_good_request_passes() -> None:
    check_request("x", CAN, [port(0), port(1)], ConnectMode.LEARNING)


@pytest.mark.parametrize(
    ("ports", "mode", "message"),
    [
        ([port(0), port(1)], ConnectMode.STATIC_MAC, "x: connect mode static-mac .*can: learning"),
        ([port(0), port(1, PortKind.TAP)], ConnectMode.LEARNING, "port 1 is tap; it takes: veth"),
        ([], ConnectMode.LEARNING, "in pairs.*none"),
        ([port(0)], ConnectMode.LEARNING, "in pairs"),
        ([port(1), port(0)], ConnectMode.LEARNING, r"got: 1, 0"),
        ([port(k) for k in range(6)], ConnectMode.LEARNING, "6 ports, it takes at most 4"),
    ],
)
def test_bad_request_is_reported_by_name(
    ports: list[SwitchPort], mode: ConnectMode, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        check_request("x", CAN, ports, mode)


def test_ports_without_their_place() -> None:
    with pytest.raises(UsageError, match=r"port 3: .* name of its device"):
        device_of(port(3))
    with pytest.raises(UsageError, match=r"port 3: .* path of its socket"):
        socket_of(port(3, PortKind.VHOST_USER))


def test_peers() -> None:
    assert [peer_index(index) for index in range(4)] == [1, 0, 3, 2]


def test_unavailable_carries_reason_and_remedy() -> None:
    with pytest.raises(UnavailableError, match="x: no such thing; apt install thing"):
        require("x", unavailable("no such thing", remedy="apt install thing"))
    with pytest.raises(UnavailableError, match=r"^x: no such thing$"):
        require("x", unavailable("no such thing"))


def test_socket_path_limit() -> None:
    longest = "/" + "x" * (SOCKET_PATH_MAX - 1)
    assert check_socket_path(longest) == longest
    with pytest.raises(UnavailableError, match="108 bytes"):
        check_socket_path(longest + "x")
    with pytest.raises(UnavailableError, match="109 bytes"):  # bytes count, not characters
        check_socket_path("/" + "é" * 54)


def test_setting_goes_before_the_usual_places(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SWITCHMARK_X", raising=False)
    assert find_program("SWITCHMARK_X", ["/nowhere/x", "sh"]) == Path("/usr/bin/sh")
    monkeypatch.setenv("SWITCHMARK_X", str(tmp_path / "missing"))
    assert find_program("SWITCHMARK_X", ["sh"]) is None


def test_version_of_a_program_that_does_not_run(tmp_path: Path) -> None:
    program = tmp_path / "broken"
    program.write_text("\x7fELF nonsense")
    program.chmod(0o755)
    assert version_text(program) == ""


def test_registry_names_are_the_switches_own() -> None:
    assert {name: make_switch(name).name for name in SWITCHES} == {name: name for name in SWITCHES}
    with pytest.raises(UsageError, match="switch brigde: not known; known switches: af-packet, "):
        make_switch("brigde")


@pytest.mark.parametrize("name", SWITCHES)
def test_capabilities_are_complete(name: str) -> None:
    capabilities = make_switch(name).capabilities
    assert capabilities.port_kinds
    assert capabilities.connect_modes
    assert capabilities.description
    assert len(set(capabilities.connect_modes)) == len(capabilities.connect_modes)


def test_how_a_program_ended() -> None:
    assert how_it_ended(1, "no memory") == "ended with code 1: no memory"
    assert how_it_ended(1, NOTHING) == "ended with code 1: it printed nothing"
    assert how_it_ended(-6, "assertion") == "was ended by SIGABRT: assertion"
    killed = "was ended by SIGKILL, from another process or from the kernel for lack of memory"
    assert how_it_ended(-9, NOTHING) == killed, "it could not say anything"
    assert how_it_ended(-9, "up") == f"{killed}: up"
