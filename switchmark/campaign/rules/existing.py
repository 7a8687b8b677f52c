"""Refusals of networks that exist already: the keys that name them, and what cannot be done there.

Only the keys are read here. The guard rails look at the network itself before a run starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from switchmark.campaign.rules.workload import runs
from switchmark.errors import Refusal
from switchmark.method.registry import METHODS
from switchmark.model.campaign import Sweep
from switchmark.model.choices import PLAIN
from switchmark.model.options import in_force
from switchmark.switch.existing import NONE, Existing

EXISTING = Existing.name
TWO_PROTOCOLS = ("iperf3", "udp-stream")  # the program and workload that need UDP and TCP


def existing_refusals(sweep: Sweep, switch: str) -> Iterator[Refusal]:
    """Return why the sweep cannot be measured in a network of the user."""
    if switch != EXISTING:
        given = {
            "endpoints": any(sweep.endpoints),
            "addresses": any(sweep.addresses),
            "max_rate": any(sweep.max_rate_pps),
            "abort_if": any(sweep.abort_if),
        }
        for key, is_given in given.items():
            if is_given:
                yield Refusal(
                    f"{key} belongs to switch {EXISTING}, and {switch} makes its own network",
                    f"leave {key} out, or give {EXISTING} a separate sweep",
                    key=key,
                )
        return
    for endpoints, addresses, options in product(
        sweep.endpoints, sweep.addresses, sweep.switch_options
    ):
        values = in_force(Existing.capabilities, options.chosen)
        yield from _network_refusals(
            bool(endpoints), bool(addresses), values["attach"], values["attach_vlan"]
        )
    yield from _setting_refusals(sweep)
    if TWO_PROTOCOLS in set(runs(sweep)) and any(
        endpoints and endpoints.through is not None for endpoints in sweep.endpoints
    ):
        yield Refusal(
            "iperf3 sends datagrams only beside a TCP connection to the same port, and an address "
            "can lead the two to different ports",
            "use generator: switchmark",
            key="generator",
        )
    for method in sweep.method:
        if method != PLAIN and METHODS[method].restarts_switch:
            yield Refusal(
                f"method {method} restarts the switch, and {EXISTING} is a network of the user",
                "use another method",
                key="method",
            )


def _setting_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Settings of devices and routes, which the bench makes only for its own ends."""
    for key, is_given in (
        ("offload", "off" in sweep.offload),
        ("congestion_control", any(sweep.congestion_control)),
    ):
        if is_given:
            yield Refusal(
                f"{EXISTING} is a network of the user, whose devices and routes stay as they are",
                f"leave {key} out; the record has the setting in force",
                key=key,
            )


def _network_refusals(
    endpoints: bool, addresses: bool, attach: str, attach_vlan: str
) -> Iterator[Refusal]:
    attaches, by_docker = attach != NONE, attach.startswith("docker:")
    if endpoints == attaches:
        both = "both are given" if endpoints else "neither is given"
        yield Refusal(
            f"{EXISTING} needs two endpoints or a network to attach to, and {both}",
            "write endpoints: A+B, or switch_options: {attach: NETWORK}",
            key="endpoints",
        )
        return
    if attaches and not by_docker and not addresses:
        yield Refusal(
            f"attach {attach}: the two ends need free addresses of that network",
            "write e.g. addresses: 10.77.0.201/24+10.77.0.202/24",
            key="addresses",
        )
    if addresses and (endpoints or by_docker):
        owner = "Docker chooses the addresses" if by_docker else "endpoints have their addresses"
        yield Refusal(owner, "leave addresses out", key="addresses")
    if attach_vlan != NONE and (by_docker or not attaches):
        yield Refusal(
            "attach_vlan is the VLAN of an end at a Linux bridge or at Open vSwitch",
            "leave attach_vlan out",
            key="switch_options",
        )
