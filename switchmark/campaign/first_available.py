"""`first_available`: a campaign lists switches and environments in order of preference, and the
first ones that can run are measured, up to a given number.

    switch: [linux-bridge, basicfwd, ovs-dpdk, testpmd]
    environment: [lxc, netns, bare]
    first_available: {switch: 3, environment: 1}

The functions are pure: the caller decides which switches can run, and gives the reasons.
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
    """The values of one key that were taken, and the preferred values that are not available."""

    key: str  # switch or environment
    taken: tuple[str, ...]
    count: int  # requested number of values
    left_out: Mapping[str, Availability]
    substitutes: tuple[str, ...]  # taken values that are not among the first `count`
    refused: Mapping[str, Availability]  # all values of the list if none of them can run


def refusals_of(choice: Choice) -> list[str]:
    """Return why none of the values can run, as lines that begin with their names; empty if values
    were taken."""
    if not choice.refused:
        return []
    plural = "switches" if choice.key == "switch" else "environments"
    groups = _by_reason(choice.refused)
    reasons = [f"{in_words(names)}: {answer.refusal}" for answer, names in groups.items()]
    return [f"none of the {plural} can run here", *reasons]


def sentence(choices: Iterable[Choice], noun: Noun = lambda _: "") -> str | None:
    """Return which values were left out, why, and their substitutes; None if all can run."""
    given: set[Availability] = set()  # the reasons in earlier parts of the sentence
    parts = []
    for choice in choices:
        if choice.left_out:
            clause = _switches if choice.key == "switch" else _environments
            parts.append(clause(choice, _reasons(choice.left_out, given), noun))
            given.update(choice.left_out.values())
    return "; ".join(parts) or None


def _switches(choice: Choice, reasons: str, _noun: Noun) -> str:
    names = list(choice.left_out)
    subject = f"the switch {names[0]} was" if len(names) == 1 else f"{in_words(names)} were"
    return f"{subject} left out {reasons}, and {_instead(choice)}"


def _instead(choice: Choice) -> str:
    if not choice.substitutes:
        return f"only {in_words(choice.taken)} can run here"
    verb = "is" if len(choice.substitutes) == 1 else "are"
    enough = len(choice.taken) == choice.count
    end = "" if enough else "; of the others in the campaign's list, none can run here"
    return f"{in_words(choice.substitutes)} {verb} measured instead{end}"


def _environments(choice: Choice, reasons: str, noun: Noun) -> str:
    used = [_with_noun(name, noun, "environment ") for name in choice.taken]
    unused = [_with_noun(name, noun) for name in choice.left_out]
    instead_of = in_words(unused, "or")
    return f"the traffic applications are {in_words(used)}, not {instead_of}, {reasons}"


def _with_noun(name: str, noun: Noun, article: str = "") -> str:
    return f"{text} ({article}{name})" if (text := noun(name)) else f"in {article}{name}"


def _reasons(left_out: Mapping[str, Availability], given: set[Availability]) -> str:
    """Return the reasons as a clause, without a reason that the sentence has already given."""
    groups = _by_reason(left_out)
    if len(groups) == 1:
        (reason,) = groups
        return "for the same reason" if reason in given else f"because {reason.clause}"
    parts = [f"{in_words(names)}: {reason.clause}" for reason, names in groups.items()]
    return f"({'; '.join(parts)})"


def _by_reason(answers: Mapping[str, Availability]) -> dict[Availability, list[str]]:
    groups: dict[Availability, list[str]] = {}
    for name, reason in answers.items():
        groups.setdefault(reason, []).append(name)
    return groups


def in_words(names: Sequence[str], conjunction: str = "and") -> str:
    """Return the names as a part of a sentence: `a, b and c`."""
    return f" {conjunction} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def choose(
    campaign: CampaignDefinition,
    environment_problem: Callable[[str], Availability],
    switch_problem: Callable[[Sweep, str], Availability],
) -> tuple[CampaignDefinition, list[Choice]]:
    """Return the campaign with the first available environments and switches, up to its numbers. A
    switch is available if it can run in each sweep that lists it. If nothing is available, the
    first ones remain, and the choice has the reasons (`refusals_of`)."""
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
    """Return the campaign with the first switches and environments that the rules permit."""

    def switch_problem(sweep: Sweep, name: str) -> Availability:
        return refusal(sweep, name, capabilities, environment_ports)

    return choose(campaign, lambda _: available(None), switch_problem)[0]


def refusal(
    sweep: Sweep,
    name: str,
    capabilities: Mapping[str, Capabilities],
    environment_ports: Mapping[str, Sequence[PortKind]] | None,
) -> Availability:
    """Return the first reason of the rules against a switch in a sweep."""
    first = next(refusals(sweep, name, capabilities, environment_ports), None)
    return available(None) if first is None else unavailable(first.reason)


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
        return Choice(key, tuple(listed[:count]), count, {}, (), answers)
    preferred = answers if len(taken) == count else listed[:count]
    left_out = {name: answers[name] for name in preferred if not answers[name].available}
    substitutes = tuple(name for name in taken if name not in listed[:count])
    return Choice(key, tuple(taken), count, left_out, substitutes, {})


def _only(campaign: CampaignDefinition, choice: Choice) -> CampaignDefinition:
    sweeps = []
    for sweep in campaign.sweeps:
        values = tuple(name for name in getattr(sweep, choice.key) if name in choice.taken)
        sweeps += [sweep.model_copy(update={choice.key: values})] if values else []
    return campaign.model_copy(update={"sweeps": tuple(sweeps)})
