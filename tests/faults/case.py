"""A case of the matrix, drawn by its seed: the same seed is the same case where the same can be
drawn. Each part is drawn by itself, so that what else a machine has does not change it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.faults.inflict import FAULTS, Fault
from tests.faults.phases import PHASES
from tests.integration.ordinary_user import SWITCHES as USER_SWITCHES

LOCAL, REMOTE, HOST = "local", "remote", "host"
ROOT, USER = "root", "user"  # who runs the bench
USER_SHARE = 0.3  # of the cases that an ordinary user's bench can have
REMOTE_SHARE = 0.25  # of the cases that can be between two hosts: they take twice as long
CONTAINED_SHARE = 0.3  # of the cases whose switch can be elsewhere than on the host
# Between two hosts others have more than two cores can give: both hosts are this machine.
BETWEEN = ("linux-bridge", "tc-redirect", "ovs-netdev", "af-packet")


@dataclass(frozen=True, slots=True)
class There:
    """What can be drawn: on this machine, and as far as it is asked for."""

    pairs: Sequence[tuple[str, str]]  # of a switch and an environment
    faults: Sequence[Fault] = tuple(FAULTS)
    phases: Sequence[str] = tuple(PHASES)
    locations: Sequence[str] = (LOCAL, REMOTE)
    places: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of a switch
    users: Sequence[str] = (ROOT,)


@dataclass(frozen=True, slots=True)
class Case:
    """What is done to a bench, and when."""

    seed: int
    fault: Fault
    phase: str
    switch: str
    environment: str
    finished_before: int  # trials, of the two that the campaign has
    delay: float  # share of the phase's first moments that passes before the fault
    location: str = LOCAL
    place: str = HOST  # the switch's environment
    user: str = ROOT


def draw(seed: int, there: There) -> Case:
    """The case of this seed, among what can be drawn."""

    def of(part: str) -> random.Random:
        return random.Random(f"{seed} {part}")

    faults = [one for one in there.faults if USER in there.users or not one.only_user]
    fault = of("fault").choice(faults)
    own = fault.phases or list(PHASES)
    phase = of("phase").choice([one for one in own if one in there.phases] or list(there.phases))
    switch, environment = of("pair").choice(_pairs(fault, there))
    location = _location(of("location"), fault, switch, environment, there)
    place = HOST if fault.only_user else _place(of("place"), switch, location, there)
    return Case(
        seed=seed,
        fault=fault,
        phase=phase,
        switch=switch,
        environment=environment,
        finished_before=0 if phase == "plan" else of("trial").randrange(2),
        delay=of("delay").random(),
        location=location,
        place=place,
        user=_user(of("user"), fault, (switch, environment, location, place), there),
    )


def _pairs(fault: Fault, there: There) -> list[tuple[str, str]]:
    """Those that it can befall, where they can be between two hosts if it needs these."""
    pairs = fault.pairs_of(there.pairs)
    far = [one for one in pairs if one[0] in BETWEEN]
    return far or pairs if fault.location == REMOTE else pairs


def _location(rng: random.Random, fault: Fault, switch: str, environment: str, there: There) -> str:
    can = fault.travels and switch in BETWEEN and environment == "netns"
    if fault.location == REMOTE or (can and LOCAL not in there.locations):
        return REMOTE
    return REMOTE if can and REMOTE in there.locations and rng.random() < REMOTE_SHARE else LOCAL


def _user(rng: random.Random, fault: Fault, where: tuple[str, ...], there: There) -> str:
    switch, *rest = where
    can = fault.user and switch in USER_SWITCHES and rest == ["netns", LOCAL, HOST]
    if not can or USER not in there.users:
        return ROOT
    return USER if fault.only_user or ROOT not in there.users or rng.random() < USER_SHARE else ROOT


def _place(rng: random.Random, switch: str, location: str, there: There) -> str:
    """(Between two hosts the switches are on the hosts themselves.)"""
    places = there.places.get(switch, ())
    elsewhere = [one for one in places if one != HOST]
    if location == REMOTE or not elsewhere:
        return HOST
    contained = HOST not in places or rng.random() < CONTAINED_SHARE
    return rng.choice(elsewhere) if contained else HOST
