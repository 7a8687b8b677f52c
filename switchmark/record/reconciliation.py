"""Where frames were lost: the counters of switch and applications against each other."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field, model_validator

from switchmark.model.value import Amount, Count, Value

Place = Literal[
    "into the switch",
    "in the switch",
    "in the chain",
    "in the relay",  # a program that ends the connections: its packets are its own
    "between the hosts",  # in either switch, in a chain that is cut in two, or on the cable
    "out of the switch",
    "on the wire",
]
RELAY: Final = "in the relay"


class Stage(Value):
    """One part of a path: frames that went in less frames that came out, and how many of those were
    counted as dropped."""

    place: Place
    lost: int  # below 0: more came out than went in
    counted: Count  # frames in the drop counters of this place
    unexplained: int  # lost frames that no counter explains

    @model_validator(mode="after")
    def _only_the_rest_is_unexplained(self) -> Stage:
        if self.unexplained != min(self.lost, max(0, self.lost - self.counted)):
            raise ValueError(
                f"{self.place}: of {self.lost} lost and {self.counted} counted frames, "
                f"{self.unexplained} is not what is left unexplained"
            )
        return self


class FramePath(Value):
    """The frames that went one way through one pair, as each station counted them."""

    pair: Count
    sender: str  # node
    receiver: str
    not_sent: Count  # wanted by the schedule, and never accepted by the sender's port
    sent: Count
    switch_received: Count | None  # None: the switch counts nothing
    switch_sent: Count | None
    arrived: Count  # whatever it was, and whether or not it was ours
    stages: list[Stage]

    @model_validator(mode="after")
    def _stages_add_up(self) -> FramePath:
        lost = sum(stage.lost for stage in self.stages)
        if lost != self.sent - self.arrived:
            raise ValueError(
                f"pair {self.pair}: its stages lose {lost} frames of {self.sent} sent, and "
                f"{self.arrived} arrived"
            )
        return self


class ChainFrames(Value):
    """Frames that one of several parallel chains carried, by the switch's counters."""

    chain: Count
    entered: Count  # frames that the switch sent to its first VNF
    left: Count  # and received from its last


class Reconciliation(Value):
    """The switch's counters compared with the applications': the lost frames of each place."""

    paths: list[FramePath]
    sent: Count
    unexplained_frames: Count  # over all stages, too few and too many alike
    unexplained_ratio: Amount  # unexplained frames over sent frames
    agrees: bool  # at most 0.01 % is unexplained
    chains: list[ChainFrames] = Field(default_factory=list)  # where a stream was split
    cable_lost: Count = 0  # left one host's switch and never entered the other's
    findings: list[str]  # one sentence for each place where frames were lost, or appeared

    @model_validator(mode="after")
    def _sums_are_sums(self) -> Reconciliation:
        all_stages = [stage for path in self.paths for stage in path.stages]
        stages = [stage for stage in all_stages if stage.place != RELAY]
        if self.unexplained_frames != sum(abs(stage.unexplained) for stage in stages):
            raise ValueError("reconciliation.unexplained_frames is not the sum of its stages")
        if self.sent != sum(path.sent for path in self.paths):
            raise ValueError("reconciliation.sent is not the sum of its paths")
        return self
