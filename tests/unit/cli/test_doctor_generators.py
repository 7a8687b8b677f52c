"""`doctor` names the optional programs, and one command for those that a package has."""

from __future__ import annotations

from switchmark.cli.doctor_lines import generator_lines
from switchmark.model.capabilities import Availability, available, unavailable


def shown(generators: dict[str, Availability]) -> str:
    return " ".join(" ".join(generator_lines(generators)).split())


def test_missing_generators_have_one_command_for_all_packages() -> None:
    text = shown(
        {
            "iperf3": available("3.12"),
            "redis-benchmark": unavailable("not found", "apt install redis-tools"),
            "memtier": unavailable("not found", "build memtier"),
            "nginx": unavailable("not found", "apt install nginx-light"),
            "sockperf": unavailable("not found", "apt install redis-tools"),
        }
    )
    assert "optional programs that make traffic: iperf3 3.12 " in text
    assert "not installed: apt install nginx-light redis-tools memtier: build memtier" in text


def test_without_generators_none_is_named() -> None:
    assert "none installed" in shown({"iperf3": unavailable("not found", "apt install iperf3")})
