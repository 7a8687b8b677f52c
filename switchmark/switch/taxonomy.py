"""What kind of thing each switch is, in the terms of table 1 of Zhang et al., "Comparing the
Performance of State-of-the-Art Software Switches for NFV", CoNEXT 2019.

The rows of its seven switches are the paper's; the others are our reading of the same terms.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """One row of the table.

    `architecture`: `self-contained` (a data path of its own) or `modular` (one builds it from
    parts). `paradigm`: `structured` code or `match/action` tables. `processing`: `RTC` (one thread
    takes a frame from port to port, run to completion) or `pipeline`."""

    architecture: str
    paradigm: str
    processing: str
    reprogrammable: str  # while it runs: low, medium, high
    language: str
    purpose: str

    @property
    def short(self) -> str:
        """The classes alone, for a table."""
        return f"{self.architecture}, {self.paradigm}, {self.processing}"


SELF, MODULAR = "self-contained", "modular"
STRUCTURED, MATCH_ACTION = "structured", "match/action"
RTC, PIPELINE = "RTC", "pipeline"

TAXONOMY: dict[str, Taxonomy] = {
    "bess": Taxonomy(
        MODULAR, STRUCTURED, f"{RTC} or {PIPELINE}", "medium", "C, Python", "programmable NIC"
    ),
    "snabb": Taxonomy(MODULAR, STRUCTURED, PIPELINE, "high", "Lua, C", "VM-to-VM"),
    "ovs-dpdk": Taxonomy(SELF, MATCH_ACTION, RTC, "medium", "C", "SDN switch"),
    "fastclick": Taxonomy(MODULAR, STRUCTURED, RTC, "low", "C++", "modular router"),
    "vpp": Taxonomy(SELF, STRUCTURED, RTC, "medium", "C", "full router"),
    "vale": Taxonomy(SELF, STRUCTURED, RTC, "low", "C", "virtual L2 Ethernet"),
    "t4p4s": Taxonomy(SELF, MATCH_ACTION, RTC, "medium", "C, Python", "P4 switch"),
    # Not in the paper.
    "linux-bridge": Taxonomy(SELF, STRUCTURED, RTC, "low", "C", "L2 bridge of the kernel"),
    "tc-redirect": Taxonomy(MODULAR, MATCH_ACTION, RTC, "high", "C", "traffic control"),
    "xdp-redirect": Taxonomy(MODULAR, STRUCTURED, RTC, "high", "BPF", "programmable driver hook"),
    "macvlan": Taxonomy(SELF, STRUCTURED, RTC, "low", "C", "several addresses on one device"),
    "ovs": Taxonomy(SELF, MATCH_ACTION, RTC, "medium", "C", "SDN switch"),
    "ovs-netdev": Taxonomy(SELF, MATCH_ACTION, RTC, "medium", "C", "SDN switch"),
    "ovs-afxdp": Taxonomy(SELF, MATCH_ACTION, RTC, "medium", "C", "SDN switch"),
    "af-packet": Taxonomy(SELF, STRUCTURED, RTC, "low", "C", "port-to-port forwarding"),
    "basicfwd": Taxonomy(SELF, STRUCTURED, RTC, "low", "C", "port-to-port forwarding"),
    "testpmd": Taxonomy(SELF, STRUCTURED, RTC, "low", "C", "test of DPDK ports"),
    "sriov": Taxonomy(SELF, MATCH_ACTION, "in hardware", "low", "-", "virtual functions of a NIC"),
}
