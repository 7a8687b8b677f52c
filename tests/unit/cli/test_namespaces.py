"""Commands that start again in private namespaces, and their refusals there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from switchmark.cli.main import COMMANDS
from switchmark.cli.namespaces import Namespaces, start_again_if_needed
from switchmark.errors import UnavailableError, UsageError
from switchmark.host import place
from switchmark.host.place import Facility
from switchmark.host.private import start
from switchmark.host.private.start import Reason
from switchmark.model.capabilities import available, unavailable

RUN = Namespaces.ON_REQUEST


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[set[Path], Reason]]:
    """The starts, each with the paths that stay usable; nothing is really started."""
    found: list[tuple[set[Path], Reason]] = []

    def start_again(needed: Iterable[Path], reason: Reason) -> None:
        found.append((set(needed), reason))

    monkeypatch.setattr(start, "start_again", start_again)
    monkeypatch.setattr(place, "forget", lambda: None)
    return found


def allow(monkeypatch: pytest.MonkeyPatch, *facilities: Facility) -> None:
    """Let the place allow these facilities and no others."""
    refused = unavailable("refused", "sudo")
    answers = {one: available("yes") if one in facilities else refused for one in Facility}
    monkeypatch.setattr(place, "can", lambda facility: answers[facility])


def test_commands_that_serve_the_network_never_start_again() -> None:
    for name in ("otg", "agent", "pool", "serve", "store", "clean"):
        assert COMMANDS[name].namespaces is Namespaces.NEVER
    requested = {name for name, one in COMMANDS.items() if one.namespaces is Namespaces.ON_REQUEST}
    assert requested == {"run", "trial", "reproduce", "certify"}


def test_user_starts_again_if_only_a_user_namespace_helps(
    monkeypatch: pytest.MonkeyPatch, started: list[tuple[set[Path], Reason]]
) -> None:
    allow(monkeypatch, Facility.NETWORK_NAMESPACE, Facility.USER_NAMESPACE)
    start_again_if_needed(RUN, ["run", "quick"])
    allow(monkeypatch)  # a container: nothing helps
    start_again_if_needed(RUN, ["run", "quick"])
    allow(monkeypatch, Facility.USER_NAMESPACE)
    start_again_if_needed(RUN, ["run", "--help"])
    start_again_if_needed(RUN, ["run", "quick", "--pool", "host:1"])  # others measure
    start_again_if_needed(Namespaces.NEVER, ["show", "--private"])
    assert started == []
    start_again_if_needed(RUN, ["run", "quick", "--results", "/tmp/here"])
    ((paths, reason),) = started
    assert reason is Reason.NEED and Path("/tmp/here") in paths


def test_root_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, started: list[tuple[set[Path], Reason]]
) -> None:
    allow(monkeypatch, Facility.NETWORK_NAMESPACE, Facility.USER_NAMESPACE)
    start_again_if_needed(RUN, ["run", "quick", "--private"])
    assert [reason for _, reason in started] == [Reason.CHOICE]
    allow(monkeypatch, Facility.NETWORK_NAMESPACE)
    with pytest.raises(UnavailableError, match="--private: refused; sudo"):
        start_again_if_needed(RUN, ["run", "quick", "--private"])


@pytest.mark.parametrize("option", ["--store", "--metrics", "--testbed"])
def test_options_that_need_the_network_are_refused(
    option: str, monkeypatch: pytest.MonkeyPatch, started: list[tuple[set[Path], Reason]]
) -> None:
    allow(monkeypatch, Facility.USER_NAMESPACE)
    with pytest.raises(UsageError, match=f"^{option}: needs the network"):
        start_again_if_needed(RUN, ["run", "quick", f"{option}=x"])
    assert started == []
