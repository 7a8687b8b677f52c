"""The routing table of the kernel: the lines of `ip` for the neutral table."""

from __future__ import annotations

import pytest

from switchmark.model.functions import FunctionList
from switchmark.switch.support.kernel_routes import (
    address_lines,
    announced_routes,
    host_lines,
    settings_of,
)
from switchmark.switch.support.xdp_router import Router
from tests.integration.function_rig import right_table, trial_of

DEVICES = {0: "p0", 1: "p1"}


@pytest.mark.parametrize(("version", "bits"), [(4, 32), (6, 128)])
def test_lines_for_hosts_and_neighbours(version: int, bits: int) -> None:
    """Each port has its address, and each host its route."""
    trial = trial_of("linux-router", function=FunctionList.of("route"), routes=50,
                     ip_version=version)  # fmt: skip
    table, _ = right_table(trial)
    addresses = list(address_lines(table, DEVICES))
    assert sum(line.startswith("neighbor replace") for line in addresses) == 2 + 4
    assert f"link set dev p1 address {table.ports[1].mac}" in addresses
    lines = list(host_lines(table, DEVICES))
    assert lines[1] == f"route add {table.ports[0].host}/{bits} dev p0"
    assert len(set(lines)) == 3
    assert announced_routes(table) == 54


def test_router_of_ipv6_turns_ipv6_on_and_stays_silent() -> None:
    """No router advertisement is read, and no address is made or tested."""
    settings = dict(settings_of(["p0"], 6))
    assert settings["ipv6/conf/all/disable_ipv6"] == "0"
    assert settings["ipv6/conf/p0/addr_gen_mode"] == "1"
    assert settings["ipv6/conf/all/forwarding"] == "1"
    assert list(settings).index("ipv6/conf/p0/addr_gen_mode") < list(settings).index(
        "ipv6/conf/all/disable_ipv6"
    )


@pytest.mark.parametrize("version", [4, 6])
def test_program_of_xdp_differs_only_by_its_ttl(version: int) -> None:
    """The planted error leaves out the instructions for TTL and checksum, and nothing else."""
    right = Router(1, "02:72:00:00:00:01", version, 3, 4)
    wrong = Router(1, "02:72:00:00:00:01", version, 3, 4, decrements_ttl=False)
    assert (len(right.program()) - len(wrong.program())) // 8 == (9 if version == 4 else 3)
