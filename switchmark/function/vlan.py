"""`vlan`: the switch pushes an IEEE 802.1Q tag on one way of each pair of ports, and pops it on the
way back.

One port of a pair is an access port, whose frames have no tag, the other one a trunk port, whose
frames have the tag of one VLAN. `direction` is the work on the way from even to odd ports: `push`
makes odd ports the trunk ports, `pop` even ports. `both` is `push` for traffic both ways. A tag is
pushed with priority 0. A frame that enters a trunk port without a tag, or with another VLAN ID, is
dropped. A frame with a tag that enters an access port is not defined here, and not tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from switchmark.errors import Refusal
from switchmark.function.support.functions import Case, Passing
from switchmark.function.support.samples import load_frame
from switchmark.function.support.table import FunctionTable, Vlan
from switchmark.model.choices import Dimension
from switchmark.model.functions import ROUTE
from switchmark.model.traffic import Vlan as Tags
from switchmark.model.traffic import smallest_frame
from switchmark.model.trial import Trial

DIRECTIONS = ("push", "pop", "both")
LARGEST_VID = 4094


class VlanFunction:
    """Access and trunk ports of one VLAN."""

    name = "vlan"
    meaning = (
        "an IEEE 802.1Q tag is pushed on one way of a pair of ports, and popped on the way back"
    )
    filters = False
    keys = ("vid", "direction")
    scale_key: str | None = None
    unit = ""

    def refusals(self, trial: Trial) -> Iterator[Refusal]:
        """Refuse a base that has no pairs of ports, directions of other functions, other tags, and
        frames without room for the tag."""
        if trial.function.base == ROUTE:
            yield Refusal("vlan works on pairs of ports, which a router has not",
                          "use function: forward+vlan", key="function")  # fmt: skip
        direction = trial.direction
        if direction not in ("auto", *DIRECTIONS):
            yield Refusal(f"{direction} is a direction of function vxlan", "use push, pop or both",
                          key="direction")  # fmt: skip
        two_ways = trial.bidirectional or trial.dimension is Dimension.LATENCY
        if direction == "both" and not two_ways:
            yield Refusal("both needs traffic both ways", "use push or pop, or dimension: latency",
                          key="direction")  # fmt: skip
        if trial.vlan:
            yield Refusal(f"{trial.vlan} is a tag of the load, and function vlan sets the tags",
                          "leave it out", key="vlan")  # fmt: skip
        least = smallest_frame(trial.ip_version, Tags.of(str(trial.vid)))
        if (direction in ("pop", "both") or two_ways) and trial.frame_sizes.smallest < least:
            yield Refusal(
                f"{trial.frame_sizes.smallest} is too short for a frame with a tag, which is "
                "popped",
                f"use {least} or more", key="packet_size",
            )  # fmt: skip

    def fill(self, table: FunctionTable, trial: Trial) -> FunctionTable:
        """Set the VLAN."""
        direction = "push" if trial.direction == "auto" else trial.direction
        return replace(table, vlan=Vlan(trial.vid, direction))

    def apply(self, table: FunctionTable, passing: Passing) -> Passing | None:
        """Pop the tag that comes from a trunk port, and push it towards a trunk port."""
        assert table.vlan is not None and passing.egress is not None
        frame, vlan = passing.frame, table.vlan
        if vlan.is_trunk(passing.ingress):
            if frame.vid != vlan.vid:
                return None
            frame = replace(frame, vid=None, priority=0)
        if vlan.is_trunk(passing.egress):
            frame = replace(frame, vid=vlan.vid, priority=0)
        return replace(passing, frame=frame)

    def cases(self, table: FunctionTable) -> Iterator[Case]:
        """Yield a frame at each port as its kind has them; and at trunk ports frames without a tag,
        and of the next VLAN."""
        assert table.vlan is not None
        vid = table.vlan.vid
        other = vid + 1 if vid < LARGEST_VID else vid - 1
        for port in table.ports:
            where = port.index
            if not table.vlan.is_trunk(where):
                yield Case(f"a frame without a tag at access port {where}",
                           load_frame(table, where))  # fmt: skip
                continue
            yield Case(f"a frame of VLAN {vid} at trunk port {where}",
                       load_frame(table, where, vid=vid))  # fmt: skip
            yield Case(f"a frame of VLAN {other} at trunk port {where}, which must be dropped",
                       load_frame(table, where, vid=other))  # fmt: skip
            yield Case(f"a frame without a tag at trunk port {where}, which must be dropped",
                       load_frame(table, where))  # fmt: skip


FUNCTION = VlanFunction()
