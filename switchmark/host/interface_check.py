"""Checks whether an interface, or a NIC, can be lent to a switch as the end of a cable, or to a
tester.

They take their ports into a separate namespace. An interface that the host itself uses would be
cut off by that, so one with an address, or one that belongs to something else, is refused before
anything is touched. A NIC named by its PCI address must be bound to DPDK already: the bench takes
none away from the kernel.
"""

from __future__ import annotations

import json
from typing import Any

from switchmark.errors import Refusal, UnavailableError
from switchmark.host.host import Host
from switchmark.host.kernel.pci import pci_address, pci_problem
from switchmark.host.process_output import parsing

PLAIN_QDISCS = ("noqueue", "noop", "mq", "pfifo_fast", "fq_codel", "fq", "pfifo")


def check_facing(host: Host, device: str, mtu_bytes: int) -> None:
    """Raise UnavailableError, with the remedy, where the interface, or the NIC of this PCI address,
    cannot be lent."""
    if (address := pci_address(device)) is not None:
        if (problem := pci_problem(address)) is not None:
            raise UnavailableError(problem.about(f"PCI device {address}: "))
    elif (problem := _problem(host, device, mtu_bytes)) is not None:
        raise UnavailableError(problem.about(f"interface {device}: "))


def _problem(host: Host, device: str, mtu_bytes: int) -> Refusal | None:
    answer = host.run(["ip", "-j", "-d", "addr", "show", "dev", device], check=False)
    with parsing("ip -j"):
        found = json.loads(answer.stdout or "[]") if not answer.exit_code else []
        if not found:
            return Refusal("is not there", "name another one")
        return _in_use(found[0]) or _unfit(found[0], mtu_bytes)


def _in_use(link: dict[str, Any]) -> Refusal | None:
    if "LOOPBACK" in link["flags"]:
        return Refusal("is the loopback", "name the one that the cable is plugged into")
    addresses = [
        f"{one['local']}/{one['prefixlen']}"
        for one in link.get("addr_info", [])
        if one.get("scope") != "link"
    ]
    if addresses:
        return Refusal(
            f"has the address {addresses[0]}, and the host would lose it for the time of a trial",
            "name an interface without addresses",
        )
    if master := link.get("master"):
        return Refusal(f"belongs to {master}", "take it out of there, or name another one")
    return None


def _unfit(link: dict[str, Any], mtu_bytes: int) -> Refusal | None:
    if (queue := link.get("qdisc", "noqueue")) not in PLAIN_QDISCS:
        return Refusal(
            f"has the queueing discipline {queue}, which would be lost when a switch takes the "
            "interface",
            "remove it (tc qdisc del), or name another one",
        )
    if link["mtu"] < mtu_bytes:
        return Refusal(
            f"carries {link['mtu']} bytes, {mtu_bytes} are needed", f"ip link set mtu {mtu_bytes}"
        )
    return None
