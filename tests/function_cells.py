"""The table of planted errors: for each switch and error, the test that shows that it is found.

A row has switches, the name of a planted error (tests/function_mutations.py), and a regular
expression for the test, in which SWITCH_NAME, SWITCH (of Open vSwitch the class) and ERROR stand
for the names. `CANNOT_BE_PLANTED` has the
errors that a switch cannot be made to have, with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator

FOLDER = "tests/integration"
PROGRAMS = ("bess", "fastclick", "snabb", "vpp")
OVS = {"ovs-afxdp": "OvsAfxdp", "ovs-dpdk": "OvsDpdk", "ovs-netdev": "OvsNetdev"}
ROUTE_ERRORS = ("missing route", "wrong next-hop MAC", "wrong egress port")
UNCHANGED_TTL = "TTL not decremented"
LIST_ERRORS = ("swapped rules", "missing rule")
OFF = ("CIR 5 % too high", "CIR 5 % too low")
KERNEL = f"{FOLDER}/test_functions_kernel.py::"
IN_KERNEL = KERNEL + r"test_planted_error_is_found\[SWITCH-.*-ERROR\]"
IN_XDP = KERNEL + r"test_planted_error_in_xdp_program_is_found\[.*ERROR\]"
IN_PROGRAM = f"{FOLDER}/test_functions_programs.py::" + (
    r"test_planted_error_is_found\[SWITCH-.*-ERROR\]"
)
OVS_FILE = f"{FOLDER}/test_functions_ovs.py::"
IN_OVS = OVS_FILE + r"test_planted_error_is_found\[SWITCH-ERROR\]"
TUNNEL_TEST = r"test_planted_error_in_tunnels_is_found\[ERROR\]"

ROWS: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
    (("linux-router",), (*ROUTE_ERRORS, *LIST_ERRORS), IN_KERNEL),
    (
        ("linux-bridge",),
        (*LIST_ERRORS, "mirror without copies", "wrong VNI"),
        IN_KERNEL,
    ),
    (("xdp-redirect",), (*ROUTE_ERRORS, UNCHANGED_TTL, *LIST_ERRORS), IN_XDP),
    (
        ("tc-redirect",),
        ("mirror without copies",),
        KERNEL + r"test_planted_error_in_tc_filters_is_found\[ERROR\]",
    ),
    (PROGRAMS, (*ROUTE_ERRORS, *LIST_ERRORS, "wrong VLAN ID"), IN_PROGRAM),
    (("bess", "fastclick", "snabb"), (UNCHANGED_TTL,), IN_PROGRAM),
    (("bess", "fastclick", "vpp"), ("mirror without copies",), IN_PROGRAM),
    (("bess",), ("wrong VNI",), f"{FOLDER}/test_functions_bess.py::{TUNNEL_TEST}"),
    (("vpp",), ("wrong VNI",), f"{FOLDER}/test_functions_vpp.py::{TUNNEL_TEST}"),
    (
        tuple(OVS),
        (
            *ROUTE_ERRORS, UNCHANGED_TTL, *LIST_ERRORS, "wrong VLAN ID", "mirror without copies",
        ),
        IN_OVS,
    ),
    (tuple(OVS), ("wrong VNI",), OVS_FILE + r"test_wrong_vni_is_found\[SWITCH\]"),
    (
        ("linux-router", "linux-bridge", *PROGRAMS, *OVS),
        OFF,
        f"{FOLDER}/test_functions_policing.py::" + (
            r"test_planted_error_is_found\[SWITCH_NAME-ERROR\]"
        ),
    ),
)  # fmt: skip
CANNOT_BE_PLANTED = {
    ("linux-router", UNCHANGED_TTL): "the kernel always lowers the TTL",
    ("vpp", UNCHANGED_TTL): "VPP always lowers the TTL",
}


def found_by() -> Iterator[tuple[str, str, str]]:
    """Yield each switch and planted error with the expression for its test."""
    for switches, errors, pattern in ROWS:
        for switch in switches:
            for error in errors:
                named = pattern.replace("SWITCH_NAME", switch)
                named = named.replace("SWITCH", OVS.get(switch, switch))
                yield switch, error, named.replace("ERROR", re.escape(error))
