"""Findings about a machine that was watched: what its behaviour means for results, a line each."""

from __future__ import annotations

from collections.abc import Iterator

from switchmark.formatting import format_duration
from switchmark.host.cores.watch import MachineWatch
from switchmark.host.diagnosis import Finding, Level

TAKEN_WORTH_NAMING = 0.02  # of the cores
TAKEN_TOO_MUCH = 0.10
SLOWED_WORTH_NAMING = 0.05  # of the readings


def findings(seen: MachineWatch, prove: float, proof_s: float | None) -> list[Finding]:
    """The findings. `proof_s`: how long two contenders that are `prove` apart take to be told from
    each other here, in seconds; None: longer than a campaign usually has."""
    return [
        *_lines(seen),
        *_clock(seen),
        _taken(
            "steal",
            seen.stolen_share,
            "given to other guests",
            "other guests of the hypervisor use your cores",
            "as far as this hypervisor reports it",
            "use a host without other guests, or pin the cores of this guest",
        ),
        _taken(
            "others",
            seen.others_share,
            "used by other programs",
            "other programs run, and such trials are marked disturbed",
            "too little to disturb",
            "stop them while you measure, or isolate cores",
        ),
        _proof(seen, prove, proof_s),
    ]


def _lines(seen: MachineWatch) -> Iterator[Finding]:
    topic = "cache line"
    if seen.lines is None:
        why = "one core" if len(seen.cores) < 2 else "the engine could not read it"
        yield Finding(topic, why, Level.NOTE, "the states of the machine cannot be recognised")
    elif (levels := seen.lines.lines) is None:
        yield Finding(
            topic,
            f"{seen.lines.line_ns:.0f} ns between cores {_cores(seen)}",
            Level.GOOD,
            "the host did not move your cores, so all trials can be compared",
        )
    else:
        near, far = f"{levels.near_ns:.0f}", f"{levels.far_ns:.0f}"
        yield Finding(
            topic,
            f"{near} or {far} ns between cores {_cores(seen)}",
            Level.NOTE,
            f"the host moves your cores {_how_often(seen)}, and rates depend on the time of a "
            "cache line; comparisons take the state of each trial into account",
        )


def _how_often(seen: MachineWatch) -> str:
    dwell_s = seen.lines.dwell_s if seen.lines else None
    if dwell_s is None:
        return "now and then"
    return f"about every {dwell_s:.0f} s" if dwell_s >= 1 else "more than once a second"


def _clock(seen: MachineWatch) -> Iterator[Finding]:
    if seen.clock is not None and seen.slowed_share > SLOWED_WORTH_NAMING:
        quick, slow = seen.clock.near_ns, seen.clock.far_ns
        yield Finding(
            "CPU speed",
            f"one addition takes {quick:.2f} or {slow:.2f} ns",
            Level.NOTE,
            f"during {seen.slowed_share:.0%} of the time another program shares the execution "
            "units of the cores, probably on an SMT sibling, which widens the spread of trials",
        )


def _taken(topic: str, share: float, whose: str, meaning: str, calm: str, remedy: str) -> Finding:
    told = f"{share:.0%} of the cores {whose}"
    if share < TAKEN_WORTH_NAMING:
        return Finding(topic, told, Level.GOOD, calm)
    level = Level.POOR if share > TAKEN_TOO_MUCH else Level.NOTE
    return Finding(topic, told, level, meaning, remedy)


def _proof(seen: MachineWatch, prove: float, proof_s: float | None) -> Finding:
    topic, what = "proof", f"two switches {prove:.0%} apart"
    if proof_s is None:
        meaning = f"{what} cannot be distinguished within the usual time; use `prove: 10%`"
        return Finding(topic, "more than 10 min", Level.NOTE, meaning)
    time = format_duration(round(proof_s))
    meaning = f"{what} (`prove: {prove:.0%}`) can be distinguished in about {time}"
    if max(seen.stolen_share, seen.others_share) > TAKEN_TOO_MUCH:
        calm = f"{meaning} on idle cores, and later on busy ones"
        return Finding(topic, f"{time} at least", Level.NOTE, calm)
    return Finding(topic, f"about {time}", Level.GOOD, meaning)


def _cores(seen: MachineWatch) -> str:
    return " and ".join(map(str, seen.cores)) if len(seen.cores) == 2 else "of this machine"
