"""A case of the matrix, drawn by its seed: the same seed gives the same case from the same choices.
Each part is drawn separately, so that other features of a machine do not change it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.faults.inflict import FAULTS, Fault
from tests.faults.phases import PHASES
from tests.integration.ordinary_user import SWITCHES as USER_SWITCHES

LOCAL, REMOTE, HOST = "local", "remote", "host"
ROOT, USER = "root", "user"  # the user of the bench
USER_SHARE = 0.3  # share of the cases that are possible for an ordinary user
REMOTE_SHARE = 0.25  # share of the cases that can use two hosts; they take twice as long
CONTAINED_SHARE = 0.3  # share of the cases whose switch can be in a container
# Other switches between two hosts need more than two cores, as both hosts are this machine.
BETWEEN = ("linux-bridge", "tc-redirect", "ovs-netdev", "af-packet")


@dataclass(frozen=True, slots=True)
class Scope:
    """The choices: possible on this machine and requested."""

    pairs: Sequence[tuple[str, str]]  # switch and environment
    faults: Sequence[Fault] = tuple(FAULTS)
    phases: Sequence[str] = tuple(PHASES)
    locations: Sequence[str] = (LOCAL, REMOTE)
    places: Mapping[str, Sequence[str]] = field(default_factory=dict)  # environments of each switch
    users: Sequence[str] = (ROOT,)


@dataclass(frozen=True, slots=True)
class Case:
    """A fault of a bench, and its moment."""

    seed: int
    fault: Fault
    phase: str
    switch: str
    environment: str
    finished_before: int  # finished trials, of two
    delay: float  # share of the phase's start that passes before the fault
    location: str = LOCAL
    place: str = HOST  # the switch's environment
    user: str = ROOT


def draw(seed: int, scope: Scope) -> Case:
    """Return the case of this seed among the choices."""

    def of(part: str) -> random.Random:
        return random.Random(f"{seed} {part}")

    faults = [one for one in scope.faults if USER in scope.users or not one.only_user]
    fault = of("fault").choice(faults)
    phases_of_fault = fault.phases or list(PHASES)
    phase = of("phase").choice(
        [one for one in phases_of_fault if one in scope.phases] or list(scope.phases)
    )
    switch, environment = of("pair").choice(_pairs(fault, scope))
    location = _location(of("location"), fault, switch, environment, scope)
    place = HOST if fault.only_user else _place(of("place"), switch, location, scope)
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
        user=_user(of("user"), fault, (switch, environment, location, place), scope),
    )


def _pairs(fault: Fault, scope: Scope) -> list[tuple[str, str]]:
    """Return the pairs that it applies to; between two hosts if the fault needs them."""
    pairs = fault.pairs_of(scope.pairs)
    far = [one for one in pairs if one[0] in BETWEEN]
    return far or pairs if fault.location == REMOTE else pairs


def _location(rng: random.Random, fault: Fault, switch: str, environment: str, scope: Scope) -> str:
    can_be_remote = fault.travels and switch in BETWEEN and environment == "netns"
    if fault.location == REMOTE or (can_be_remote and LOCAL not in scope.locations):
        return REMOTE
    return (
        REMOTE
        if can_be_remote and REMOTE in scope.locations and rng.random() < REMOTE_SHARE
        else LOCAL
    )


def _user(rng: random.Random, fault: Fault, where: tuple[str, ...], scope: Scope) -> str:
    switch, *rest = where
    can_be_user = fault.user and switch in USER_SWITCHES and rest == ["netns", LOCAL, HOST]
    if not can_be_user or USER not in scope.users:
        return ROOT
    return USER if fault.only_user or ROOT not in scope.users or rng.random() < USER_SHARE else ROOT


def _place(rng: random.Random, switch: str, location: str, scope: Scope) -> str:
    """Draw the environment of the switch; between two hosts it is always on the host."""
    places = scope.places.get(switch, ())
    elsewhere = [one for one in places if one != HOST]
    if location == REMOTE or not elsewhere:
        return HOST
    contained = HOST not in places or rng.random() < CONTAINED_SHARE
    return rng.choice(elsewhere) if contained else HOST
