"""`first_available`: a campaign lists switches and environments in order of preference, and so many
of them are measured as it says: the first ones that can run.

    switch: [linux-bridge, basicfwd, ovs-dpdk, testpmd]
    environment: [lxc, netns, bare]
    first_available: {switch: 3, environment: 1}

Pure: the caller decides which ones can run. A refusal is remembered with its reason, for the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from switchmark.campaign.rules.switch import refusals
from switchmark.model.campaign import CampaignDefinition, Sweep
from switchmark.model.capabilities import Availability, Capabilities, available, unavailable
from switchmark.model.ports import PortKind

Noun = Callable[[str], str]  # a noun for the nodes of an environment; empty: none


@dataclass(frozen=True, slots=True)
class Choice:
    """The values of one key that were taken, and the preferred ones that cannot be had."""

    key: str  # switch or environment
    taken: tuple[str, ...]
    wanted: int
    left_out: Mapping[str, Availability]
    substitutes: tuple[str, ...]  # those of the taken that are not among the first `wanted`


def sentence(choices: Iterable[Choice], noun: Noun = lambda _: "") -> str | None:
    """Return which values were left out, why, and their substitutes; None if all can run."""
    told: set[Availability] = set()
    parts = []
    for choice in choices:
        if choice.left_out:
            say = _switches if choice.key == "switch" else _environments
            parts.append(say(choice, _reasons(choice.left_out, told), noun))
            told.update(choice.left_out.values())
    return "; ".join(parts) or None


def _switches(choice: Choice, reasons: str, _noun: Noun) -> str:
    names = list(choice.left_out)
    subject = f"the switch {names[0]} was" if len(names) == 1 else f"{in_words(names)} were"
    return f"{subject} left out {reasons}, and {_instead(choice)}"


def _instead(choice: Choice) -> str:
    if not choice.substitutes:
        return f"only {in_words(choice.taken)} can run here"
    verb = "is" if len(choice.substitutes) == 1 else "are"
    enough = len(choice.taken) == choice.wanted
    end = "" if enough else "; of the others in the campaign's list, none can run here"
    return f"{in_words(choice.substitutes)} {verb} measured instead{end}"


def _environments(choice: Choice, reasons: str, noun: Noun) -> str:
    used = [_with_noun(name, noun, "environment ") for name in choice.taken]
    unused = [_with_noun(name, noun) for name in choice.left_out]
    instead_of = in_words(unused, "or")
    return f"the traffic applications are {in_words(used)}, not {instead_of}, {reasons}"


def _with_noun(name: str, noun: Noun, article: str = "") -> str:
    return f"{words} ({article}{name})" if (words := noun(name)) else f"in {article}{name}"


def _reasons(left_out: Mapping[str, Availability], told: set[Availability]) -> str:
    """The reasons, each once: also if an earlier part of the sentence has given it."""
    groups: dict[Availability, list[str]] = {}
    for name, answer in left_out.items():
        groups.setdefault(answer, []).append(name)
    if len(groups) == 1:
        (answer,) = groups
        return "for the same reason" if answer in told else f"because {answer.clause}"
    parts = [f"{in_words(names)}: {answer.clause}" for answer, names in groups.items()]
    return f"({'; '.join(parts)})"


def in_words(names: Sequence[str], conjunction: str = "and") -> str:
    """The names as a part of a sentence: `a, b and c`."""
    return f" {conjunction} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def choose(
    campaign: CampaignDefinition,
    environment_problem: Callable[[str], Availability],
    switch_problem: Callable[[Sweep, str], Availability],
) -> tuple[CampaignDefinition, list[Choice]]:
    """The campaign with the first available environments and switches, as many as it asks for. A
    switch is available if each sweep that lists it can have it. If nothing at all is available, the
    first ones remain, so that they are refused by name."""
    choices = []
    if (count := campaign.first_available.environment) is not None:
        names = dict.fromkeys(name for sweep in campaign.sweeps for name in sweep.environment)
        choices.append(_choose("environment", names, count, environment_problem))
        campaign = _only(campaign, choices[-1])
    if (count := campaign.first_available.switch) is not None:

        def problem(name: str) -> Availability:
            answers = (switch_problem(s, name) for s in campaign.sweeps if name in s.switch)
            return next((one for one in answers if not one.available), available(None))

        names = dict.fromkeys(name for sweep in campaign.sweeps for name in sweep.switch)
        choices.append(_choose("switch", names, count, problem))
        campaign = _only(campaign, choices[-1])
    return campaign, choices[::-1]


def choose_on_paper(
    campaign: CampaignDefinition,
    capabilities: Mapping[str, Capabilities],
    environment_ports: Mapping[str, Sequence[PortKind]] | None,
) -> CampaignDefinition:
    """The same without a machine: the first ones that the rules allow."""

    def switch_problem(sweep: Sweep, name: str) -> Availability:
        return refusal(sweep, name, capabilities, environment_ports)

    return choose(campaign, lambda _: available(None), switch_problem)[0]


def refusal(
    sweep: Sweep,
    name: str,
    capabilities: Mapping[str, Capabilities],
    environment_ports: Mapping[str, Sequence[PortKind]] | None,
) -> Availability:
    """The first reason of the rules against a switch in a sweep."""
    found = next(refusals(sweep, name, capabilities, environment_ports), None)
    return available(None) if found is None else unavailable(found.reason)


def _choose(
    key: str, names: Iterable[str], count: int, problem: Callable[[str], Availability]
) -> Choice:
    listed = list(names)
    answers: dict[str, Availability] = {}
    for name in listed:
        if sum(one.available for one in answers.values()) == count:
            break
        answers[name] = problem(name)
    taken = [name for name, answer in answers.items() if answer.available]
    if not taken:
        return Choice(key, tuple(listed[:count]), count, {}, ())
    told = answers if len(taken) == count else listed[:count]  # the others were not preferred
    left_out = {name: answers[name] for name in told if not answers[name].available}
    substitutes = tuple(name for name in taken if name not in listed[:count])
    return Choice(key, tuple(taken), count, left_out, substitutes)


def _only(campaign: CampaignDefinition, choice: Choice) -> CampaignDefinition:
    sweeps = []
    for sweep in campaign.sweeps:
        values = tuple(name for name in getattr(sweep, choice.key) if name in choice.taken)
        sweeps += [sweep.model_copy(update={choice.key: values})] if values else []
    return campaign.model_copy(update={"sweeps": tuple(sweeps)})
