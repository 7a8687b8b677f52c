"""The evidence by which the figures of a trial are judged: observations during the trial, and the
baseline."""

from __future__ import annotations

from dataclasses import dataclass

from switchmark.engine.events import FrameCounters


@dataclass(frozen=True, slots=True)
class Baseline:
    """The result of the same trial without a switch (`direct`); None if it was not measured."""

    forwarded_pps: float | None = None
    transfer_per_s: float | None = None  # for an application, in the unit of its workload
    rtt_median_ns: float | None = None
    ns_per_frame: float | None = None  # CPU time
    met_its_load: bool = False  # a paced baseline that carried its load is not a ceiling
    source: str = ""  # origin of the baseline, if it is not from this run


@dataclass(frozen=True, slots=True)
class Evidence:
    """Observations of one trial, over the kept window unless the name says otherwise."""

    sender: FrameCounters  # summed counters of all senders (or clients)
    receiver: FrameCounters  # summed counters of all receivers
    baseline: Baseline
    kept_samples: int  # in the pair with the fewest
    on_schedule: bool  # every paced sender kept its schedule
    in_kernel: bool  # the switch runs in its callers' context, without its own process
    cpu_wait_share: float  # largest share of time an application waited for a core
    others_cores: float  # used by other programs or guests meanwhile
    # Share of the time in which a polling switch waited for its core.
    switch_wait_share: float = 0.0
    sent_frames: int = 0  # in the whole trial, like `socket_drops` and the loss
    socket_drops: int = 0  # frames dropped at the applications' own sockets
    sample_noise_pps: float = 0.0  # the largest deviation that bursts alone give to samples
    two_bands: bool = False  # the samples of the run fall into two groups
    witness_frames: int = 0  # left the switch's third port during the measurement
    counters_agree: bool = True  # between switch and applications
    stretch: float = 0.0  # share of its duration by which a sender ran too long
    cable_lost: int = 0  # frames lost between two hosts
    throttled: bool = False  # the CPU quota of everything was used up
    limit_in_force: bool = True  # the limit of the switch's CPU time, if one was set
    faults: tuple[str, ...] = ()  # reasons why results of applications are partial
    contradictions: tuple[str, ...] = ()  # between the applications' counters
    uncertain_losses: tuple[str, ...] = ()  # known between two bounds only
    engines_are_fast: bool = True  # built with optimisation, without sanitizers and coverage
    emulated: bool = False  # a virtual machine ran without hardware acceleration
    function_violations: int = 0  # frames that a function treated wrongly, or changed tables
    clock_step_ns: float = 0.0  # the coarsest clock of all applications
    counts_polls: bool = True  # the applications count their calls
    shared: bool = False  # other senders used the network
    network_changed: bool = False  # since the first trial of the run

    @property
    def idle_share(self) -> float:
        """The share of the receivers' polls that found nothing. Near 0 they never waited."""
        idle = self.receiver.idle_polls
        polls = idle + self.receiver.useful_polls
        return idle / polls if polls else 1.0

    @property
    def refused_share(self) -> float:
        """The share of transmit calls that met a full ring: the port pushed back."""
        polls = self.sender.tx_polls
        return self.sender.ring_full_polls / polls if polls else 0.0

    @property
    def stray_frames(self) -> int:
        """Frames that arrived at a wrong port: that of another pair, or the monitor port."""
        return self.witness_frames + self.sender.rx_foreign + self.receiver.rx_foreign

    @property
    def corrupt_frames(self) -> int:
        """Frames that arrived damaged, answers included."""
        return self.sender.rx_corrupt + self.receiver.rx_corrupt
