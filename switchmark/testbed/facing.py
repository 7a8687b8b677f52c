"""Whether an interface can be lent to a switch as the end of a cable, or to a tester.

They take their ports into a namespace of their own. An interface that the host itself uses
would be cut off by that, so one with an address, or one that belongs to something else, is
refused before anything is touched.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from switchmark.errors import UnavailableError
from switchmark.testbed.host import Host

PLAIN_QDISCS = ("noqueue", "noop", "mq", "pfifo_fast", "fq_codel", "fq", "pfifo")


PCI_DEVICES = Path("/sys/bus/pci/devices")
FOR_DPDK = ("vfio-pci", "uio_pci_generic", "igb_uio")  # drivers that hand a function over


def pci_problem(address: str) -> str | None:
    """Why DPDK cannot have this PCI function, and the remedy; None when it can."""
    function = PCI_DEVICES / address
    if not function.exists():
        return "is not there; lspci -D lists what is"
    driver = (function / "driver").resolve().name if (function / "driver").exists() else "no driver"
    if driver in FOR_DPDK:
        return None
    return f"is held by {driver}, not by one for DPDK; dpdk-devbind.py -b vfio-pci {address}"


def check_facing(host: Host, device: str, mtu_bytes: int) -> None:
    """Raises UnavailableError that says why the interface cannot be lent, and the remedy."""
    if (problem := _problem(host, device, mtu_bytes)) is not None:
        raise UnavailableError(f"interface {device}: {problem}")


def _problem(host: Host, device: str, mtu_bytes: int) -> str | None:
    answer = host.run(["ip", "-j", "-d", "addr", "show", "dev", device], check=False)
    found: list[dict[str, Any]] = json.loads(answer.stdout or "[]") if not answer.exit_code else []
    if not found:
        return "is not there; name another one"
    return _in_use(found[0]) or _unfit(found[0], mtu_bytes)


def _in_use(link: dict[str, Any]) -> str | None:
    if "LOOPBACK" in link["flags"]:
        return "is the loopback; name the one that the cable is plugged into"
    addresses = [
        f"{one['local']}/{one['prefixlen']}"
        for one in link.get("addr_info", [])
        if one.get("scope") != "link"
    ]
    if addresses:
        return (
            f"has the address {addresses[0]}, and the host would lose it for the time of a trial; "
            "name an interface without addresses"
        )
    if master := link.get("master"):
        return f"belongs to {master}; take it out of there, or name another one"
    return None


def _unfit(link: dict[str, Any], mtu_bytes: int) -> str | None:
    if (queue := link.get("qdisc", "noqueue")) not in PLAIN_QDISCS:
        return (
            f"has the queueing discipline {queue}, which would be lost when a switch takes the "
            "interface; remove it (tc qdisc del), or name another one"
        )
    if link["mtu"] < mtu_bytes:
        return f"carries {link['mtu']} bytes, {mtu_bytes} are needed; ip link set mtu {mtu_bytes}"
    return None
