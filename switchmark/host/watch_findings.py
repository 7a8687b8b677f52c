"""Findings about the behaviour of a machine over some time: one line for each."""

from __future__ import annotations

from collections.abc import Iterator

from switchmark.formatting import format_duration
from switchmark.host.cores.watch import MachineWatch
from switchmark.host.diagnosis import Finding, Level

# Shares of the cores' time, and of the readings.
TAKEN_WORTH_NAMING = 0.02
TAKEN_TOO_MUCH = 0.10
SLOWED_WORTH_NAMING = 0.05


def findings(watch: MachineWatch, prove: float, proof_s: float | None) -> list[Finding]:
    """Return the findings. `proof_s`: the time in seconds after which a lead of `prove` between two
    contenders is proven here; None: longer than the usual time of a campaign."""
    return [
        *_lines(watch),
        *_clock(watch),
        _taken(
            "steal",
            watch.stolen_share,
            "given to other guests",
            "other guests of the hypervisor use your cores",
            "as far as this hypervisor reports it",
            "use a host without other guests, or pin the cores of this guest",
        ),
        _taken(
            "others",
            watch.others_share,
            "used by other programs",
            "other programs run, and such trials are marked disturbed",
            "too little to disturb",
            "stop them while you measure, or isolate cores",
        ),
        _proof(watch, prove, proof_s),
    ]


def _lines(watch: MachineWatch) -> Iterator[Finding]:
    topic = "cache line"
    if watch.lines is None:
        why = "one core" if len(watch.cores) < 2 else "the engine could not read it"
        yield Finding(topic, why, Level.NOTE, "the states of the machine cannot be recognised")
    elif (levels := watch.lines.lines) is None:
        yield Finding(
            topic,
            f"{watch.lines.line_ns:.0f} ns between cores {_cores(watch)}",
            Level.GOOD,
            "the host did not move your cores, so all trials can be compared",
        )
    else:
        fast, slow = f"{levels.fast_ns:.0f}", f"{levels.slow_ns:.0f}"
        yield Finding(
            topic,
            f"{fast} or {slow} ns between cores {_cores(watch)}",
            Level.NOTE,
            f"the host moves your cores {_how_often(watch)}, and rates depend on the time of a "
            "cache line; comparisons take the state of each trial into account",
        )


def _how_often(watch: MachineWatch) -> str:
    dwell_s = watch.lines.dwell_s if watch.lines else None
    if dwell_s is None:
        return "now and then"
    return f"about every {dwell_s:.0f} s" if dwell_s >= 1 else "more than once a second"


def _clock(watch: MachineWatch) -> Iterator[Finding]:
    if watch.clock is not None and watch.slowed_share > SLOWED_WORTH_NAMING:
        quick, slow = watch.clock.fast_ns, watch.clock.slow_ns
        yield Finding(
            "CPU speed",
            f"one addition takes {quick:.2f} or {slow:.2f} ns",
            Level.NOTE,
            f"during {watch.slowed_share:.0%} of the time another program shares the execution "
            "units of the cores, probably on an SMT sibling, which widens the spread of trials",
        )


def _taken(topic: str, share: float, whose: str, meaning: str, calm: str, remedy: str) -> Finding:
    value = f"{share:.0%} of the cores {whose}"
    if share < TAKEN_WORTH_NAMING:
        return Finding(topic, value, Level.GOOD, calm)
    level = Level.POOR if share > TAKEN_TOO_MUCH else Level.NOTE
    return Finding(topic, value, level, meaning, remedy)


def _proof(watch: MachineWatch, prove: float, proof_s: float | None) -> Finding:
    topic, pair = "proof", f"two switches {prove:.0%} apart"
    if proof_s is None:
        meaning = f"{pair} cannot be distinguished within the usual time; use `prove: 10%`"
        return Finding(topic, "more than 10 min", Level.NOTE, meaning)
    time = format_duration(round(proof_s))
    meaning = f"{pair} (`prove: {prove:.0%}`) can be distinguished in about {time}"
    if max(watch.stolen_share, watch.others_share) > TAKEN_TOO_MUCH:
        calm = f"{meaning} on idle cores, and later on busy ones"
        return Finding(topic, f"{time} at least", Level.NOTE, calm)
    return Finding(topic, f"about {time}", Level.GOOD, meaning)


def _cores(watch: MachineWatch) -> str:
    return " and ".join(map(str, watch.cores)) if len(watch.cores) == 2 else "of this machine"
