"""`switchmark doctor` in words: the kind of place, what can be measured in it, what cannot with the
shortest remedy, each reason once, in lines that fit on a screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from switchmark.cli import doctor, doctor_lines
from switchmark.cli.main import run
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.host import place
from switchmark.host.diagnosis import Finding, Level
from switchmark.host.place import Facility, Kind, remedies
from switchmark.model.capabilities import Availability, available, unavailable
from switchmark.switch.basicfwd import BasicForwarder
from switchmark.switch.registry import SWITCHES

YES = available("1.0")


def answers(kind: Kind, *refused: Facility) -> dict[Facility, Availability]:
    return {
        one: remedies.refusal(one, kind, "Operation not permitted") if one in refused else YES
        for one in Facility
    }


def lines(
    kind: Kind, switches: Mapping[str, Availability], environments: Mapping[str, Availability]
) -> list[str]:
    return list(doctor_lines.place_lines(kind, switches, environments))


def test_place_in_a_container() -> None:
    no = answers(Kind.CONTAINER, Facility.NETWORK_NAMESPACE)[Facility.NETWORK_NAMESPACE]
    absent = unavailable("program `vpp` not found", "apt install vpp")
    switches = {"basicfwd": YES, "linux-bridge": no, "macvlan": no, "vpp": absent}
    assert lines(Kind.CONTAINER, switches, {"bare": available(None), "netns": no}) == [
        "place: an ordinary container, which takes most privileges away, also from root",
        "",
        "can be measured here",
        "  basicfwd  1.0",
        "  in the environment bare",
        "",
        "cannot be measured here",
        "  linux-bridge, macvlan, environment netns: this container cannot make network namespaces "
        "(Operation",
        "    not permitted)",
        "    remedy: docker run --privileged, or use environment=bare with switches whose ports "
        "are sockets",
        "      (such as basicfwd)",
        "  vpp: program `vpp` not found",
        "    remedy: apt install vpp",
    ]


@pytest.mark.parametrize("kind", Kind)
def test_each_kind_of_place_has_words(kind: Kind) -> None:
    assert lines(kind, {}, {})[0].startswith("place: ")


def test_nothing_is_cannot_if_all_can() -> None:
    shown = lines(Kind.ROOT, {"basicfwd": YES}, {"bare": YES, "netns": YES})
    assert "cannot be measured here" not in shown
    assert shown[-1] == "  in the environments bare, netns"


def test_facilities_that_all_are_there_are_not_listed() -> None:
    assert list(doctor_lines.facility_lines(Kind.ROOT, answers(Kind.ROOT), {})) == []


def test_facility_without_consequence_is_not_listed() -> None:
    """Physical addresses are for Snabb alone, which names them itself."""
    found = answers(Kind.ROOT, Facility.PHYSICAL_ADDRESSES, Facility.NETWORK_DEVICE)
    assert list(doctor_lines.facility_lines(Kind.ROOT, found, {})) == []


def test_reason_is_printed_once() -> None:
    found = answers(Kind.CONTAINER, Facility.BPF)
    output = {"xdp-redirect": found[Facility.BPF]}
    assert list(doctor_lines.facility_lines(Kind.CONTAINER, found, output)) == []


def test_missing_facility_is_reported_with_consequence() -> None:
    found = answers(Kind.CONTAINER, Facility.HUGEPAGES, Facility.MEMORY_POLICY, Facility.PERF)
    shown = list(doctor_lines.facility_lines(Kind.CONTAINER, found, {}))
    assert sum("DPDK uses 4 KiB pages" in line for line in shown) == 1
    consequence = "cycles and instructions per frame are not recorded"
    assert f"  {consequence} (remedy: docker run --cap-add PERFMON)" in shown


@pytest.mark.parametrize(
    ("kind", "refused", "is_printed"),
    [
        (Kind.USER, (Facility.USER_NAMESPACE,), False),  # in the namespaces of the run
        (Kind.USER, (Facility.USER_NAMESPACE, Facility.NETWORK_NAMESPACE), True),
        (Kind.ROOT, (Facility.USER_NAMESPACE,), True),
    ],
)
def test_user_namespaces_are_named_if_they_would_help(
    kind: Kind, refused: tuple[Facility, ...], is_printed: bool
) -> None:
    shown = "\n".join(doctor_lines.facility_lines(kind, answers(kind, *refused), {}))
    assert ("private namespaces" in shown) is is_printed


def test_lines_fit_on_a_screen() -> None:
    long = Finding("topic", "seen " * 30, Level.POOR, "meaning " * 40, "remedy " * 30)
    good = Finding("other", "seen " * 30, Level.GOOD, "well")
    shown = list(doctor_lines.machine_lines("machine: " + "x " * 90, [good, long]))
    assert all(len(line) <= 100 for line in shown)
    assert [line[:7] for line in shown if line.startswith("  ") and line[2] != " "][-1] == "  good "


def test_doctor_is_not_able_where_ports_have_no_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A switch that could run is of no use if no environment can give it its ports."""
    for name, make in SWITCHES.items():
        answer = YES if name in ("linux-bridge", "direct") else unavailable("absent")
        monkeypatch.setattr(make, "availability", lambda _, answer=answer: answer)
    for make in ENVIRONMENTS.values():
        monkeypatch.setattr(make, "availability", lambda _: unavailable("no room", "make room"))
    qemu = ENVIRONMENTS["qemu"]  # has no veth
    monkeypatch.setattr(qemu, "availability", lambda _: YES)
    monkeypatch.setattr(qemu, "port_kinds", lambda _: ())
    monkeypatch.setattr(doctor, "_engine", lambda: YES)
    monkeypatch.setattr(place, "can", lambda _: YES)
    assert run(["doctor", "--watch", "0"]) == 3
    shown = capsys.readouterr().out
    assert "linux-bridge: no environment with its ports (veth, tap) can run here: no room" in shown
    assert shown.splitlines()[-1] == "nothing can be measured: no switch is available"


def test_switch_that_polls_needs_a_second_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container with `--cpus 1.5`, `run` would refuse it."""
    monkeypatch.setattr(BasicForwarder, "availability", lambda _: YES)
    monkeypatch.setattr(doctor, "without_dpdk", lambda _: None)
    limits = replace(place.limits(), cpu_quota=None, allowed_cpus=(0, 1))
    assert doctor._somewhere(BasicForwarder(), {"bare": YES}, limits).available
    answer = doctor._somewhere(BasicForwarder(), {"bare": YES}, replace(limits, cpu_quota=1.5))
    assert not answer.available and "this process has a CPU quota of 1.5" in answer.reason
