"""What a trial asks of a machine's cores, before they are handed out (placement.py)."""

from __future__ import annotations

from dataclasses import dataclass

from switchmark.model.choices import Idle


@dataclass(frozen=True, slots=True)
class Demand:
    """What has to be placed: the nodes of each pair, the switch, the cores that are named."""

    pairs: tuple[tuple[str, ...], ...]  # node names of each pair, the sender first
    polling_switch: bool  # Capabilities.polling
    in_kernel_switch: bool  # forwards in the sender's softirq (also a bare wire)
    switch_cores: int = 1
    idle: Idle = Idle.AUTO
    switch_cpus: tuple[int, ...] = ()  # as the campaign says; none: chosen here
    application_cpus: tuple[int, ...] = ()  # the same; dealt out in turn, ends before VNFs
    neighbour_cpus: tuple[int, ...] = ()  # of a noisy neighbour, as the campaign says
    unpinned_switch: bool = False  # the kernel moves its threads
    main_cpu: int | None = None  # of the switch's main thread; None: its own choice
    smt: str = "auto"  # or avoid, siblings
    numa: str = "auto"  # or same, other, generator-apart
    outside: tuple[str, ...] = ()  # the generator's nodes, where it is to be apart

    @property
    def nodes(self) -> list[str]:
        """All node names, pair by pair."""
        return [name for pair in self.pairs for name in pair]

    @property
    def names_nodes(self) -> bool:
        """Whether the campaign's choices put the trial on several NUMA nodes."""
        return self.numa in ("other", "generator-apart") or bool(
            self.application_cpus or self.switch_cpus
        )
